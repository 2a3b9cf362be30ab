"""Whether a claim fits, found by trying all nodes and all devices (domain.md §5)."""

from itertools import combinations

from domain.claim import Claim
from histories.invariants import instants_of, seats
from histories.model import Hold, Model


def fits(model: Model, asked: Claim, start: int, end: int, gap_ms: int) -> bool:
    """Over `[start, end)`; bookings of a device lie `gap_ms` apart."""
    rooms = [id for id in model.nodes if _on_node(model, asked, id, start - gap_ms, end + gap_ms)]
    for team in combinations(rooms, asked.nodes):
        if asked.topology is None:
            return True
        key = asked.topology.pack or asked.topology.spread or ""
        values = {model.nodes[id].labels[key] for id in team}
        if len(values) == (1 if asked.topology.pack else len(team)):
            return True
    return False


def _on_node(model: Model, asked: Claim, node_id: str, start: int, end: int) -> bool:
    on = model.nodes[node_id]
    if not on.schedulable:
        return False
    mine = [hold for hold in model.holds() if hold.node_id == node_id]
    if any(hold.reservation_id is None and hold.start < end and start < hold.end for hold in mine):
        return False
    for scalar, amount in asked.scalars.items():
        for at in instants_of(mine, start, end):
            holding = [hold for hold in mine if hold.start <= at and (at < hold.end or (hold.ended and not hold.freed))]
            if amount + sum(hold.scalars.get(scalar, 0) for hold in holding) > on.scalars[scalar]:
                return False
    free = [device for atom, device in on.devices.items() if not _busy(model, atom, mine, start, end)]
    size = sum(line.count for line in asked.devices)
    return any(seats(asked, list(chosen)) for chosen in combinations(free, size))


def _busy(model: Model, atom: str, mine: list[Hold], start: int, end: int) -> bool:
    holds = [hold for hold in mine if atom in hold.atoms]
    if any(hold.freed and hold.start < end and start < hold.end for hold in holds):
        return True
    return any(model.held(hold, at, holds, atom) for hold in holds for at in instants_of(holds, start, end))
