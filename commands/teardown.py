"""Proof that atoms are free: a node's report, a fence, a retirement (domain.md §5, Ending)."""

from collections.abc import Sequence

from commands.gathering import Loads
from domain import reservation, reservation_fold
from domain.event import Change

ENDED = frozenset({"releasing", "failed"})


def gone(state: reservation.State) -> tuple[reservation.Allocation, ...]:
    """What a reservation has ended the use of: members that it lost, and all when it ends itself."""
    return (*state.lost, *(state.allocations if state.status in ENDED else ()))


def torn_down(reservation_id: str, state: reservation.State, version: int, node_id: str, now: int) -> Change | None:
    """The events that free what the reservation still holds on a node it has stopped using."""
    held = [a for a in gone(state) if a.node_id == node_id and not a.torn_down]
    if not held:
        return None
    events: list[reservation.Events] = [reservation.TornDown(a.id, node_id, now) for a in held]
    after = state
    for event in events:
        after = reservation_fold.evolve(after, event)
    if state.status == "releasing" and all(a.torn_down for a in gone(after)):
        events.append(reservation.Released(state.reason or "Released", now))
    return Change(reservation_id, version, tuple(events))


def on_node(loads: Loads, reservation_ids: Sequence[str], node_id: str, now: int) -> list[Change]:
    """What frees, of these reservations, those that use atoms of this node no more and still hold them."""
    changes = []
    for reservation_id in reservation_ids:
        loaded = loads.load(reservation_id)
        change = torn_down(reservation_id, loaded.state, loaded.version, node_id, now)
        if change is not None:
            changes.append(change)
    return changes
