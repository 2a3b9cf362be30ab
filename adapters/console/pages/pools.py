"""Pools: what each has and holds, how it is run, who waits, and to whom it is offered."""

import secrets
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, get_args

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import Page
from domain import gpu, node_command, offering, pool

RUNS: Final = ("pools.update", "pools.offer", "pools.withdraw", "pools.evict", "pools.retire")
SHOWN: Final = 25
"""Rows of what else there is on a pool's page; its own page has the rest."""
SLICES: Final = 7
RESOURCES: Final = get_args(offering.Resource)


def listed(ask: Ask) -> dict[str, Any]:
    return {
        "list": seen.page(ask, "pools.list", "gpuModel", "retired"),
        "capacity": _capacity(ask),
        "models": sorted(gpu.families()),
        "may_create": ask.as_of is None and ask.may("pools.create"),
    }


def _capacity(ask: Ask, pool_id: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Rows of resources by pool: of those that the caller owns, and of those that are offered to it."""
    found = ask.if_may("capacity.list", poolId=pool_id)
    rows = defaultdict(list)
    for row in found["items"] if found else ():
        rows[row["poolId"]].append(row | {"whole": row.get("total", row.get("limit", 0))})
    return rows


def one(ask: Ask) -> dict[str, Any]:
    id = ask.path["id"]
    shown = seen.one(ask, "pools", id)
    me = ask.session.tenant_id
    owns = shown["ownerTenantId"] == me
    visible = ask.may("pools.get", id=id)
    offers = ask.if_may("pools.offers", id=id, limit=200) if visible else None
    members = seen.several(ask, "nodes.list", poolId=id, limit=SHOWN) if owns or _wide(ask) else []
    queue = seen.several(ask, "reservations.list", poolId=id, state="pending", order="asc", limit=SHOWN)
    in_use = {"pools.retire"} if members or queue else set()
    return {
        "of": shown,
        "owns": owns,
        "capacity": _capacity(ask, id)[id] if visible and not shown["retired"] else [],
        "site": ask.if_may("sites.get", id=shown["siteId"]),
        "members": members,
        "queue": queue,
        "held": seen.several(ask, "allocations.list", poolId=id, released="false", order="desc", limit=SHOWN),
        "offers": offers["items"] if offers else [],
        "mine": next((one for one in offers["items"] if one["tenantId"] == me), None) if offers else None,
        "may": ask.offered(*RUNS, id=id) - in_use if owns and not shown["retired"] else set(),
        "may_reserve": ask.as_of is None and not shown["retired"] and visible and ask.may("reservations.create"),
        "sold": sold(shown),
        "checks": get_args(node_command.Check),
        "slices": range(SLICES),
        "title": f"Pool {shown['name']}",
        "live": f"{id} rsv poff node",
    }


def _wide(ask: Ask) -> bool:
    return ask.widest("nodes.list") == "fleet"


def sold(of: Mapping[str, Any]) -> list[str]:
    """The resources of which a quota of this pool may speak."""
    shape = pool.State(class_=of["class"], sharing=of["sharing"])
    classes = pool.device_classes(shape)
    devices = ("gpu", "gpu.mig", "gpu.slot") if of["class"] == "vps-host" else classes
    return [name for name in RESOURCES if name in devices or name in ("vcpu", "memoryMiB")]


def new(ask: Ask) -> dict[str, Any]:
    return {
        "sites": [(site["id"], site["name"]) for site in seen.own(ask, "sites.list")],
        "models": [(name, name) for name in sorted(gpu.families())],
        "classes": get_args(pool.Class),
        "sharings": get_args(pool.Sharing),
        "slices": range(SLICES),
        "may": ask.offered("pools.create"),
        "key": secrets.token_hex(16),
        "live": "",
    }


PAGES: Final = (
    Page(
        path="/pools",
        name="console.pools",
        template="pools.html",
        build=listed,
        title="Pools",
        nav="Pools",
        needs="pools.list",
        live=("pool", "rsv", "node", "poff", "quota"),
    ),
    Page(
        path="/pools/new",
        name="console.pools.new",
        template="pool-new.html",
        build=new,
        title="New pool",
        nav="Pools",
        past=False,
    ),
    Page(
        path="/pools/{id}",
        name="console.pool",
        template="pool.html",
        build=one,
        title="Pool",
        nav="Pools",
    ),
)
