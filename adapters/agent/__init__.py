"""The agent protocol bcd/v1: the gateway's side, the agent's side, and agents that are simulated (api.md §4)."""
