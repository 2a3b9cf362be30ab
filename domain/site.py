"""A site: a boot and failure domain (domain.md §2)."""

from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import asdict, replace

from domain.event import Event

Kind = Literal["shared", "dedicated", "custom"]


class Created(Event, frozen=True, tag="site.created.1"):
    name: str
    kind: Kind
    owner_tenant_id: str
    iam_region: str
    at: int


class Renamed(Event, frozen=True, tag="site.renamed.1"):
    name: str
    former: str
    owner_tenant_id: str


Events = Created | Renamed


class State(Struct, frozen=True, rename="camel"):
    name: str = ""
    kind: Kind = "shared"
    owner_tenant_id: str = ""
    iam_region: str = ""
    created_at: int = 0


def evolve(state: State, event: Events) -> State:
    match event:
        case Created():
            return State(event.name, event.kind, event.owner_tenant_id, event.iam_region, event.at)
        case Renamed(name=name):
            return replace(state, name=name)
        case _:
            assert_never(event)


class View(State, frozen=True, kw_only=True, rename="camel"):
    """A site as its users see it; kind, owner and region never change."""

    id: str
    region: str
    version: int


def view(id: str, state: State, version: int) -> View:
    return View(id=id, region=state.iam_region, version=version, **asdict(state))


class Shown(View, frozen=True, kw_only=True, rename="camel"):
    """A site as queries show it: `served` says whether one of its site agents is connected."""

    served: bool


def shown(id: str, state: State, version: int, served: bool) -> Shown:
    return Shown(served=served, **asdict(view(id, state, version)))
