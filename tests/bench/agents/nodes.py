"""Nodes that wait for their agents: in the log, in pools, with keys that anybody here can make again.

Site, pools and offers come through the API. The nodes are written to the log as `join`, `assign` and `adopt` would,
many to an append: how fast HTTP joins go is measured by itself (joins.py). No session of theirs was ever opened.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adapters.agent import machines, protocol
from adapters.ids import Mint
from adapters.postgres.store import EventStore
from commands import hardware
from domain import inventory, node, node_fold, pool, schedulability
from domain.event import Append, Change, Meta
from tests.bench import fleet
from tests.bench.plane import Plane

SEED: Final = "bench agents"
TENANT: Final = "tenant-0"
_AN_APPEND: Final = 20


class Pool(msgspec.Struct, frozen=True):
    """`nodes` are ids in the order of their numbers."""

    id: str
    nodes: list[str]


def key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(f"{SEED}\n{number}".encode()).digest())


def found(number: int) -> dict[str, Any]:
    """The NodeInventory/v1 document of a node."""
    return machines.inventory_for("H100", 8, number, seed=SEED)


def build(plane: Plane, store: EventStore, root: str, nodes: int, of_pool: int, **fields: str) -> list[Pool]:
    """A site and as many pools as it takes, with these fields; numbers run through all of them."""
    mint = Mint()
    place = {"name": "bench", "kind": "shared", "iamRegion": "eu-north"}
    site_id = plane.ok("POST", "/v1/sites", root, place)["id"]
    made = []
    for first in range(0, nodes, of_pool):
        pool_id = _pool(plane, root, site_id, f"h100-{first // of_pool}", **fields)
        of: pool.State = store.load(pool_id).state
        changes = [_node(mint, n, site_id, pool_id, of, store.now()) for n in range(first, min(nodes, first + of_pool))]
        for at in range(0, len(changes), _AN_APPEND):
            store.append(Append(tuple(changes[at : at + _AN_APPEND]), Meta("controller:bench")))
        made.append(Pool(pool_id, [change.stream for change in changes]))
    return made


def _pool(plane: Plane, root: str, site_id: str, name: str, **fields: str) -> str:
    asked = {"name": name, "siteId": site_id, "class": "metal-host", "gpuModel": "H100", "gpuMemoryGb": 80} | fields
    pool_id = str(plane.ok("POST", "/v1/pools", root, asked)["id"])
    quota = {"gpu": fleet.QUOTA, "vcpu": fleet.QUOTA, "memoryMiB": fleet.QUOTA * 1000}
    plane.ok("PUT", f"/v1/pools/{pool_id}/offers/{TENANT}", root, {"quota": quota})
    return pool_id


def _node(mint: Mint, number: int, site_id: str, pool_id: str, of: pool.State, now: int) -> Change:
    node_id = mint("node")
    joined = node.Joined(
        name=f"n{number:05}",
        site_id=site_id,
        owner_tenant_id=of.owner_tenant_id,
        region=of.region,
        role="unassigned",
        trust="platform",
        public_key=protocol.public_key(key(number)),
        join_token_id=mint("jt"),
        labels={"rack": f"r{number // 16}"},
        at=now,
    )
    events: list[node.Events] = [joined]
    seen = hardware.snapshot(msgspec.convert(found(number), inventory.NodeInventory), (), (), now)
    events += hardware.observe(_fold(events), seen, None, (), now)
    events += hardware.assign(node_id, _fold(events), pool_id, of, "host", now)
    events.append(node.move(_fold(events), "adopted", "Adopted", now))
    return Change(node_id, 0, tuple(schedulability.settle(node.State(), events, now)))


def _fold(events: Sequence[node.Events]) -> node.State:
    state = node.State()
    for event in events:
        state = node_fold.evolve(state, event)
    return state


def reshape(store: EventStore, nodes: Sequence[str]) -> None:
    """A new generation of each node's NodeSpec, all in one append, as the assignment to a pool writes it."""
    changes = []
    for node_id in nodes:
        loaded = store.load(node_id)
        state: node.State = loaded.state
        shaped = node.SpecShaped(state.generation + 1, state.sharing)
        changes.append(Change(node_id, loaded.version, (shaped,)))
    store.append(Append(tuple(changes), Meta("controller:bench")))
