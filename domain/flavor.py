"""A flavor: a named size of an instance (domain.md §6). It never changes: another size is another flavor."""

from typing import Annotated, Literal, assert_never

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from domain.claim import Claim, DeviceLine
from domain.event import Event

MIB_A_GIB = 1024
BYTES_A_GIB = 2**30


class Gpus(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """GPUs, slices or slots that an instance of the flavor has, all of one class."""

    class_: Literal["gpu", "gpu.mig", "gpu.slot"] = field(name="class")
    count: Annotated[int, Meta(ge=1, le=64)]


class Size(Struct, frozen=True, rename="camel"):
    """What an instance gets: vCPUs, GiB of memory and of its root disk, and GPUs if any."""

    vcpu: int
    memory_gib: int = field(name="memoryGiB")
    disk_gib: int = field(name="diskGiB")
    gpus: Gpus | None = None


class Created(Event, frozen=True, tag="flavor.created.1"):
    """One that is `public` is the platform's, and every tenant's to use."""

    name: str
    owner_tenant_id: str
    size: Size
    public: bool
    at: int


class Retired(Event, frozen=True, tag="flavor.retired.1"):
    """No new instance has it; those that have it keep it. Its name is free again."""

    name: str
    owner_tenant_id: str
    at: int


Events = Created | Retired


class State(Struct, frozen=True, rename="camel"):
    name: str = ""
    owner_tenant_id: str = ""
    size: Size = Size(0, 0, 0)
    public: bool = False
    created_at: int = 0
    retired_at: int | None = None

    def visible(self, tenant_id: str) -> bool:
        return self.public or self.owner_tenant_id == tenant_id


def evolve(state: State, event: Events) -> State:
    match event:
        case Created():
            return State(event.name, event.owner_tenant_id, event.size, event.public, event.at)
        case Retired(at=at):
            return replace(state, retired_at=at)
        case _:
            assert_never(event)


def claim(size: Size) -> Claim:
    """What a node must have free for an instance of this size."""
    line = DeviceLine("gpu", 0) if size.gpus is None else DeviceLine(size.gpus.class_, size.gpus.count)
    return Claim((line,), scalars={"vcpu": size.vcpu, "memoryMiB": size.memory_gib * MIB_A_GIB})


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    name: str
    owner_tenant_id: str
    vcpu: int
    memory_gib: int = field(name="memoryGiB")
    disk_gib: int = field(name="diskGiB")
    gpus: Gpus | None
    public: bool
    created_at: int
    retired_at: int | None
    version: int


def view(id: str, state: State, version: int) -> View:
    return View(
        id=id,
        name=state.name,
        owner_tenant_id=state.owner_tenant_id,
        public=state.public,
        created_at=state.created_at,
        retired_at=state.retired_at,
        version=version,
        **asdict(state.size),
    )
