"""A well-formed request of every operation, and the things that it names."""

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from domain import clock, ids, instance, node, reservation
from domain.event import Append, Change, Meta
from domain.provision import Provision
from given import BYTES, DEADLINE_S, SEVEN, Client, Plane, inventory

LATER = int(time.time() * 1000) + 3_600_000
"""In an hour; the tests end before."""

_numbers = itertools.count()

REQUESTS: dict[str, tuple[str, Any]] = {
    "sites.create": ("/v1/sites", {"name": "?", "kind": "{kind}", "iamRegion": "eu"}),
    "sites.list": ("/v1/sites", {}),
    "sites.get": ("/v1/sites/{site}", {}),
    "sites.update": ("/v1/sites/{site}", {"name": "?"}),
    "pools.create": (
        "/v1/pools",
        {
            "name": "?",
            "siteId": "{site}",
            "class": "metal-host",
            "gpuModel": "A100",
            "gpuMemoryGb": 80,
            "sharing": "mig",
            "agent": "bcd",
            "policy": {
                "acceptance": ["gpus-present"],
                "overcommit": {"vcpu": 2.0, "memoryMiB": 1.0},
                "lostAfter": 300,
                "disruptionBudget": 0.05,
                "admission": {"budgetCheck": "off"},
                "maxPending": 60,
                "bindTimeout": 60,
                "hardwareProfile": None,
                "migLayout": SEVEN[:2],
                "tenantRoot": False,
            },
        },
    ),
    "pools.list": ("/v1/pools", {}),
    "pools.get": ("/v1/pools/{pool}", {}),
    "pools.update": ("/v1/pools/{pool}", {"name": "?", "policy": {"cleaningSeconds": 0}}),
    "pools.retire": ("/v1/pools/{spare_pool}", {}),
    "pools.offer": (
        "/v1/pools/{pool}/offers/{customer}",
        {"quota": {"gpu": 100, "vcpu": 1000}, "priority": 1, "includeDescendants": True},
    ),
    "pools.offers": ("/v1/pools/{pool}/offers", {}),
    "offerings.get": ("/v1/offerings/{offering}", {}),
    "pools.withdraw": ("/v1/pools/{other_pool}/offers/{customer}", {}),
    "pools.evict": ("/v1/pools/{pool}/evict", {"reservationId": "{evicted}", "reason": "broken rack"}),
    "projects.create": ("/v1/projects", {"name": "?", "labels": {"team": "t1"}}),
    "projects.list": ("/v1/projects", {}),
    "projects.get": ("/v1/projects/{project}", {}),
    "projects.archive": ("/v1/projects/{spare_project}/archive", {}),
    "flavors.create": (
        "/v1/flavors",
        {"name": "?", "vcpu": 2, "memoryGiB": 4, "diskGiB": 10, "gpus": {"class": "gpu", "count": 1}},
    ),
    "flavors.list": ("/v1/flavors", {}),
    "flavors.get": ("/v1/flavors/{flavor}", {}),
    "flavors.retire": ("/v1/flavors/{spare_flavor}", {}),
    "images.create": (
        "/v1/images",
        {
            "name": "?",
            "imageVersion": "24.04",
            "format": "qcow2",
            "sha256": "0123456789abcdef" * 4,
            "sizeBytes": 1024,
            "purpose": "os",
            "visibility": "private",
        },
    ),
    "images.upload": ("/v1/images/{empty_image}/content", BYTES),
    "images.list": ("/v1/images", {}),
    "images.get": ("/v1/images/{image}", {}),
    "images.sign": ("/v1/images/{image}/signatures", {"signature": "{signature}", "keyId": None}),
    "images.retire": ("/v1/images/{spare_image}", {}),
    "imageSigners.set": ("/v1/image-signers", {"signers": [{"name": "?", "publicKey": "{public_key}"}]}),
    "imageSigners.get": ("/v1/image-signers", {}),
    "instances.create": (
        "/v1/instances",
        {
            "name": "?",
            "kind": "vm",
            "poolId": "{hosts}",
            "flavorId": "{flavor}",
            "imageId": "{bootable}",
            "onNodeLoss": "replace",
            "maxPendingSeconds": 60,
            "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGHbZ7gDvBwRDW4xg1kHnmBxq5uhzrHqmNZcBXF6dvlO me@home"],
            "userData": "I2Nsb3VkLWNvbmZpZwo=",
            "labels": {"app": "web"},
        },
    ),
    "instances.list": ("/v1/instances", {}),
    "instances.get": ("/v1/instances/{instance}", {}),
    "instances.console": ("/v1/instances/{instance}/console", {}),
    "instances.reboot": ("/v1/instances/{instance}/reboot", {}),
    "instances.stop": ("/v1/instances/{instance}/stop", {}),
    "instances.start": ("/v1/instances/{idle_instance}/start", {}),
    "instances.resize": ("/v1/instances/{instance}/resize", {"flavorId": "{flavor}"}),
    "instances.delete": ("/v1/instances/{spare_instance}/delete", {}),
    "quotas.set": ("/v1/quotas/tenant/{tenant}", {"limits": {"gpu": 100, "vcpu": 1000}}),
    "quotas.list": ("/v1/quotas", {}),
    "quotas.get": ("/v1/quotas/tenant/{tenant}", {}),
    "budgets.set": ("/v1/budgets/tenant/{tenant}", {"gpuHours": 1000.5, "from": 0, "until": 4_102_444_800_000}),
    "budgets.get": ("/v1/budgets/tenant/{tenant}", {}),
    "joinTokens.create": (
        "/v1/join-tokens",
        {
            "siteId": "{site}",
            "trust": "tenant-owned",
            "poolId": "{pool}",
            "role": "host",
            "nodeId": None,
            "enroll": True,
            "uses": 1,
            "expiresInSeconds": 60,
        },
    ),
    "joinTokens.list": ("/v1/join-tokens", {}),
    "joinTokens.revoke": ("/v1/join-tokens/{token}", {}),
    "nodes.join": (
        "/v1/nodes/join",
        {
            "inventory": inventory(gpus=1, index=777),
            "publicKey": "A" * 43 + "=",
            "name": "?",
            "labels": {"rack": "r1"},
            "address": "10.0.0.1",
        },
    ),
    "nodes.assign": ("/v1/nodes/{spare_node}/assign", {"poolId": "{pool}", "role": "host"}),
    "nodes.adopt": ("/v1/nodes/{spare_node}/adopt", {}),
    "nodes.cordon": ("/v1/nodes/{spare_node}/cordon", {"reason": "fan"}),
    "nodes.uncordon": ("/v1/nodes/{spare_node}/uncordon", {}),
    "nodes.maintain": (
        "/v1/nodes/{spare_node}/maintenance",
        {"on": True, "reason": "bios", "from": LATER, "until": LATER + 60_000},
    ),
    "nodes.drain": ("/v1/nodes/{spare_node}/drain", {"reason": "fan", "deadline": LATER, "force": True}),
    "nodes.label": ("/v1/nodes/{spare_node}/labels", {"labels": {"rack": "?"}}),
    "nodes.fence": ("/v1/nodes/{spare_node}/fence", {"reason": "off"}),
    "nodes.settle": ("/v1/nodes/{twin}/settle", {"nodes": ["{spare_node}"], "reason": "two machines"}),
    "nodes.inspect": ("/v1/nodes/{failed_node}/inspect", {}),
    "nodes.commission": ("/v1/nodes/{inspected_node}/commission", {}),
    "nodes.deploy": ("/v1/nodes/{ready_node}/deploy", {}),
    "nodes.release": ("/v1/nodes/{deployed_node}/release", {"force": False}),
    "nodes.rescue": ("/v1/nodes/{spare_node}/rescue", {}),
    "nodes.retire": ("/v1/nodes/{last_node}/retire", {"force": True}),
    "nodes.list": ("/v1/nodes", {}),
    "nodes.map": ("/v1/nodes/map", {}),
    "nodes.count": ("/v1/nodes/count", {}),
    "nodes.get": ("/v1/nodes/{node}", {}),
    "nodes.inventory": ("/v1/nodes/{node}/inventory", {}),
    "nodes.history": ("/v1/nodes/{node}/history", {}),
    "nodes.spec": ("/v1/nodes/{node}/spec", {}),
    "nodes.devices": ("/v1/nodes/{node}/devices", {}),
    "commands.issue": (
        "/v1/nodes/{spare_node}/commands",
        {
            "name": "run-acceptance",
            "params": {"checks": ["memory"]},
            "notBefore": LATER,
            "notAfter": LATER + 60_000,
            "minGeneration": 0,
            "force": True,
        },
    ),
    "commands.cancel": ("/v1/commands/{command}/cancel", {"reason": "done"}),
    "commands.list": ("/v1/commands", {}),
    "commands.get": ("/v1/commands/{command}", {}),
    "commands.types": ("/v1/command-types", {}),
    "devices.list": ("/v1/devices", {}),
    "capacity.list": ("/v1/capacity", {}),
    "capacity.timeline": ("/v1/capacity/timeline?poolId={pool}", {}),
    "reservations.create": (
        "/v1/reservations",
        {
            "poolId": "{pool}",
            "devices": [{"class": "gpu", "count": 1, "selector": "true", "topology": {"colocate": "numa"}}],
            "nodes": 1,
            "topology": {"pack": "rack"},
            "scalars": {"vcpu": 1},
            "startsAt": LATER,
            "durationSeconds": 60,
            "binding": "hold",
            "leaseSeconds": 60,
            "spot": False,
            "maxPendingSeconds": 60,
            "labels": {"job": "j1"},
        },
    ),
    "reservations.preview": (
        "/v1/reservations/preview",
        {
            "poolId": "{pool}",
            "devices": [{"class": "gpu", "count": 1, "selector": "true", "topology": {"colocate": "numa"}}],
            "nodes": 1,
            "topology": {"pack": "rack"},
            "scalars": {"vcpu": 1},
            "startsAt": LATER,
            "durationSeconds": 60,
            "binding": "hold",
            "leaseSeconds": 60,
            "spot": False,
            "maxPendingSeconds": 60,
            "labels": {"job": "j1"},
            "without": [],
            "quotas": {"gpu": 1},
        },
    ),
    "reservations.list": ("/v1/reservations", {}),
    "reservations.get": ("/v1/reservations/{bound}", {}),
    "reservations.states": ("/v1/reservations/{bound}/states", {}),
    "reservations.cancel": ("/v1/reservations/{placed}/cancel", {}),
    "reservations.release": ("/v1/reservations/{bound}/release", {}),
    "reservations.renew": ("/v1/reservations/{leased}/renew", {}),
    "reservations.confirm": ("/v1/reservations/{awaiting}/confirm", {}),
    "reservations.extend": ("/v1/reservations/{leased}/extend", {"endsAt": LATER + 3_600_000}),
    "extensions.list": ("/v1/extensions", {}),
    "extensions.get": ("/v1/extensions/{extension}", {}),
    "allocations.list": ("/v1/allocations", {}),
    "bookings.list": ("/v1/bookings", {}),
    "usage.list": ("/v1/usage", {}),
    "usage.timeline": ("/v1/usage/timeline", {}),
    "leases.list": ("/v1/leases", {}),
    "leases.proceed": ("/v1/leases/singleton:elsewhere/proceed", {}),
    "events.stream": ("/v1/events/stream", {}),
    "iam.catalog": ("/v1/iam/catalog", {}),
    "iam.resolve": ("/v1/iam/resolve", {"tenantId": "acme", "type": "compute-pool", "id": "{pool}"}),
    "audit.stream": ("/v1/audit/streams/{pool}", {}),
    "audit.export": ("/v1/audit/export", {}),
    "audit.verify": ("/v1/audit/verify", {}),
    "audit.checkpoint": ("/v1/audit/checkpoint", {}),
    "audit.state": ("/v1/audit/streams/{pool}/state", {}),
    "audit.events": ("/v1/audit/events", {}),
}
"""Path and body by operation. Names in braces are of `things`, `?` is a name that nothing has yet."""


