"""What instances need beside the log: the bytes of images, user data, consoles, and who may fetch them."""
