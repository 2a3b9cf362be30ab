"""A node's reservations leave it: what only has a place goes elsewhere, what runs ends (domain.md §3, §5)."""

from commands import ending, members
from commands.gathering import Gathered
from domain import reservation, reservation_terms
from domain.event import Change


def requeue(reservation_id: str, gathered: Gathered, reason: str) -> None:
    """A placed reservation waits again, with its priority, age, quota and window; its place is given up.

    It waits until its end; what has none no longer than it was to wait at first.
    """
    loaded = gathered.load(reservation_id)
    state: reservation.State = loaded.state
    assert state.draft is not None
    assert state.ends_at is not None, "what is placed has a window"
    give_up_at = state.ends_at
    if reservation_terms.shown_end(give_up_at) is None:
        give_up_at = state.since + state.draft.max_pending_seconds * 1000
    queued = reservation.Queued(
        pool_id=state.draft.pool_id,
        priority=state.priority,
        spot=state.draft.spot,
        since=state.since,
        reason=reason,
        give_up_at=give_up_at,
    )
    gathered.add([Change(reservation_id, loaded.version, (queued,))])


def release(reservation_id: str, gathered: Gathered, reason: str, now: int) -> None:
    """A binding or active reservation ends, in good order."""
    loaded = gathered.load(reservation_id)
    gathered.add(ending.end(gathered, reservation_id, loaded, reason, now))


def stays(reservation_id: str, gathered: Gathered, reason: str) -> None:
    """A notice of this reason is void."""
    loaded = gathered.load(reservation_id)
    told: reservation.Ending | None = loaded.state.ending
    if told is not None and told.reason == reason and loaded.state.status in ("binding", "active"):
        gathered.add([Change(reservation_id, loaded.version, (reservation.Stays(),))])


def leave(reservation_ids: list[str], node_id: str, gathered: Gathered, reason: str, now: int) -> None:
    """What is booked on a node leaves it at once: of a gang that is bound this one member, for the others go on."""
    for reservation_id in reservation_ids:
        state: reservation.State = gathered.load(reservation_id).state
        here = members.on(state, node_id)
        if here is not None and state.status == "placed":
            requeue(reservation_id, gathered, reason)
        elif here is not None and state.status in ("binding", "active"):
            members.lose(reservation_id, gathered, here, reason, now)
