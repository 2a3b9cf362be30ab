"""From a claim to allocations: what a placement of the pool's calendar becomes in the log (domain.md §5)."""

from collections.abc import Sequence

from msgspec import Struct

from commands.ports import Ports, Store
from domain import calendar, node, placement, pool, queueing, reservation
from domain.claim import Claim


class Chosen(Struct, frozen=True):
    """A place on one node, held in the calendar under the id that its allocation will have."""

    allocation_id: str
    member: placement.Member


Places = tuple[Chosen, ...]


class Wanted(Struct, frozen=True):
    """A claim that is to be placed, over `[from, until)` in epoch ms."""

    reservation_id: str
    claim: Claim
    window: tuple[int, int]


def choose(ports: Ports, pool_id: str, wanted: Wanted) -> tuple[reservation.Allocation, ...] | None:
    """Where the claim lands as far as this process has read; None when nowhere."""
    with ports.calendars.locked(pool_id) as calendar:
        placed = placement.place(calendar, wanted.claim, wanted.window, wanted.reservation_id, ports.selectors)
        if isinstance(placed, placement.Refusal):
            return None
        places = _hold(ports, calendar, placed, wanted.window)
    return allocate(ports, places)


def choose_now(ports: Ports, pool_id: str, wanted: Wanted) -> tuple[reservation.Allocation, ...] | None:
    """As `choose`, and before it says nowhere it reads what the log had when it was asked: a release counts at once."""
    found = choose(ports, pool_id, wanted)
    if found is None:
        ports.calendars.lost(pool_id, (), wanted.window)
        found = choose(ports, pool_id, wanted)
    return found


def choose_in_order(
    ports: Ports, pool_id: str, queue: Sequence[queueing.Waiter], now: int, *, seek: bool
) -> list[tuple[queueing.Verdict, Places | None]]:
    """Who of a queue is placed where, in one and the same view of the pool: nobody overtakes by chance."""
    notice_ms = notice(ports.store, pool_id)
    with ports.calendars.locked(pool_id) as calendar:
        verdicts = queueing.plan(calendar, queue, now, ports.selectors, seek=seek, notice_ms=notice_ms)
        return [
            (verdict, None if verdict.placed is None else _hold(ports, calendar, verdict.placed, verdict.window))
            for verdict in verdicts
        ]


def notice(store: Store, pool_id: str) -> int:
    """What spot that is preempted has left, in ms."""
    of: pool.State = store.load(pool_id).state
    return of.policy.spot_notice_seconds * 1000


def choose_behind(
    ports: Ports, pool_id: str, ahead: Sequence[queueing.Waiter], own: queueing.Waiter, now: int
) -> tuple[queueing.Verdict, Places | None]:
    """Where a claim lands that delays none of those ahead of it; nothing is held for them."""
    notice_ms = notice(ports.store, pool_id)
    with ports.calendars.locked(pool_id) as calendar:
        queue = [*ahead, own]
        verdict = queueing.plan(calendar, queue, now, ports.selectors, seek=False, notice_ms=notice_ms)[-1]
        return verdict, None if verdict.placed is None else _hold(ports, calendar, verdict.placed, verdict.window)


def _hold(ports: Ports, calendar: calendar.Calendar, placed: placement.Placement, window: tuple[int, int]) -> Places:
    """What is chosen stays held in the calendar until the log confirms it or `drop` gives it back.

    So rivals in this process choose something else instead of losing to each other in the database.
    """
    places = tuple(Chosen(ports.new_id("alloc"), member) for member in placed.members)
    for one in places:
        member = one.member
        calendar.book(one.allocation_id, member.node_id, member.atoms, member.scalars, *window)
    ports.calendars.hold(calendar.pool_id, [one.allocation_id for one in places])
    return places


def allocate(ports: Ports, places: Places) -> tuple[reservation.Allocation, ...]:
    nodes = ports.store.load_all([one.member.node_id for one in places])
    return tuple(_allocate(of.state, one.allocation_id, one.member) for of, one in zip(nodes, places, strict=True))


def _allocate(on_node: node.State, allocation_id: str, member: placement.Member) -> reservation.Allocation:
    names = {d.id: d.cdi for d in on_node.devices}
    return reservation.Allocation(
        id=allocation_id,
        node_id=member.node_id,
        node_name=on_node.name,
        addresses=(on_node.address,) if on_node.address else (),
        atoms=member.atoms,
        cdi_devices=tuple(cdi for atom in member.atoms if (cdi := names.get(atom))),
        scalars=dict(member.scalars),
        layout=member.layout,
    )
