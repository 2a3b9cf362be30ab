"""From a claim to allocations: what a placement of the pool's calendar becomes in the log (domain.md §5)."""

from typing import Final

from commands.ports import Ports
from domain import node, placement, reservation
from domain.claim import Claim

EARLIEST_WITHIN_MS: Final = 366 * 86_400_000


def choose(
    ports: Ports, reservation_id: str, pool_id: str, claim: Claim, window: tuple[int, int]
) -> tuple[reservation.Allocation, ...] | None:
    """Where the claim lands over the window as far as this process has read; None when nowhere."""
    with ports.calendars.locked(pool_id) as calendar:
        placed = placement.place(calendar, claim, window, reservation_id, ports.selectors)
    if isinstance(placed, placement.Refusal):
        return None
    return tuple(_allocate(ports, member) for member in placed.members)


def _allocate(ports: Ports, member: placement.Member) -> reservation.Allocation:
    on_node: node.State = ports.store.load(member.node_id).state
    names = {d.id: d.cdi for d in on_node.devices}
    return reservation.Allocation(
        id=ports.new_id("alloc"),
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
