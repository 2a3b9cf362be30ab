"""What runs instances on a node: the port behind which QEMU stands, or a simulation (domain.md §6, §7: runtime)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from msgspec import Struct

from domain.node_spec import Instance, InstanceStatus

Changed = Callable[[], Awaitable[None]]
"""Told when what a driver has to say of an instance is another: the agent reports it at once."""


class Wanted(Struct, frozen=True):
    """An instance as the NodeSpec has it, the CDI names of its allocation's devices, and the token for its bytes."""

    instance: Instance
    cdi_devices: tuple[str, ...]
    token: str


class Failed(Exception):
    """Why an instance is not as it shall be: `reason` is one word, `detail` a sentence for people."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class Console(Struct, frozen=True):
    """The end of what an instance wrote, and how many bytes it wrote in all."""

    total_bytes: int
    tail: str


class Held(Struct, frozen=True):
    """What a driver has of an instance, and whose devices it may use: the allocation is not torn down before it."""

    allocation_id: str
    status: InstanceStatus


class Driver(Protocol):
    """Every act may be repeated and then changes nothing. What a driver has outlives the agent's process."""

    def held(self) -> Mapping[str, Held]:
        """Everything that it has anything of, by instance id, also from before this process began."""

    async def bring(self, wanted: Wanted) -> None:
        """Make the instance what it shall be, running or stopped; raises Failed where that cannot be."""

    async def take_away(self, instance_id: str) -> None:
        """End it and delete all that it has here; returns once nothing of it uses a device any more."""

    async def reboot(self, instance_id: str) -> None:
        """Boot it anew; raises Failed where it does not run."""

    def console(self, instance_id: str) -> Console | None:
        """None where it has written nothing."""
