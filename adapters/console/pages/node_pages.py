"""A node's pages: how it stands and what may be done, its commands, its hardware, its history."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from adapters.console.ask import Ask, as_of
from adapters.console.page import Page
from domain import node_command

from . import node_acts, node_devices, node_drain, node_hardware, node_reasons, node_story

Json = Mapping[str, Any]
MOST: Final = "1000"
LATELY: Final = "25"
TABS: Final = (
    ("", "Now", "nodes.get"),
    ("/commands", "Commands", "commands.list"),
    ("/inventory", "Hardware", "nodes.inventory"),
    ("/history", "History", "nodes.history"),
)
"""Below a node's address: what each is called, and the operation that it shows."""


def _around(ask: Ask, node: Json, tab: str) -> dict[str, Any]:
    """What stands above each of the node's pages."""
    id = node["id"]
    open_ = [(below, said) for below, said, shows in TABS if ask.may(shows, id=id, scope=ask.widest(shows))]
    return {
        "node": node,
        "title": node["name"],
        "tabs": [(f"/nodes/{id}{below}", said, below == tab) for below, said in open_],
        "below": [below for below, _ in open_],
        "may": ask.offered(*node_acts.ALL, id=id) & node_acts.legal(node),
        "why": node_reasons.why(node),
        "audit": ask.may("audit.events"),
        **({} if ask.as_of else {"live": f"{id} cmd rsv inst"}),
    }


def now_page(ask: Ask) -> dict[str, Any]:
    node = ask("nodes.get", id=ask.path["id"])
    id = node["id"]
    story = _story(ask, id, LATELY)
    at = ask.now
    devices = ask.if_may("nodes.devices", id=id)
    bookings = _listed(ask, "bookings.list", nodeId=[id], **{"from": str(at)})
    allocations = _listed(ask, "allocations.list", nodeId=id, released="false")
    shown = _around(ask, node, "")
    return {
        **shown,
        "at": at,
        "informing": node_reasons.informing(node),
        "site": ask.if_may("sites.get", id=node["siteId"]),
        "pool": ask.if_may("pools.get", id=node["poolId"]) if node["poolId"] else None,
        "pools": _pools(ask, node) if "nodes.assign" in shown["may"] else [],
        "devices": node_devices.lines(devices["items"], bookings, node, at) if devices else [],
        "scalars": node_devices.scalars(bookings),
        "allocations": sorted(allocations, key=lambda one: (one["from"], one["id"])),
        "progress": node_drain.progress(ask, node, allocations),
        "leaving": node_drain.leaving(allocations),
        "instances": _listed(ask, "instances.list", nodeId=id),
        "spec": ask.if_may("nodes.spec", id=id),
        "outstanding": [one for one in _commands(ask, id, "25") if one["status"] not in node_command.FINAL],
        "story": story,
        "schedulable_since": node_story.schedulable_since(story),
        "sessions": node_story.sessions(story),
    }


def commands_page(ask: Ask) -> dict[str, Any]:
    node = ask("nodes.get", id=ask.path["id"])
    around = _around(ask, node, "/commands")
    found = ask("commands.list", nodeId=node["id"], order="desc", limit="50", **_paging(ask, "commands.list"))
    inventory = ask.if_may("nodes.inventory", id=node["id"]) if "commands.issue" in around["may"] else None
    spec = ask.if_may("nodes.spec", id=node["id"]) if "commands.issue" in around["may"] else None
    types = ask.if_may("commands.types")["items"] if "commands.issue" in around["may"] else []
    return {
        **around,
        "commands": found["items"],
        "more_after": found.get("nextCursor"),
        "types": types,
        "cancel": ask.offered("commands.cancel", nodeId=node["id"]),
        "choices": {
            "gpuUuid": [one["uuid"] for one in ((inventory or {}).get("inventory") or {}).get("gpus", ())],
            "instanceId": [one["id"] for one in (spec or {}).get("instances", ())],
        },
        "running": _listed(ask, "allocations.list", nodeId=node["id"], released="false"),
    }


def inventory_page(ask: Ask) -> dict[str, Any]:
    node = ask("nodes.get", id=ask.path["id"])
    since = ask.query.get("diff", "").strip()
    asked = {"diff": _asked(since)} if since else {}
    found = ask("nodes.inventory", id=node["id"], **asked)
    seen = [one for one in _story(ask, node["id"], "100") if one["type"] == "node.inventoried.1"]
    return {
        **_around(ask, node, "/inventory"),
        "found": found,
        "hardware": node_hardware.told(found["inventory"]) if found["inventory"] else [],
        "changes": None if found["changes"] is None else [node_hardware.change(one) for one in found["changes"]],
        "diff": since,
        "snapshots": seen,
    }


def history_page(ask: Ask) -> dict[str, Any]:
    node = ask("nodes.get", id=ask.path["id"])
    found = ask(
        "nodes.history", id=node["id"], limit="100", cursor=ask.query.get("cursor"), order=ask.query.get("order")
    )
    return {
        **_around(ask, node, "/history"),
        "story": node_story.story(found["items"]),
        "more_after": found.get("nextCursor"),
    }


def _asked(text: str) -> str:
    """A point in time as the API takes it: from a field of a date, or as it is."""
    return as_of(text) or ""


def _story(ask: Ask, id: str, most: str) -> list[dict[str, Any]]:
    found = ask.if_may("nodes.history", id=id, limit=most)
    return node_story.story(found["items"]) if found else []


def _commands(ask: Ask, id: str, most: str) -> list[dict[str, Any]]:
    return _listed(ask, "commands.list", nodeId=id, order="desc", limit=most)


def _listed(ask: Ask, operation: str, **fields: str | list[str]) -> list[dict[str, Any]]:
    """What the caller may see of it, as wide as it may look."""
    answer = ask.if_may(operation, **{"limit": MOST, "scope": ask.widest(operation), **fields})
    return list(answer["items"]) if answer else []


def _paging(ask: Ask, operation: str) -> dict[str, Any]:
    return {"scope": ask.widest(operation), "cursor": ask.query.get("cursor")}


def _pools(ask: Ask, node: Json) -> list[dict[str, Any]]:
    """Where it can go: the pools of its site that are in use."""
    found = [one for one in _listed(ask, "pools.list", siteId=node["siteId"]) if not one.get("retired")]
    ask.know(one["id"] for one in found)
    return [one for one in found if ask.may("nodes.assign", id=node["id"], poolId=one["id"])]


def _page(below: str, name: str, build: Callable[[Ask], dict[str, Any]]) -> Page:
    return Page(
        path=f"/nodes/{{id}}{below}",
        name=f"console.node{name}",
        template=f"node{name.replace('.', '-')}.html",
        build=build,
        title="Node",
        nav="Nodes",
        live=("node",),
    )


PAGES: Final = (
    _page("", "", now_page),
    _page("/commands", ".commands", commands_page),
    _page("/inventory", ".inventory", inventory_page),
    _page("/history", ".history", history_page),
)
