"""Random histories against a naive model: every invariant after every step (architecture.md §8)."""