def _moved(plane: Plane, node_id: str, *states: Provision) -> str:
    """The node once it went through these states; a flow through real workflows is told elsewhere."""
    loaded = plane.store.load(node_id)
    events = tuple(node.Moved(state, "told", plane.store.now()) for state in states)
    plane.store.append(Append((Change(node_id, loaded.version, events),), Meta("controller:test")))
    return node_id


def awaiting(plane: Plane, like: str, starts_at: int | None = None) -> str:
    """A reservation that awaits its person, and asks for the same as one that there is."""
    draft = replace(plane.store.load(like).state.draft, at=plane.store.now(), starts_at=starts_at)
    reservation_id = ids.derive("rsv", draft.tenant_id, draft.identity_id, fresh())
    awaited = reservation.ConfirmationAwaited("OverBudget", "for a test", draft.at, draft.at + 1_800_000, "adm_1")
    meta = Meta(f"identity:{draft.tenant_id}/{draft.identity_id}")
    plane.store.append(Append((Change(reservation_id, 0, (draft, awaited)),), meta))
    return reservation_id


def drafted(plane: Plane, like: str) -> str:
    """A draft that is stored and not decided on yet, for the same as a reservation that there is."""
    draft = replace(plane.store.load(like).state.draft, at=plane.store.now(), committed=True)
    reservation_id = ids.derive("rsv", draft.tenant_id, draft.identity_id, fresh())
    meta = Meta(f"identity:{draft.tenant_id}/{draft.identity_id}")
    plane.store.append(Append((Change(reservation_id, 0, (draft,)),), meta))
    return reservation_id


