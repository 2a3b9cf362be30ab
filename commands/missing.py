"""Booked devices that a node has no more: their reservations are degraded, and keep them (domain.md §4; O23)."""

from collections.abc import Collection, Sequence

from commands import hardware, members
from commands.acting import following
from commands.gathering import Loads
from commands.ports import Loaded
from domain import node, reservation
from domain.event import Change

BOUND = ("binding", "active")


def told(
    loads: Loads, actor: str, reservation_ids: Sequence[str], node_id: str, events: Sequence[node.Events], now: int
) -> list[Change]:
    """What a node's events mean for the reservations that are bound on it, each told of its own devices alone."""
    gone = _gone(events)
    if gone is None:
        return []
    changes = []
    for reservation_id in reservation_ids:
        loaded = loads.load(reservation_id)
        news = _news(loaded, node_id, gone, now)
        if news:
            meta = following(actor, loaded.state.admission_id, loaded)
            changes.append(Change(reservation_id, loaded.version, tuple(news), meta))
    return changes


def already(spec: node.State, atoms: Collection[str]) -> set[str]:
    """Those of these atoms that the node was missing before anybody was bound to them."""
    named = (one.names for one in spec.conditions if one.type == hardware.BOOKED_MISSING)
    return {name for names in named for name in names} & set(atoms)


def _news(loaded: Loaded, node_id: str, gone: Collection[str], now: int) -> list[reservation.Events]:
    state: reservation.State = loaded.state
    here = members.on(state, node_id)
    if here is None or state.status not in BOUND:
        return []
    elsewhere = set(state.missing) - set(here.atoms)
    return members.lacks(state, elsewhere | (set(gone) & set(here.atoms)), now)


def _gone(events: Sequence[node.Events]) -> Collection[str] | None:
    """The booked devices that are missing from now on; None where that is no news."""
    for event in reversed(events):
        if isinstance(event, node.ConditionRaised) and event.condition.type == hardware.BOOKED_MISSING:
            return event.condition.names
        if isinstance(event, node.ConditionCleared) and event.condition == hardware.BOOKED_MISSING:
            return ()
    return None
