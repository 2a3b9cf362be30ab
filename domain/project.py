"""A project: a tenant's own grouping of what it claims (domain.md §9)."""

from typing import assert_never

from msgspec import Struct
from msgspec.structs import asdict, replace

from domain.event import Event


class Created(Event, frozen=True, tag="project.created.1"):
    name: str
    owner_tenant_id: str
    labels: dict[str, str]
    at: int


class Archived(Event, frozen=True, tag="project.archived.1"):
    """It takes nothing new; what it holds runs to its end."""

    name: str
    owner_tenant_id: str
    at: int


Events = Created | Archived


class State(Struct, frozen=True, rename="camel"):
    name: str = ""
    owner_tenant_id: str = ""
    labels: dict[str, str] = {}
    created_at: int = 0
    archived_at: int | None = None


def evolve(state: State, event: Events) -> State:
    match event:
        case Created():
            return State(event.name, event.owner_tenant_id, event.labels, event.at)
        case Archived(at=at):
            return replace(state, archived_at=at)
        case _:
            assert_never(event)


class View(State, frozen=True, kw_only=True, rename="camel"):
    id: str
    version: int


def view(id: str, state: State, version: int) -> View:
    return View(id=id, version=version, **asdict(state))