class Party(NamedTuple):
    """Who things belong to: an identity, and how it calls."""

    client: Client
    tenant: str
    identity: str


def extended(plane: Plane, reservation_id: str, by: Party) -> str:
    """An extension of somebody's reservation."""
    key, ends_at = fresh(), plane.store.load(reservation_id).state.ends_at + 1
    by.client.ok("POST", f"/v1/reservations/{reservation_id}/extend", {"endsAt": ends_at}, Idempotency_Key=key)
    return ids.derive("ext", by.tenant, by.identity, key)


def things(plane: Plane) -> dict[str, str]:
    """A fleet of the platform's, offered to acme, and what acme's administrator has on it."""
    owned = belongings(plane, Party(plane.root, "platform", "root"), "acme")
    acme = Party(plane.acme, "acme", "acme")
    rented = claims(plane, acme, owned["pool"]) | launched(plane, acme, owned["hosts"])
    return owned | rented | projects(plane, acme) | {"tenant": "acme"}


def belongings(plane: Plane, owner: Party, customer: str) -> dict[str, str]:
    """A fleet of the owner's with pools offered to a customer; what else an operation of the owner may name."""
    by = owner.client
    platform = owner.tenant == "platform"
    trust = {"trust": "platform" if platform else "tenant-owned"}
    kind = "shared" if platform else "custom"
    site_id = plane.site(by=by, kind=kind)
    pools = {name: plane.pool(site_id, name, by) for name in ("pool", "spare-pool", "other-pool")}
    offers = {name: plane.offer(pool_id, customer, 100, by)["id"] for name, pool_id in pools.items()}
    node_id = plane.node(site_id, pools["pool"], by=by, **trust)
    hosts = hosting(plane, site_id, by)
    plane.node(site_id, hosts, "host", by=by, **trust)
    plane.offer(hosts, customer, by=by, quota=HOSTING)

    def join(name: str, found: dict[str, Any]) -> str:
        return plane.join(site_id, name, found, by, **trust)

    n = 1000 * (next(_numbers) + 1)
    spare_node = join("spare", inventory(index=n))
    command = {"name": "collect-diagnostics", "notBefore": LATER}
    stepped = clock.Stepped("singleton:elsewhere", 9_000, 1)
    clocks = plane.store.load(clock.stream(stepped.lease)).version
    plane.store.append(Append((Change(clock.stream(stepped.lease), clocks, (stepped,)),), Meta("controller:elsewhere")))
    return {
        "tenant": owner.tenant,
        "customer": customer,
        "kind": kind,
        "site": site_id,
        **{name.replace("-", "_"): pool_id for name, pool_id in pools.items()},
        "offering": offers["pool"],
        "hosts": hosts,
        "node": node_id,
        "spare_node": spare_node,
        "command": by.ok("POST", f"/v1/nodes/{spare_node}/commands", command)["id"],
        "last_node": join("last", inventory(index=n + 1)),
        "twin": join("twin", inventory(index=n + 2) | {"nics": inventory(index=n)["nics"]}),
        **_provisioned(plane, join, n + 3),
        **_launchable(plane, by),
        "token": by.ok("POST", "/v1/join-tokens", {"siteId": site_id, **trust})["id"],
    }


