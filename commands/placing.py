"""From a claim to allocations: what a placement of the pool's calendar becomes in the log (domain.md §5)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from commands.ports import Ports
from domain import node, placement, reservation
from domain.claim import Claim

EARLIEST_WITHIN_MS: Final = 366 * 86_400_000


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
    (found,) = choose_each(ports, pool_id, [wanted])
    return None if found is None else allocate(ports, found)


def choose_now(ports: Ports, pool_id: str, wanted: Wanted) -> tuple[reservation.Allocation, ...] | None:
    """As `choose`, and before it says nowhere it reads what the log had when it was asked: a release counts at once."""
    found = choose(ports, pool_id, wanted)
    if found is None:
        ports.calendars.lost(pool_id, (), wanted.window)
        found = choose(ports, pool_id, wanted)
    return found


def choose_each(ports: Ports, pool_id: str, queue: Sequence[Wanted]) -> list[Places | None]:
    """Where each claim lands, one after the other, in one and the same view of the pool: nobody overtakes by chance.

    What is chosen stays held in the calendar until the log confirms it or `drop` gives it back, so that rivals in this
    process choose something else instead of losing to each other in the database.
    """
    chosen: list[Places | None] = []
    with ports.calendars.locked(pool_id) as calendar:
        for wanted in queue:
            placed = placement.place(calendar, wanted.claim, wanted.window, wanted.reservation_id, ports.selectors)
            if isinstance(placed, placement.Refusal):
                chosen.append(None)
                continue
            places = tuple(Chosen(ports.new_id("alloc"), member) for member in placed.members)
            for one in places:
                member = one.member
                calendar.book(one.allocation_id, member.node_id, member.atoms, member.scalars, *wanted.window)
            ports.calendars.hold(pool_id, [one.allocation_id for one in places])
            chosen.append(places)
    return chosen


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


def earliest(ports: Ports, pool_id: str, claim: Claim, duration_ms: int, now: int) -> int | None:
    """The first instant (epoch ms) at which the claim would fit, if nothing new came; None within a year."""
    with ports.calendars.locked(pool_id) as calendar:
        return placement.earliest_start(calendar, claim, duration_ms, now, now + EARLIEST_WITHIN_MS, ports.selectors)
