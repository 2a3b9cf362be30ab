"""Another node for a member that a gang lost: only that one moves, for the rest of the window (domain.md §5; O06)."""

from collections.abc import Mapping, Sequence, Set
from typing import Final

from msgspec.structs import replace

from commands import instance_places, members, placing
from commands.acting import act, following
from commands.ports import NodeClosed, Ports, Store
from domain import errors, node, node_spec, placement, pool, reservation, reservation_life
from domain.event import Change, Fence, Meta

JOB: Final = "scheduler"


def step(ports: Ports, reservation_id: str, fence: Fence) -> bool:
    """Place the members that are lacking, one by one, as long as one fits; the others wait for room.

    Says whether all have a place now.
    """
    lacking = reservation_life.lacking(ports.store.load(reservation_id).state)
    return all(_place(ports, reservation_id, fence) for _ in range(lacking))


def _place(ports: Ports, reservation_id: str, fence: Fence) -> bool:
    store = ports.store
    state: reservation.State = store.load(reservation_id).state
    window = _rest(state, store.now())
    if state.draft is None or window is None or not reservation_life.lacking(state):
        return False
    pool_id = state.draft.pool_id
    chosen = _choose(ports, pool_id, reservation_id, state, window)
    if chosen is None:
        return False
    (found,) = placing.allocate(ports, (chosen,))
    recorded = False

    def decide() -> Sequence[Change]:
        return _placed(store, reservation_id, found, window)

    try:
        recorded = act(store, _meta(store, reservation_id), decide, fence) is not None
    except (errors.DoubleBooked, NodeClosed):
        ports.calendars.lost(pool_id, found.atoms, window)
    finally:
        if not recorded:
            ports.calendars.drop([found.id])
    return recorded


def _rest(state: reservation.State, now: int) -> tuple[int, int] | None:
    """What is left of the window (epoch ms)."""
    return (now, state.ends_at) if state.ends_at is not None and now < state.ends_at else None


def _choose(
    ports: Ports, pool_id: str, reservation_id: str, state: reservation.State, window: tuple[int, int]
) -> placing.Chosen | None:
    assert state.draft is not None
    asked = state.draft.claim
    alone = replace(asked, nodes=1, topology=None)
    with ports.calendars.locked(pool_id) as of:
        labels = {id: entry.node.labels for id, entry in of.entries.items()} if asked.topology else {}
        unfit = barred(state, labels)
        found = placement.place(of, alone, window, reservation_id, ports.selectors, unfit)
        if isinstance(found, placement.Refusal):
            return None
        (member,) = found.members
        chosen = placing.Chosen(ports.new_id("alloc"), member)
        of.book(chosen.allocation_id, member.node_id, member.atoms, member.scalars, *window)
        ports.calendars.hold(pool_id, [chosen.allocation_id])
    return chosen


def barred(state: reservation.State, labels: Mapping[str, Mapping[str, str]]) -> Set[str]:
    """Nodes that cannot take the member: where the others are, where what was lost is not torn down yet, and those
    whose label is not the one that the gang is packed by, or is one that it is spread over already.
    """
    assert state.draft is not None
    others = {a.node_id for a in state.allocations}
    taken = others | {a.node_id for a in state.lost if not a.torn_down}
    topology = state.draft.claim.topology
    if topology is None:
        return taken
    if topology.pack is not None:
        values = {labels.get(id, {}).get(topology.pack) for id in others}
        return taken | {id for id, its in labels.items() if its.get(topology.pack) not in values}
    assert topology.spread is not None
    values = {labels.get(id, {}).get(topology.spread) for id in others} | {None}
    return taken | {id for id, its in labels.items() if its.get(topology.spread) in values}


def _placed(
    store: Store, reservation_id: str, found: reservation.Allocation, window: tuple[int, int]
) -> Sequence[Change]:
    """The member's booking, its node's NodeSpec, and the instance that is to run there, in one append."""
    loaded, on_node = store.load(reservation_id), store.load(found.node_id)
    state: reservation.State = loaded.state
    spec: node.State = on_node.state
    moved = state.ends_at != window[1] or members.on(state, found.node_id) is not None
    if state.draft is None or moved or not reservation_life.lacking(state):
        return []
    of: pool.State = store.load(state.draft.pool_id).state
    placed = reservation.MemberPlaced(
        pool_id=state.draft.pool_id,
        tenant_id=state.draft.tenant_id,
        allocation=found,
        starts_at=window[0],
        ends_at=window[1],
        generation=spec.generation + 1,
        prepare_by=store.now() + of.policy.bind_timeout * 1000,
    )
    added = node_spec.Allocation(found.id, reservation_id, found.cdi_devices)
    brings = instance_places.coming(store, state, found, placed.generation, store.now())
    told = node.SpecChanged(generation=placed.generation, added=(added,), instances=brings.instances)
    own, on = Change(reservation_id, loaded.version, (placed,)), Change(found.node_id, on_node.version, (told,))
    return [own, on, *brings.changes]


def _meta(store: Store, reservation_id: str) -> Meta:
    cause = store.load(reservation_id)
    return following(f"controller:{JOB}", cause.state.admission_id, cause)
