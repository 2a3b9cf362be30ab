"""The lists of `better-compute top`: who waits, which nodes take nothing, what runs, what has just happened."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from adapters.cli import spans, tables, top_state
from adapters.cli.top_state import Row, State

SORTS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "age": lambda row: row["createdAt"],
    "start": lambda row: (row["earliestStart"] is None, row["earliestStart"] or 0, row["createdAt"]),
    "size": lambda row: (-row["gpuCount"], row["createdAt"]),
}
"""The orders of the queue; the pool's own is by priority, then age, and only a reservation itself tells its place."""

TELLING: Final = ("action", "provision", "connectivity", "state", "reason")
"""Fields of events that are said beside their names."""


class Shown(NamedTuple):
    """The first rows of a list, and how many there are in all."""

    rows: list[dict[str, Any]]
    total: int


def queue(state: State, pool_id: str | None, sort: str, now: int, most: int | None) -> Shown:
    """Reservations that wait: the place of each in its pool's queue where it is known, why, and the promised start."""
    named = top_state.pools(state)
    waiting = sorted(top_state.of_pool(top_state.queue(state), pool_id), key=SORTS[sort])
    rows = [
        {
            "place": row["queuePosition"],
            "age": spans.brief(now - row["createdAt"]),
            **_owner(state, row),
            "pool": named.get(row["poolId"], row["poolId"]),
            "asks": asks(row),
            "why": row["stateReason"] or row["state"],
            "start": _start(row, now),
            "id": row["id"],
            "detail": row["stateDetail"],
        }
        for row in waiting[:most]
    ]
    return Shown(rows, len(waiting))


def queue_said(state: State, pool_id: str | None) -> str:
    """How many wait, and how many have what they asked for."""
    rows = top_state.of_pool(state.rows("reservations"), pool_id)
    count = Counter(row["state"] for row in rows)
    waiting = sum(count.pop(name, 0) for name in top_state.WAITING)
    said = [f"{waiting} waiting" if waiting else "nobody waits", *_each(count)]
    worse = Counter(f"degraded ({row['degraded']})" for row in rows if row["degraded"])
    return ", ".join([*said, *_each(worse)])


def nodes(state: State, pool_id: str | None, now: int, most: int | None) -> Shown:
    """Nodes on which nothing is placed; what came about last is first."""
    named = top_state.pools(state)
    out = [row for row in top_state.of_pool(top_state.hosts(state), pool_id) if not row["schedulable"]]
    out.sort(key=lambda row: -max(why["since"] for why in row["unschedulableReasons"]))
    rows = [
        {
            "name": row["name"],
            "pool": named.get(row["poolId"], row["poolId"]),
            "state": row["provisionState"],
            "connected": row["connectivity"],
            "why": _why(row, now),
            "id": row["id"],
        }
        for row in out[:most]
    ]
    return Shown(rows, len(out))


def nodes_said(state: State, pool_id: str | None) -> str:
    """How many there are in which state, and for how many each reason holds."""
    rows = top_state.of_pool(top_state.hosts(state), pool_id)
    fine = sum(row["schedulable"] for row in rows)
    said = [", ".join(_each(Counter(row["provisionState"] for row in rows))) or "none"]
    if rows:
        said.append(f"{fine} schedulable" + (f", {len(rows) - fine} not" if fine < len(rows) else ""))
    why = top_state.reasons(rows)
    return "; ".join(said) + (f": {', '.join(f'{name} {many}' for name, many in why.most_common())}" if why else "")


def instances(state: State, pool_id: str | None, now: int, most: int | None) -> Shown:
    """What does not run as it should comes first, then what began last."""
    named = top_state.pools(state)
    there = top_state.of_pool(state.rows("instances"), pool_id)
    there.sort(key=lambda row: (row["state"] == "running", -row["stateSince"]))
    rows = [
        {
            "name": row["name"],
            **_owner(state, row),
            "state": row["state"],
            "for": spans.brief(now - row["stateSince"]),
            "pool": named.get(row["poolId"], row["poolId"]),
            "node": row["nodeName"],
            "flavor": row["flavorName"],
            "why": row["stateReason"],
            "id": row["id"],
        }
        for row in there[:most]
    ]
    return Shown(rows, len(there))


def instances_said(state: State, pool_id: str | None) -> str:
    rows = top_state.of_pool(state.rows("instances"), pool_id)
    return ", ".join(_each(Counter(row["state"] for row in rows))) or "none"


def events(state: State, most: int) -> list[str]:
    """Newest first: when, what, to what, by whom, and what else was said."""
    named = top_state.names(state)
    lines = []
    for event in state.events[:most]:
        thing = event.get("stream", "")
        kind, _, who = event["actor"].partition(":")
        by = who if kind == "identity" else f"{kind} {named.get(who, who)}" if who != thing else "its agent"
        what = f"{spans.second(event['recordedAt'])} {event['type'].rpartition('.')[0]:<27}"
        lines.append(tables.printable(": ".join([f"{what} {named.get(thing, thing)} by {by}", *_said(event["data"])])))
    return lines


def _said(data: Row) -> list[str]:
    """The fields that tell most of an event, as one text."""
    values = [data[field] for field in TELLING if isinstance(data.get(field), str) and data[field]]
    reasons = data.get("reasons")
    if isinstance(reasons, dict):
        values += list(reasons) or ["schedulable"]
    return [", ".join(values)] if values else []


def asks(row: Row) -> str:
    """`gpu=8 disk=1`, for a gang `2 x gpu=8`."""
    wanted = [f"{one['class']}={one['count']}" for one in row["devices"] if one["count"]]
    wanted += [f"{name}={many}" for name, many in row["scalars"].items()] if not wanted else []
    of = f"{row['nodes']} x " if row["nodes"] > 1 else ""
    return of + " ".join(wanted) + (" spot" if row["spot"] else "")


def _owner(state: State, row: Row) -> dict[str, Any]:
    return {"tenant": row["tenantId"]} if state.scope == "fleet" else {}


def _start(row: Row, now: int) -> str:
    """The promise; else the window that was asked for."""
    if row["earliestStart"] is None:
        return f"asked {spans.clock(row['startsAt'], now)}" if row["startsAt"] else "-"
    return f"{spans.clock(row['earliestStart'], now)} in {spans.brief(row['earliestStart'] - now)}"


def _why(row: Row, now: int) -> str:
    """Each reason and for how long; of a cordon also what was said."""
    said = {"Cordoned": row["cordoned"], "Maintenance": ", ".join(stay["reason"] for stay in row["maintenance"])}
    found = []
    for why in sorted(row["unschedulableReasons"], key=lambda why: why["since"]):
        words = said.get(why["reason"])
        span = spans.brief(now - why["since"])
        found.append(f"{why['reason']} {span}" + (f" ({words})" if words else ""))
    return ", ".join(found)


def _each(count: Iterable[str] | Counter[str]) -> list[str]:
    return [f"{many} {name}" for name, many in sorted(Counter(count).items())]
