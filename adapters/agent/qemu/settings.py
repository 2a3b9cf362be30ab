"""How this node runs its virtual machines: what its operator may choose."""

import os
import re
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from adapters.agent.driver import Failed

Accelerator = Literal["kvm", "tcg"]
QEMU: Final = "qemu-system-x86_64"
QEMU_IMG: Final = "qemu-img"
STOP_SECONDS: Final = 90.0
_BRIDGE: Final = re.compile(r"bridge=([0-9A-Za-z_.-]{1,15})")


class Settings(Struct, frozen=True, kw_only=True):
    """`bridge` is one of the host's; without it every machine has a network of its own, through the agent's host.

    `accelerator` None takes KVM where the machine has it. `user` is whom QEMU becomes once it has opened its files.
    `stop_seconds` is how long a guest may take to shut down before its power is cut.
    """

    bridge: str | None = None
    accelerator: Accelerator | None = None
    user: str | None = None
    stop_seconds: float = STOP_SECONDS
    start_seconds: float = 60.0


def network(text: str) -> str | None:
    """The bridge in `user` or `bridge=NAME`; raises ValueError."""
    found = _BRIDGE.fullmatch(text)
    if found is None and text != "user":
        raise ValueError("expected user, or bridge= with the name of one of the host's bridges")
    return found[1] if found else None


def accelerator(settings: Settings, kvm: Path = Path("/dev/kvm")) -> Accelerator:
    """Raises Failed where KVM was asked for by name and cannot be opened."""
    if settings.accelerator == "tcg":
        return "tcg"
    if os.access(kvm, os.R_OK | os.W_OK):
        return "kvm"
    if settings.accelerator == "kvm":
        raise Failed("KvmUnusable", f"{kvm} cannot be opened: is virtualization on in the BIOS, and the module loaded?")
    return "tcg"
