"""An instance comes to a node with its reservation's allocation, and is displaced with it (domain.md §6)."""

from msgspec import Struct

from commands.gathering import Loads
from domain import instance, instance_life, node_spec, reservation
from domain.event import Change


class Coming(Struct, frozen=True):
    """What the node's NodeSpec gets beside the allocation, and what the instance is told in the same append."""

    instances: tuple[node_spec.Instance, ...] = ()
    changes: tuple[Change, ...] = ()


def coming(
    loads: Loads, of: reservation.State, allocation: reservation.Allocation, generation: int, now: int
) -> Coming:
    """The reservation's instance, if it has one that is still wanted, on this allocation."""
    if of.instance_id is None:
        return Coming()
    loaded = loads.load(of.instance_id)
    state: instance.State = loaded.state
    if not _waits(state):
        return Coming()
    placed = instance.Placed(allocation.node_id, allocation.node_name, allocation.id, generation, now)
    told = Change(of.instance_id, loaded.version, (placed,))
    return Coming((instance_life.specified(of.instance_id, state, allocation.id),), (told,))


def _waits(state: instance.State) -> bool:
    return state.ended_at is None and state.status not in ("draft", "deleting")


def displaced(
    loads: Loads, of: reservation.State, gone: reservation.Allocation, reason: str, now: int
) -> tuple[Change, ...]:
    """Its node was lost under it: it waits for another place."""
    if of.instance_id is None:
        return ()
    loaded = loads.load(of.instance_id)
    state: instance.State = loaded.state
    if state.allocation_id != gone.id or not _waits(state):
        return ()
    event = instance.Displaced(gone.node_id, reason, now)
    return (Change(of.instance_id, loaded.version, (event,)),)
