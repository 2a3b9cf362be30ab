"""The tenant tree as the log knows it, so that visibility and shared quota can be replayed (domain.md §9)."""

from typing import Literal, assert_never

from msgspec import Struct

from domain.event import Event

Status = Literal["pending", "active", "suspended", "deleted"]


class Recorded(Event, frozen=True, tag="tenant.recorded.1"):
    """What the identity side says of a tenant now; appended where it differs from the log."""

    tenant_id: str
    status: Status
    parent: str | None = None


class AccessLoaded(Event, frozen=True, tag="access.loaded.1"):
    """An access file was put into force; its SHA-256 stands in the admissions decided under it."""

    digest: str


Events = Recorded | AccessLoaded


class State(Struct, frozen=True):
    status: Status = "pending"
    parent: str | None = None
    digest: str | None = None


def evolve(state: State, event: Events) -> State:
    match event:
        case Recorded(status=status, parent=parent):
            return State(status, parent)
        case AccessLoaded(digest=digest):
            return State(digest=digest)
        case _:
            assert_never(event)


def stream(tenant_id: str) -> str:
    return f"tenant:{tenant_id}"


ACCESS_STREAM = "access"
