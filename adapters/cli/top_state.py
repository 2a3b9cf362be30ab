"""What `better-compute top` knows of a server: the latest answer to each question, and what has happened since."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

Row = Mapping[str, Any]

EVENTS_KEPT: Final = 200
WAITING: Final = ("pending", "awaiting-confirmation")
"""States of reservations that are in the queue."""

UNTOLD: Final = frozenset({"admission.recorded.1"})
"""Events that only say that another one was allowed."""


class Part(Struct, frozen=True):
    """One list as it was last told; not `whole` where there was more than is read."""

    rows: tuple[Row, ...] = ()
    whole: bool = True


class State(Struct, frozen=True, kw_only=True):
    """All that is drawn. Instants are in epoch ms of the server's clock.

    `answered_at` is when the server last answered, `trouble` why it has not since. `parts` has what was answered,
    `refused` what the caller may not see. `following` says that events come by themselves.
    """

    server: str
    scope: str = "tenant"
    answered_at: int | None = None
    trouble: str = ""
    parts: Mapping[str, Part] = {}
    refused: tuple[str, ...] = ()
    events: tuple[Row, ...] = ()
    following: bool = False

    def rows(self, name: str) -> tuple[Row, ...]:
        part = self.parts.get(name)
        return part.rows if part else ()


def told(state: State, name: str, part: Part) -> State:
    return replace(state, parts={**state.parts, name: part})


def refused(state: State, name: str) -> State:
    return state if name in state.refused else replace(state, refused=(*state.refused, name))


def happened(state: State, event: Row) -> State:
    """Newest first; what was told before is not told again."""
    if event["type"] in UNTOLD or any(event["position"] == known["position"] for known in state.events):
        return state
    return replace(state, events=(event, *state.events)[:EVENTS_KEPT])


def pools(state: State) -> dict[str, str]:
    """Names by id, in the order of the server; those with capacity first."""
    named = {row["poolId"]: row["poolName"] for row in state.rows("capacity")}
    return named | {row["id"]: row["name"] for row in state.rows("pools") if not row["retired"]}


def of_pool(rows: Iterable[Row], pool_id: str | None) -> list[Row]:
    return [row for row in rows if pool_id is None or row["poolId"] == pool_id]


def hosts(state: State) -> list[Row]:
    """Nodes that are there to be booked: no agents of sites, nothing retired."""
    return [row for row in state.rows("nodes") if row["role"] == "host" and row["provisionState"] != "retired"]


def queue(state: State) -> list[Row]:
    return [row for row in state.rows("reservations") if row["state"] in WAITING]


def names(state: State) -> dict[str, str]:
    """What people call the things that events are about."""
    return {row["id"]: row["name"] for part in ("pools", "nodes", "instances") for row in state.rows(part)}


def reasons(nodes: Iterable[Row]) -> Counter[str]:
    return Counter(why["reason"] for node in nodes for why in node["unschedulableReasons"])


def document(state: State) -> dict[str, Any]:
    """One JSON document of it; what was refused is null."""
    nodes, there = hosts(state), [name for name in state.parts if name not in state.refused]
    return {
        "server": state.server,
        "scope": state.scope,
        "at": state.answered_at,
        "capacity": state.rows("capacity") if "capacity" in there else None,
        "queue": queue(state) if "reservations" in there else None,
        "reservations": _counted(state.rows("reservations"), "state") if "reservations" in there else None,
        "nodes": _nodes(nodes) if "nodes" in there else None,
        "instances": state.rows("instances") if "instances" in there else None,
        "events": state.events if "events" not in state.refused else None,
        "refused": state.refused,
        "incomplete": [name for name in there if not state.parts[name].whole],
    }


def _nodes(nodes: list[Row]) -> dict[str, Any]:
    return {
        "total": len(nodes),
        "schedulable": sum(node["schedulable"] for node in nodes),
        "provisionStates": _counted(nodes, "provisionState"),
        "connectivity": _counted(nodes, "connectivity"),
        "reasons": dict(sorted(reasons(nodes).items())),
        "unschedulable": [node for node in nodes if not node["schedulable"]],
    }


def _counted(rows: Iterable[Row], field: str) -> dict[str, int]:
    return dict(sorted(Counter(row[field] for row in rows).items()))
