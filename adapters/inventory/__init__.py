"""Where a NodeInventory comes from: this machine (collect.py), or files that tools printed (merge.py)."""
