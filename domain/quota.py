"""A quota: what a tenant or a project may hold at once, per resource (domain.md §2)."""

from typing import Literal, assert_never

from msgspec import Struct

from domain.event import Event
from domain.offering import Quota

Kind = Literal["tenant", "project"]


class Set(Event, frozen=True, tag="quota.set.1"):
    """What is not named is unlimited. What is above a lowered limit runs to its end, and nothing more is admitted."""

    kind: Kind
    id: str
    tenant_id: str
    limits: Quota
    at: int


Events = Set


class State(Struct, frozen=True, rename="camel"):
    kind: Kind = "tenant"
    id: str = ""
    tenant_id: str = ""
    limits: Quota = {}
    set_at: int = 0


def evolve(state: State, event: Events) -> State:
    match event:
        case Set():
            return State(event.kind, event.id, event.tenant_id, event.limits, event.at)
        case _:
            assert_never(event)


def scope(kind: Kind, id: str) -> str:
    """The name under which claims count: a project's own id says what it is, a tenant's does not."""
    return id if kind == "project" else f"tenant:{id}"


def scopes(tenant_id: str, project_id: str | None) -> tuple[str, ...]:
    """What a tenant's claim counts in besides the offering of its pool."""
    whole = scope("tenant", tenant_id)
    return (whole,) if project_id is None else (whole, scope("project", project_id))


def is_offering(scope: str) -> bool:
    return scope.startswith("poff_")


def stream(kind: Kind, id: str) -> str:
    return f"quota:{scope(kind, id)}"


class View(Struct, frozen=True, rename="camel"):
    """The limits of a tenant or project; a resource that they do not name is unlimited."""

    kind: Kind
    id: str
    limits: Quota
    set_at: int
    version: int


def view(_stream: str, state: State, version: int) -> View:
    return View(state.kind, state.id, state.limits, state.set_at, version)
