"""Instances as virtual machines of QEMU: the driver of real nodes (docs/decisions/0034)."""