def _launchable(plane: Plane, by: Client) -> dict[str, str]:
    """What instances are made of, and what its signer says of the image; nobody else sees the images."""
    image = plane.registered(by, visibility="private")
    plane.allow()
    return {
        "flavor": plane.flavor(by=by),
        "spare_flavor": plane.flavor(by=by),
        "image": image,
        "bootable": plane.image(by, visibility="private"),
        "spare_image": plane.registered(by, visibility="private"),
        "empty_image": plane.registered(by, visibility="private"),
        "signature": plane.signature(image, by),
        "public_key": plane.public_key,
    }


def claims(plane: Plane, by: Party, pool_id: str) -> dict[str, str]:
    """What somebody has in a pool."""
    client = by.client
    leased = client.reserve(pool_id, leaseSeconds=86_400, durationSeconds=7_200).json()["id"]
    plane.activate(client, leased)
    bound = client.reserve(pool_id).json()["id"]
    plane.until(client, bound, "binding")
    return {
        "leased": leased,
        "bound": bound,
        "awaiting": awaiting(plane, leased),
        "extension": extended(plane, leased, by),
        "evicted": client.reserve(pool_id, startsAt=plane.store.now() + 10**7).json()["id"],
        "placed": client.reserve(pool_id, startsAt=plane.store.now() + 10**7).json()["id"],
    }


