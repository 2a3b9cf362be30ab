"""How a node becomes empty: who is on it, who leaves when, and how far a drain is."""

from collections.abc import Mapping
from typing import Any

from adapters.console.ask import Ask
from domain import errors

Json = Mapping[str, Any]


def leaving(allocations: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """What is booked on the node, by what a drain does to it: `elsewhere` is placed anew, `ends` runs on."""
    return {
        "elsewhere": [one for one in allocations if one["state"] == "placed"],
        "ends": [one for one in allocations if one["state"] in ("binding", "active")],
        "freeing": [one for one in allocations if one["state"] == "releasing"],
    }


def progress(ask: Ask, node: Json, allocations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Of a drain under way: how many are left, and of how many, as far as the past still tells."""
    drain = node["drain"]
    if drain is None:
        return None
    return {"left": len(allocations), "began_with": _began_with(ask, node["id"], drain["since"])}


def _began_with(ask: Ask, id: str, since: int) -> int | None:
    if ask.as_of is not None:
        return None
    fields = {"nodeId": id, "scope": ask.widest("allocations.list"), "limit": "1000"}
    fields |= {"released": "false", "asOf": str(since)}
    try:
        found = ask.if_may("allocations.list", **fields)
    except errors.HistoryPruned:
        return None
    return None if found is None else len(found["items"])
