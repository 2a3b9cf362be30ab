"""The command line: every operation against a server, and what an operator runs on the spot (api.md §5)."""
