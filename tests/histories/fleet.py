"""The fleet of every history: one pool, three nodes of three GPUs, three tenants of whom one is another's child.

In a pool for instances there are flavors and a public image as well.
"""

from typing import Final, Literal, NamedTuple

from domain import device, flavor, image, image_signers, node, offering, project, schedulability, site, tenant
from domain import pool as pools
from domain.access import Session
from domain.event import Append, Change, Event, Meta
from histories.process import ROOT, Ids, Process

GPUS: Final = 3
NODES: Final = 3
VCPU: Final = 8
MEMORY_MIB: Final = 65_536
SIZES: Final = (
    flavor.Size(2, 1, 10),
    flavor.Size(5, 1, 10),
    flavor.Size(2, 1, 10, flavor.Gpus("gpu", 1)),
    flavor.Size(1, 1, 10, flavor.Gpus("gpu", 3)),
)
TENANTS: Final = ("acme", "lab", "globex")
PARENTS: Final = {ROOT: None, "acme": ROOT, "lab": "acme", "globex": ROOT}
RACKS: Final = ("a", "a", "b")
META: Final = Meta("identity:root/test")


def session(tenant_id: str) -> Session:
    return Session(tenant_id, "who", "user", "sess_1", "user", root_tenant=tenant_id == ROOT)


class Terms(NamedTuple):
    """What is different from pool to pool."""

    cleaning_s: int = 0
    budget_check: Literal["off", "confirm", "enforce"] = "off"
    class_: Literal["metal-host", "vps-host"] = "metal-host"


class Fleet:
    """Nodes `nodes` in the pool `pool_id`; what they sell is what `_devices` makes."""

    def __init__(self, process: Process, new_id: Ids, terms: Terms) -> None:
        self.pool_id = new_id("pool")
        self.nodes = [new_id("node") for _ in range(NODES)]
        self._site_id = new_id("site")
        store, now = process.store, process.store.now()
        policy = pools.Policy(
            cleaning_seconds=terms.cleaning_s, disruption_budget=0.5, admission=pools.Admission(terms.budget_check)
        )
        made = pools.Created(
            "h100", self._site_id, ROOT, "eu-north", terms.class_, "H100", 80, "exclusive", "bcd", policy, now
        )
        places = [
            Change(self._site_id, 0, (site.Created("north", "shared", ROOT, "eu-north", now),)),
            Change(self.pool_id, 0, (made,)),
        ]
        tree = [
            Change(tenant.stream(id), 0, (tenant.Recorded(id, "active", parent),)) for id, parent in PARENTS.items()
        ]
        store.append(Append((*tree, *places), META))
        offers = [
            Change(new_id("poff"), 0, (offering.Offered(self.pool_id, ROOT, id, quota, priority, True, now),))
            for id, quota, priority in (("acme", offered(12, 24), 0), ("globex", offered(8, 16), 5))
        ]
        self.project_id = new_id("prj")
        offers.append(Change(self.project_id, 0, (project.Created("one", "acme", {}, now),)))
        self.flavors = [new_id("flv") for _ in SIZES]
        self.image_id = new_id("img")
        if terms.class_ == "vps-host":
            offers += self._launchable(now)
        joined = [Change(id, 0, tuple(self._joined(number, id, now))) for number, id in enumerate(self.nodes)]
        store.append(Append((*joined, *offers), META))

    def _launchable(self, now: int) -> list[Change]:
        named = zip(self.flavors, SIZES, strict=True)
        sizes = [Change(id, 0, (flavor.Created(f"f{n}", ROOT, size, True, now),)) for n, (id, size) in enumerate(named)]
        signer = image_signers.Signer("who", "ed25519", "ab" * 32, "a key", "who", now)
        registered = image.Registered("tiny", "1", ROOT, "raw", "os", "public", "cd" * 32, 512, now)
        vouched = image.Verified("ed25519", signer.key_id, "who", "a signature", 1, now)
        return [
            *sizes,
            Change(image_signers.STREAM, 0, (image_signers.Changed(ROOT, (signer,), (), "who", now),)),
            Change(self.image_id, 0, (registered, image.Stored(512, now), vouched)),
        ]

    def _joined(self, number: int, node_id: str, now: int) -> list[Event]:
        name = f"n{number}"
        labels = {"rack": RACKS[number]}
        events: list[node.Events] = [
            node.Joined(name, self._site_id, ROOT, "eu-north", "host", "platform", f"key {name}", "jt_1", labels, now),
            node.Moved("adopted", "Adopted", now),
            node.Assigned("host", self.pool_id, ROOT),
            node.DevicesChanged(self.pool_id, 1, _devices(node_id), {"vcpu": VCPU, "memoryMiB": MEMORY_MIB}),
            node.SpecChanged(1),
            node.SpecReported(1, {}),
            node.ConnectivityChanged("connected", 1, now),
        ]
        return list(schedulability.settle(node.State(), events, now))


def offered(gpu: int, vcpu: int) -> dict[str, int]:
    return {"gpu": gpu, "vcpu": vcpu, "memoryMiB": 1024 * vcpu}


def _devices(node_id: str) -> tuple[device.Device, ...]:
    """The last GPU is alone on its NUMA node, and the only one that is not `fast`."""
    return tuple(
        device.Device(
            f"{node_id}/g{n}",
            "gpu",
            True,
            {"fast": n < GPUS - 1},
            gpu_model="H100",
            memory_gb=80,
            numa_node=n // 2,
            cdi=f"nvidia.com/gpu={n}",
        )
        for n in range(GPUS)
    )
