"""NodeSpec: what a node shall look like, numbered by generations, and what it says of each item (domain.md §8)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

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


Kind = Literal["vm", "microvm", "container"]
Desired = Literal["running", "stopped"]
Observed = Literal["provisioning", "running", "stopping", "stopped", "failed"]


class Image(Struct, frozen=True, rename="camel"):
    """The bytes that an instance's root disk begins with; `sha256` in lower-case hex, sizes in bytes."""

    sha256: str
    size_bytes: int
    format: Literal["raw", "qcow2", "iso"]


class Instance(Struct, frozen=True, rename="camel"):
    """An instance that the node shall have, on an allocation that it has prepared.

    Without that allocation in the NodeSpec there is no instance either: the node takes it away first. Seed and image
    are fetched from the plane with a token of the allocation, which comes beside the NodeSpec and is never stored.
    """

    id: str
    name: str
    allocation_id: str
    kind: Kind
    desired: Desired
    vcpu: int
    memory_mib: int = field(name="memoryMiB")
    disk_gib: int = field(name="diskGiB")
    image: Image


class InstanceStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the node says of an instance; `reason` is one word of why (NoSpace, ImageCorrupt, ImageMissing, ...).

    `failed` is tried again for as long as the NodeSpec wants it otherwise.
    """

    state: Observed
    reason: Annotated[str, Meta(max_length=63)] | None = None
    detail: Annotated[str, Meta(max_length=255)] | None = None
    addresses: Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=16)] = ()
