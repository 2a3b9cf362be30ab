"""The members of a bound gang: one is lost, another takes its place, and the rest goes on (domain.md §5, Lost node)."""

from collections.abc import Collection, Sequence
from typing import Final

from commands import ending, instance_places
from commands.gathering import Gathered
from commands.ports import Loaded, Store
from domain import node, reservation, reservation_life
from domain.event import Change

LATE: Final = "BindTimeout"
"""Why a replacement is lost in turn: its node did not prepare it in time."""
MISSING: Final = "DeviceMissing"
"""Why a reservation is degraded whose node has not all the devices that it booked."""


def on(state: reservation.State, node_id: str) -> reservation.Allocation | None:
    """What the reservation has on a node, of what was not lost; the members of a gang are on nodes of their own."""
    return next((a for a in state.allocations if a.node_id == node_id), None)


def lose(reservation_id: str, gathered: Gathered, gone: reservation.Allocation, reason: str, now: int) -> None:
    """A bound reservation loses one member. A gang goes on with the others; with its last one it fails, but for one
    that is placed again when its node is lost: what runs on it starts anew elsewhere.

    The node's NodeSpec has it no more, so that a node that returns tears it down; until then its atoms stay taken.
    """
    loaded = gathered.load(reservation_id)
    state: reservation.State = loaded.state
    again = state.draft is not None and state.draft.replaced_when_lost
    if len(state.allocations) == 1 and not again:
        gathered.add(ending.end(gathered, reservation_id, loaded, reason, now, failed=True))
        return
    removal = _removal(gathered.load(gone.node_id), gone)
    generation = removal.generation if removal else None
    lost = reservation.MemberLost(gone.id, gone.node_id, reason, now, generation)
    gathered.add([Change(reservation_id, loaded.version, (lost,))])
    gathered.add(instance_places.displaced(gathered, loaded.state, gone, reason, now))
    if removal is not None:
        gathered.add([Change(gone.node_id, gathered.load(gone.node_id).version, (removal,))])


def _removal(on_node: Loaded, gone: reservation.Allocation) -> node.SpecChanged | None:
    spec: node.State = on_node.state
    if not any(a.id == gone.id for a in spec.allocations):
        return None
    return node.SpecChanged(generation=spec.generation + 1, removed=(gone.id,))


def preparing(state: reservation.State) -> bool:
    """Whether a node's word that it prepared its part may bring something."""
    return state.status == "binding" or (state.status == "active" and not all(a.prepared for a in state.allocations))


def late(state: reservation.State, now: int) -> reservation.Allocation | None:
    """A replacement whose node did not prepare it in time."""
    over = {id for id, at in state.prepare_by.items() if at <= now}
    return next((a for a in state.allocations if a.id in over), None)


def give_up(store: Store, reservation_id: str, state: reservation.State, now: int) -> Sequence[Change]:
    """Its replacement is lost in turn: another is looked for, on another node."""
    gathered = Gathered(store)
    gone = late(state, now)
    if gone is not None:
        lose(reservation_id, gathered, gone, LATE, now)
    return gathered.changes(first=reservation_id)


def lacks(state: reservation.State, missing: Collection[str], now: int) -> list[reservation.Events]:
    """The event that tells what a bound reservation does without from now on, if that is news.

    `missing` are devices that it has booked and that its nodes have not. A member that is lacking, or not prepared yet,
    is what is told first.
    """
    names = tuple(sorted(missing))
    by_loss = state.degraded not in (None, MISSING) and not reservation_life.prepared(state)
    reason = state.degraded if by_loss else MISSING if names else None
    if (reason, names) == (state.degraded, state.missing):
        return []
    return [reservation.Mended(now)] if reason is None else [reservation.Degraded(reason, names, now)]
