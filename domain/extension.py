"""An extension: the request to move a reservation's end, and what became of it (domain.md §5, Extend).

It is a thing of its own, so that one that is refused leaves the reservation as it was.
"""

from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from domain.event import Event

Status = Literal["draft", "denied", "applied", "expired"]


class Drafted(Event, frozen=True, tag="extension.drafted.1"):
    """The exact request that the decision was made on: `duration_hours` is the reservation's new total.

    `body` is the SHA-256 of the request's canonical JSON; instants are epoch ms. `committed` as a reservation's draft.
    """

    reservation_id: str
    tenant_id: str
    identity_id: str
    ends_at: int
    former_ends_at: int
    duration_hours: float
    body: str
    at: int
    committed: bool = False


class Denied(Event, frozen=True, tag="extension.denied.1"):
    """Kept, so that a retry with the same key gets the same answer; `code` and `detail` are that answer."""

    reason: str
    code: str
    detail: str
    extra: dict[str, str | int]


class Applied(Event, frozen=True, tag="extension.applied.1"):
    """The reservation ends then, from here on."""

    admission_id: str
    at: int


class Expired(Event, frozen=True, tag="extension.expired.1"):
    """It was an open draft for too long."""

    reason: str
    at: int


Events = Drafted | Denied | Applied | Expired


class State(Struct, frozen=True):
    status: Status = "draft"
    draft: Drafted | None = None
    denied: Denied | None = None
    admission_id: str | None = None
    expired: Expired | None = None


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """An extension as its tenant sees it; an `endsAt` before `formerEndsAt` shortens. Instants in epoch ms."""

    id: str
    reservation_id: str
    tenant_id: str
    state: Status
    state_reason: str | None
    state_detail: str | None
    ends_at: int
    former_ends_at: int
    duration_hours: float
    admission_id: str | None
    created_at: int
    version: int


def evolve(state: State, event: Events) -> State:
    match event:
        case Drafted():
            return State(draft=event)
        case Denied():
            return replace(state, status="denied", denied=event)
        case Applied(admission_id=admission_id):
            return replace(state, status="applied", admission_id=admission_id)
        case Expired():
            return replace(state, status="expired", expired=event)
        case _:
            assert_never(event)


def view(id: str, state: State, version: int) -> View:
    draft = state.draft
    assert draft is not None, "an extension's stream begins with its draft"
    return View(
        id=id,
        reservation_id=draft.reservation_id,
        tenant_id=draft.tenant_id,
        state=state.status,
        state_reason=over.reason if (over := state.denied or state.expired) else None,
        state_detail=state.denied.detail if state.denied else None,
        ends_at=draft.ends_at,
        former_ends_at=draft.former_ends_at,
        duration_hours=draft.duration_hours,
        admission_id=state.admission_id,
        created_at=draft.at,
        version=version,
    )
