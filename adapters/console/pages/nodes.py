"""Nodes: the list, found by every axis."""

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import Page
from domain import errors, join_token, node, provision, schedulability

from . import node_pages, node_reasons

ROWS: Final = "100"

FILTERS: Final = (
    "text",
    "siteId",
    "poolId",
    "rack",
    "gpuModel",
    "role",
    "provisionState",
    "connectivity",
    "schedulable",
    "reason",
    "condition",
    "drain",
    "power",
)
SORTS: Final = (
    ("name/asc", "name"),
    ("name/desc", "name, backwards"),
    ("changed/desc", "changed last"),
    ("age/desc", "newest"),
    ("age/asc", "oldest"),
)
_ID: Final = re.compile(r"node_[0-9a-z]{26}")


def build(ask: Ask) -> dict[str, Any]:
    wanted = {name: ask.query.get(name, "").strip() for name in FILTERS}
    sort, _, order = _sort(ask).partition("/")
    asked = {"sort": sort, "order": order} if ask.as_of is None else {}
    scope = ask.widest("nodes.list")
    if not wanted["provisionState"]:
        asked["retired"] = "false"
    fields = {"limit": ROWS, "cursor": ask.query.get("cursor"), "scope": scope, **asked}
    looked_for = _ID.fullmatch(wanted["text"])
    answer = _one(ask, looked_for[0]) if looked_for else ask("nodes.list", **fields, **wanted)
    sites, pools = seen.names(ask, "sites"), seen.names(ask, "pools")
    return {
        "nodes": answer["items"],
        "more_after": answer.get("nextCursor"),
        "wanted": wanted,
        "filtered": any(wanted.values()),
        "sort": f"{sort}/{order}",
        "sites": sites,
        "pools": pools,
        "scope": scope,
        "choices": _choices(sites, pools),
        "sorts": SORTS,
        "may_sites": ask.may("sites.list"),
    }


def _sort(ask: Ask) -> str:
    asked = ask.query.get("sort", "")
    return asked if asked in dict(SORTS) else SORTS[0][0]


def _one(ask: Ask, id: str) -> dict[str, Any]:
    """Who looks for an id wants this node, whatever else is filtered by; one that is not there is an empty list."""
    try:
        return {"items": [ask("nodes.get", id=id)]}
    except errors.NotFound:
        return {"items": []}


def _choices(sites: Mapping[str, str], pools: Mapping[str, str]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """What a select offers: the field, what it is called, and its options."""
    return [
        ("siteId", "Site", _options(sites)),
        ("poolId", "Pool", _options(pools)),
        ("role", "Role", _same(get_args(join_token.Role))),
        ("provisionState", "Provisioning", _same(get_args(provision.Provision))),
        ("connectivity", "Connection", _same(get_args(node.Connectivity))),
        ("schedulable", "Schedulable", [("true", "yes"), ("false", "no")]),
        ("reason", "Not schedulable for", _same(sorted(schedulability.REASONS))),
        ("condition", "Observed", _same(sorted({*node_reasons.CONDITIONS, *schedulability.BLOCKING}))),
        ("drain", "Drain", _same(("draining", "drained"))),
        ("power", "Power", _same(get_args(node.Power))),
    ]


def _options(named: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(named.items(), key=lambda one: one[1])


def _same(values: Any) -> list[tuple[str, str]]:
    return [(value, value) for value in values]


PAGES: Final = (
    Page(
        path="/nodes",
        name="console.nodes",
        template="nodes.html",
        build=build,
        title="Nodes",
        nav="Nodes",
        needs="nodes.list",
        live=("node",),
    ),
    *node_pages.PAGES,
)
