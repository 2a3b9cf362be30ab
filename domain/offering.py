"""An offering makes a pool exist in another tenant's view, with a quota per resource (domain.md §2)."""

from typing import Annotated, Literal, assert_never

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from domain.event import Event

Resource = Literal["gpu", "gpu.mig", "gpu.slot", "node", "nic.vf", "disk", "vcpu", "memoryMiB"]
Amount = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Quota = dict[Resource, Amount]


class Offered(Event, frozen=True, tag="offering.offered.1"):
    pool_id: str
    owner_tenant_id: str
    tenant_id: str
    quota: Quota
    priority: int
    include_descendants: bool
    at: int


class Changed(Event, frozen=True, tag="offering.changed.1"):
    """A changed quota moves no claim: what is above it runs to its end, and nothing more is admitted."""

    quota: Quota
    priority: int
    include_descendants: bool


class Withdrawn(Event, frozen=True, tag="offering.withdrawn.1"):
    pool_id: str
    tenant_id: str
    at: int


Events = Offered | Changed | Withdrawn


class State(Struct, frozen=True, rename="camel"):
    pool_id: str = ""
    owner_tenant_id: str = ""
    tenant_id: str = ""
    quota: Quota = {}
    priority: int = 0
    include_descendants: bool = False
    created_at: int = 0
    withdrawn: bool = False


def evolve(state: State, event: Events) -> State:
    match event:
        case Offered():
            return State(
                event.pool_id,
                event.owner_tenant_id,
                event.tenant_id,
                event.quota,
                event.priority,
                event.include_descendants,
                event.at,
            )
        case Changed():
            return replace(
                state,
                quota=event.quota,
                priority=event.priority,
                include_descendants=event.include_descendants,
            )
        case Withdrawn():
            return replace(state, withdrawn=True)
        case _:
            assert_never(event)


class View(State, frozen=True, kw_only=True, rename="camel"):
    """An offering as the pool's owner sees it."""

    id: str
    version: int


def view(id: str, state: State, version: int) -> View:
    return View(id=id, version=version, **asdict(state))
