"""A Better IAM on loopback that keeps to its contract (iam.md §6-§19), for tests of whoever asks it.

It speaks real HTTP, decides with our own policy evaluator, and is slow, broken or hostile when a test says so.
"""
