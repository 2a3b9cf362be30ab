"""What runs instances on a node: the port behind which QEMU stands, or a simulation (domain.md §6, §7: runtime)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from domain import inventory
from domain.node_spec import Image, Instance, InstanceStatus

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


UNKNOWN: Final = ""
"""The allocation of an instance whose driver does not know it any more."""


class Held(Struct, frozen=True):
    """What a driver has of an instance, and whose devices it may use: the allocation is not torn down before it."""

    allocation_id: str
    status: InstanceStatus


class Seed(Struct, frozen=True):
    """What an instance is told of itself at its boot (NoCloud)."""

    name: str
    instance_id: str
    ssh_keys: tuple[str, ...]
    user_data: bytes


class Sources(Protocol):
    """Where a driver gets what an instance begins with; both raise Failed."""

    async def image(self, image: Image, token: str) -> Path:
        """A file that nobody changes, with the digest that the image has: it was read for that after this was called.

        It stays for as long as the NodeSpec has an instance with this image.
        """

    async def seed(self, instance_id: str, token: str) -> Seed: ...


class Means(Struct, frozen=True, kw_only=True):
    """What a driver is made with: a directory of its own that is there, and the host's files under `root`."""

    directory: Path
    root: Path
    sources: Sources
    changed: Changed


class Driver(Protocol):
    """Every act may be repeated and then changes nothing. What a driver has outlives the agent's process.

    Acts on one instance come one at a time, on several at once. `bring` and `reboot` may be cancelled: what they made
    by then is held, and the next act goes on from there.
    """

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

    def lent(self) -> Sequence[inventory.Gpu]:
        """GPUs that instances have so that the host itself does not show them; they are this node's all the same."""

    async def close(self) -> None:
        """The agent ends: watch no longer. Instances go on as they are."""


Make = Callable[[Means], Awaitable[Driver]]
"""Raises Failed where this machine cannot run instances so; its detail says what would help."""
