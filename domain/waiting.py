"""Waiting claims as their queue's rule sees them (domain/queueing.py)."""

from collections.abc import Iterable
from typing import Final

from domain import calendar, placement, queueing, reservation, reservation_terms

AHEAD: Final = 64
"""Behind more than so many a new claim waits for the scheduler's next walk."""


def line(claims: Iterable[tuple[str, reservation.State]], now: int) -> list[queueing.Waiter]:
    """Those that may still be placed, in the order given."""
    waiters = []
    for id, state in claims:
        window = span(state, now) if waits(state, now) else None
        if window is not None:
            waiters.append(waiter(id, state, window))
    return waiters


def waits(state: reservation.State, now: int) -> bool:
    """Whether it may still be placed out of the queue."""
    return state.status == "pending" and (state.give_up_at is None or state.give_up_at > now)


def span(state: reservation.State, now: int) -> tuple[int, int] | None:
    """The window to place in: a start that comes late keeps its end; None when nothing of it is left. What has no end
    begins whenever it can.

    A claim that had a place before keeps the window of then. None begins before what it was admitted for, which is
    later than now where the clock was set back: quota was checked from there on.
    """
    assert state.draft is not None
    duration_ms = state.draft.duration_seconds * 1000
    if state.draft.instance_id is not None:
        return max(now, state.claimed.from_ if state.claimed else now), reservation_terms.OPEN_END
    if state.starts_at is None:
        start = now if state.claimed is None else max(now, state.claimed.from_)
        return start, start + duration_ms
    until = state.ends_at or state.starts_at + duration_ms
    start = max(now, state.starts_at)
    return (start, until) if start < until else None


def is_movable(draft: reservation.Drafted, starts_at: int | None) -> bool:
    """Whether it keeps its duration when it starts later: what has no end keeps that."""
    return starts_at is None and draft.instance_id is None


def waiter(id: str, state: reservation.State, window: tuple[int, int]) -> queueing.Waiter:
    """A waiting claim as its queue sees it, with what it was promised."""
    assert state.draft is not None
    wanted, told = state.draft.claim, state.waits
    movable = is_movable(state.draft, state.starts_at)
    guard = None
    if told is not None and told.earliest_start is not None and told.place:
        scalars: dict[str, int] = {name: amount for name, amount in wanted.scalars.items() if amount}
        members = tuple(placement.Member(seat.node_id, seat.atoms, scalars, seat.layout) for seat in told.place)
        until = told.earliest_start + window[1] - window[0] if movable else window[1]
        guard = queueing.Guard(told.earliest_start, until, members)
    latest = calendar.FOREVER if state.give_up_at is None else state.give_up_at
    return queueing.Waiter(id, wanted, window, movable, told is not None, guard, state.draft.spot, latest)


def seats(guard: queueing.Guard | None) -> tuple[reservation.Seat, ...]:
    members = guard.members if guard is not None else ()
    return tuple(reservation.Seat(member.node_id, member.atoms, member.layout) for member in members)
