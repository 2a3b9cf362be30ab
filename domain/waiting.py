"""Waiting claims as their queue's rule sees them (domain/queueing.py)."""

from collections.abc import Iterable
from typing import Final

from domain import calendar, placement, queueing, reservation

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
    """The window to place in: a start that comes late keeps its end; None when nothing of it is left.

    A claim that had a place before keeps the window of then. None begins before what it was admitted for, which is
    later than now where the clock was set back: quota was checked from there on.
    """
    assert state.draft is not None
    duration_ms = state.draft.duration_seconds * 1000
    if state.starts_at is None:
        start = now if state.claimed is None else max(now, state.claimed.from_)
        return start, start + duration_ms
    until = state.ends_at or state.starts_at + duration_ms
    start = max(now, state.starts_at)
    return (start, until) if start < until else None


def waiter(id: str, state: reservation.State, window: tuple[int, int]) -> queueing.Waiter:
    """A waiting claim as its queue sees it, with what it was promised."""
    assert state.draft is not None
    wanted, told = state.draft.claim, state.waits
    guard = None
    if told is not None and told.earliest_start is not None and told.place:
        scalars: dict[str, int] = {name: amount for name, amount in wanted.scalars.items() if amount}
        members = tuple(placement.Member(seat.node_id, seat.atoms, scalars, seat.layout) for seat in told.place)
        guard = queueing.Guard(told.earliest_start, told.earliest_start + window[1] - window[0], members)
    movable, spot = state.starts_at is None, state.draft.spot
    latest = calendar.FOREVER if state.give_up_at is None else state.give_up_at
    return queueing.Waiter(id, wanted, window, movable, told is not None, guard, spot, latest)


def seats(guard: queueing.Guard | None) -> tuple[reservation.Seat, ...]:
    members = guard.members if guard is not None else ()
    return tuple(reservation.Seat(member.node_id, member.atoms, member.layout) for member in members)
