"""Better IAM over HTTP, as the one who decides (architecture.md §6, iam.md §11-§19)."""
