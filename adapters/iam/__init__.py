"""Who is calling and what they may do: the embedded access file here, Better IAM beside it."""
