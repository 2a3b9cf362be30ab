"""The fleet: what is wrong, what there is and what is left of it, and a map of all nodes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import File, Page

from . import fleet_alerts, fleet_capacity

MOST_SHOWN: Final = 5
MOST_COUNTED: Final = 100
FILTERS: Final = ("siteId", "poolId", "rack", "connectivity", "provisionState", "drain", "reason", "condition")


def build(ask: Ask) -> dict[str, Any]:
    capacity = fleet_capacity.bars(ask("capacity.list")["items"])
    scope = ask.widest("nodes.count")
    counts = seen.several(ask, "nodes.count")
    sites = seen.several(ask, "sites.list", limit=seen.MOST_NAMES)
    return {
        "alerts": fleet_alerts.found(ask, counts, sites, scope),
        "nodes": sum(row["count"] for row in counts),
        "states": states(counts),
        "devices": [*filter(fleet_capacity.is_device, capacity), *fleet_capacity.in_all(capacity)],
        "others": [bar for bar in capacity if not fleet_capacity.is_device(bar)],
        "models": fleet_capacity.by_model(capacity),
        "pending": _some(ask, "reservations.list", "pending"),
        "running": _some(ask, "instances.list", "running"),
    }


def states(counts: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Nodes by what an operator asks first; one of which several are true is counted in each. Site agents are none."""

    def how_many(of: Callable[[Mapping[str, Any]], bool]) -> int:
        return sum(row["count"] for row in counts if row["role"] != "site" and of(row))

    return [
        ("nodes in service", how_many(lambda row: "reasons" not in row)),
        ("not in service", how_many(lambda row: "reasons" in row)),
        ("not connected", how_many(lambda row: row["connectivity"] != "connected")),
        ("draining or drained", how_many(lambda row: "drain" in row)),
        ("in maintenance", how_many(lambda row: "Maintenance" in row.get("reasons", ()))),
    ]


def _some(ask: Ask, operation: str, state: str) -> dict[str, Any] | None:
    """The first of them, and how many there are as far as one page tells."""
    scope = ask.widest(operation)
    found = ask.if_may(operation, scope=scope, state=state, limit=MOST_COUNTED)
    if found is None:
        return None
    return {"items": found["items"][:MOST_SHOWN], "count": len(found["items"]), "more": "nextCursor" in found}


def map_data(ask: Ask) -> bytes:
    """The map's rows, or with `after` those that changed; the first time with the names of sites and pools."""
    after, cursor = ask.query.get("after"), ask.query.get("cursor")
    page = ask("nodes.map", scope=ask.widest("nodes.map"), after=after, cursor=cursor)
    told = {"position": ask.position, "nodes": page["items"], "nextCursor": page.get("nextCursor")}
    if after is None and cursor is None:
        told["sites"] = seen.names(ask, "sites")
        told["pools"] = seen.names(ask, "pools")
    return msgspec.json.encode(told)


def table(ask: Ask) -> dict[str, Any]:
    """What the map shows, as rows."""
    asked = {name: ask.query.get(name) for name in FILTERS}
    page = ask("nodes.map", scope=ask.widest("nodes.map"), limit=100, cursor=ask.query.get("cursor"), **asked)
    return {
        "rows": page["items"],
        "cursor": page.get("nextCursor"),
        "sites": seen.names(ask, "sites"),
        "pools": seen.names(ask, "pools"),
        "filters": {name: value for name, value in asked.items() if value},
    }


PAGES: Final = (
    Page(
        path="/",
        name="console.fleet",
        template="fleet.html",
        build=build,
        title="Fleet",
        nav="Fleet",
        needs="capacity.list",
        live=("node", "pool", "poff", "rsv", "inst", "site", "quota"),
    ),
    Page(
        path="/fleet/nodes",
        name="console.fleet.nodes",
        template="fleet-nodes.html",
        build=table,
        title="Nodes of the fleet",
        nav="Fleet",
        live=("node",),
    ),
)
FILES: Final[tuple[File, ...]] = (
    File(path="/fleet/map.json", name="console.fleet.map", media_type="application/json", build=map_data),
)
