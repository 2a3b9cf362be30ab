"""NodeSpec: what a node shall look like, numbered by generations, and what it says of each item (domain.md §8)."""

from typing import Literal

from msgspec import Struct

Mode = Literal["exclusive", "mig", "timeslice", "mps"]
Status = Literal["prepared", "preparing", "failed"]


class Slice(Struct, frozen=True, rename="camel"):
    """One MIG slice of every GPU: profile (`1g.10gb`) and the memory slice where it starts."""

    profile: str
    start: int


class Sharing(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How the node's GPUs are cut up: `slots` a GPU where they are time-sliced, `layout` where MIG is on."""

    mode: Mode = "exclusive"
    slots: int = 1
    layout: tuple[Slice, ...] = ()


class Allocation(Struct, frozen=True, rename="camel"):
    """What the node must have prepared: the CDI devices of one allocation."""

    id: str
    reservation_id: str
    cdi_devices: tuple[str, ...]