HOSTING = {"gpu": 100, "vcpu": 1000, "memoryMiB": 1_000_000}


def hosting(plane: Plane, site_id: str, by: Client, name: str = "hosts") -> str:
    """A pool for instances."""
    return plane.pool(site_id, name, by, **{"class": "vps-host"})


def launched(plane: Plane, by: Party, pool_id: str) -> dict[str, str]:
    """What somebody runs in a pool for instances."""
    made = [plane.instance(pool_id, by.client)["id"] for _ in range(3)]
    by.client.ok("POST", f"/v1/instances/{made[2]}/stop", {})
    deadline = time.monotonic() + DEADLINE_S
    while not all(plane.store.load(id_).state.node_id for id_ in made):
        assert time.monotonic() < deadline
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    version = plane.store.load(made[0]).version
    runs = instance.Reported("running", plane.store.now())
    plane.store.append(Append((Change(made[0], version, (runs,)),), Meta("controller:test")))
    return {"instance": made[0], "spare_instance": made[1], "idle_instance": made[2]}


def projects(plane: Plane, by: Party) -> dict[str, str]:
    return {"project": plane.project(fresh(), by.client), "spare_project": plane.project(fresh(), by.client)}


def _provisioned(plane: Plane, join: Callable[[str, dict[str, Any]], str], index: int) -> dict[str, str]:
    ways: dict[str, tuple[Provision, ...]] = {
        "failed_node": ("failed",),
        "inspected_node": ("failed", "inspecting"),
        "ready_node": ("failed", "inspecting", "commissioning", "ready"),
        "deployed_node": ("failed", "inspecting", "commissioning", "ready", "deploying", "deployed"),
    }
    return {
        name: _moved(plane, join(name.replace("_", "-"), inventory(index=index + n)), *way)
        for n, (name, way) in enumerate(ways.items())
    }


def fresh() -> str:
    """A name that nothing has yet."""
    return f"n{next(_numbers)}"


def fill(value: Any, known: dict[str, str]) -> Any:
    match value:
        case str():
            return fresh() if value == "?" else value.format_map(known) if "{" in value else value
        case dict():
            return {name: fill(member, known) for name, member in value.items()}
        case list():
            return [fill(member, known) for member in value]
        case _:
            return value
