"""How a bound reservation ends: its nodes are told to tear down, its atoms stay taken until they did.

An instance that runs on it goes with it.
"""

from collections.abc import Mapping

from commands.gathering import Loads
from commands.ports import Loaded
from domain import instance, node, reservation
from domain.event import Change


def end(
    store: Loads,
    reservation_id: str,
    loaded: Loaded,
    reason: str,
    now: int,
    *,
    failed: bool = False,
    wished: bool = False,
) -> list[Change]:
    """The changes that stop a binding or active reservation; the reservation's own come first.

    `wished` says that the tenant of its instance wants that deleted. One whose only node was lost, and has given back
    all, is over at once: no node has anything to say of it any more.
    """
    state: reservation.State = loaded.state
    generations: dict[str, int] = {}
    told: list[Change] = []
    for allocation in state.allocations:
        on_node = store.load(allocation.node_id)
        spec: node.State = on_node.state
        if any(a.id == allocation.id for a in spec.allocations):
            generation = spec.generation + 1
            removal = node.SpecChanged(generation=generation, removed=(allocation.id,))
            told.append(Change(allocation.node_id, on_node.version, (removal,)))
            generations[allocation.node_id] = generation
    events: list[reservation.Events] = [
        reservation.Failed(reason, now, True, generations)
        if failed
        else reservation.ReleaseStarted(reason, now, generations)
    ]
    if not failed and not state.allocations and all(a.torn_down for a in state.lost):
        events.append(reservation.Released(reason, now))
    if state.instance_id is not None:
        told += _with_it(store.load(state.instance_id), state.instance_id, reason, now, generations, wished)
    return [Change(reservation_id, loaded.version, tuple(events)), *told]


def _with_it(
    loaded: Loaded, instance_id: str, reason: str, now: int, generations: Mapping[str, int], wished: bool
) -> list[Change]:
    """Its NodeSpec loses it together with its allocation. What is being deleted already is told nothing new."""
    on: instance.State = loaded.state
    if on.ended_at is not None or on.status == "deleting":
        return []
    generation = generations.get(on.node_id) if on.node_id else None
    return [Change(instance_id, loaded.version, (instance.Deleting(reason, now, wished, generation),))]
