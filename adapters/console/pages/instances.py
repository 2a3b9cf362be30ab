"""Instances: the list, one with its console, and a form that starts one."""

import secrets
from collections.abc import Mapping
from typing import Any, Final, get_args

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import Page
from domain import instance, instance_life, node_spec

WRITES: Final = frozenset({"provisioning", "running", "stopping", "unknown"})
"""States in which its console may go on."""


def listed(ask: Ask) -> dict[str, Any]:
    return {
        "list": seen.page(ask, "instances.list", "state", "poolId", "projectId", "nodeId", "imageId"),
        "pools": seen.names(ask, "pools"),
        "projects": seen.names(ask, "projects"),
        "states": get_args(instance.Status),
        "may_create": ask.as_of is None and ask.may("instances.create"),
        "nodes": ask.may("nodes.get"),
    }


def one(ask: Ask) -> dict[str, Any]:
    id = ask.path["id"]
    shown = seen.one(ask, "instances", id)
    mine = shown["tenantId"] == ask.session.tenant_id
    pool = ask.if_may("pools.get", id=shown["poolId"])
    return {
        "of": shown,
        "pool": pool,
        "project": seen.name(ask, "projects", shown["projectId"]),
        "may": ask.offered(*takes(shown), id=id) if mine else set(),
        "console": ask.if_may("instances.console", id=id) if mine else None,
        "goes_on": ask.as_of is None and shown["state"] in WRITES,
        "title": f"Instance {shown['name']}",
        "live": f"{id} {shown['reservationId'] or ''}",
    }


def takes(of: Mapping[str, Any]) -> list[str]:
    """The operations that its state takes and that would change something."""
    ended = of["endedAt"] is not None
    verbs = [verb for verb, states in instance_life.VERBS.items() if of["state"] in states]
    told = {"start": of["desiredState"] != "running", "stop": of["desiredState"] != "stopped"}
    done = of["state"] in ("deleting", "deleted")
    kept = [verb for verb in verbs if told.get(verb, True) and not done and (not ended or verb == "delete")]
    return [f"instances.{verb}" for verb in kept]


def console(ask: Ask) -> dict[str, Any]:
    return {"console": ask("instances.console", id=ask.path["id"])}


def new(ask: Ask) -> dict[str, Any]:
    """What there is to start from; an image that nobody vouches for is refused, so it is not shown."""
    images = seen.own(ask, "images.list", state="stored", purpose="os", verified="true")
    pools = [pool for pool in seen.own(ask, "pools.list", retired="false") if pool["class"] == "vps-host"]
    here = {pool["id"] for pool in pools}
    held = ask.if_may("reservations.list", state="active", limit=200) or {"items": []}
    free = [one for one in held["items"] if one["binding"] == "instance" and not one["instanceId"]]
    return {
        "pools": [(pool["id"], f"{pool['name']} ({pool['gpuModel']})") for pool in pools],
        "flavors": [(one["id"], size(one)) for one in seen.own(ask, "flavors.list", retired="false")],
        "images": [(one["id"], f"{one['name']} {one['imageVersion']}") for one in images],
        "projects": [(one["id"], one["name"]) for one in seen.own(ask, "projects.list", archived="false")],
        "reservations": [(one["id"], f"{one['id'][:16]}…") for one in free if one["poolId"] in here],
        "kinds": get_args(node_spec.Kind),
        "may": ask.offered("instances.create"),
        "key": secrets.token_hex(16),
        "live": "",
    }


def size(flavor: Mapping[str, Any]) -> str:
    gpus = f", {flavor['gpus']['count']} × {flavor['gpus']['class']}" if flavor["gpus"] else ""
    return f"{flavor['name']}: {flavor['vcpu']} vCPU, {flavor['memoryGiB']} GiB, disk {flavor['diskGiB']} GiB{gpus}"


PAGES: Final = (
    Page(
        path="/instances",
        name="console.instances",
        template="instances.html",
        build=listed,
        title="Instances",
        nav="Instances",
        needs="instances.list",
        live=("inst",),
    ),
    Page(
        path="/instances/new",
        name="console.instances.new",
        template="instance-new.html",
        build=new,
        title="New instance",
        nav="Instances",
        past=False,
    ),
    Page(
        path="/instances/{id}",
        name="console.instance",
        template="instance.html",
        build=one,
        title="Instance",
        nav="Instances",
        live=("inst", "rsv"),
    ),
)

PARTS: Final = (
    Page(
        path="/instances/{id}/console",
        name="console.instance.console",
        template="part/console.html",
        build=console,
    ),
)
