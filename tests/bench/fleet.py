"""A pool of 1,000 nodes of 8 H100, offered to the tenants of the clients.

Site, pool and offers come through the API. The nodes are written to the log as the commands `join`, `assign`,
`adopt` and an agent's session would, many to an append: through the API they would take minutes. They are written
beside the running plane, as another gateway process would, so that no lease of this one waits for their agents.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from adapters.agent import machines
from adapters.iam import tokens
from adapters.ids import Mint
from adapters.postgres.pool import pool as connections
from adapters.postgres.store import EventStore
from commands import hardware
from domain import inventory, node, node_fold, pool, schedulability
from domain.event import Append, Change, Meta
from projections import table
from tests.bench.plane import Plane

ROOT: Final = "platform"
SOLO: Final = "solo"
IDENTITIES: Final = 12
"""Of each client: one identity may send 60 mutations a second, a client takes them in turn."""
NODES_AN_APPEND: Final = 20
QUOTA: Final = 1_000_000


class Cast(msgspec.Struct, frozen=True):
    """`crowd` has the tokens of each client, each in a tenant of its own; `solo` those of one tenant's clients."""

    root: str
    crowd: list[list[str]]
    solo: list[list[str]]


def write_access(path: Path, clients: int) -> Cast:
    """An access file with enough identities that the rate limit of one is never met."""
    root = tokens.mint()
    lines = [f"[tenants.{ROOT}]", *_identity("root", ROOT, "platform-admin", root)]
    for tenant in (*(f"tenant-{n}" for n in range(clients)), SOLO):
        lines += [f"[tenants.{tenant}]", f'parent = "{ROOT}"']
    cast = Cast(root, [], [])
    for kept, of in ((cast.crowd, "tenant-{}"), (cast.solo, SOLO)):
        for client in range(clients):
            minted = [tokens.mint() for _ in range(IDENTITIES)]
            kept.append(minted)
            tenant = of.format(client)
            for n, token in enumerate(minted):
                lines += _identity(f"{tenant}-{client}-{n}", tenant, "tenant-admin", token)
    path.write_text("\n".join(lines) + "\n")
    return cast


def _identity(name: str, tenant: str, role: str, token: str) -> list[str]:
    digest = tokens.digest(token)
    return [
        f"[identities.{name}]",
        f'tenant = "{tenant}"',
        'kind = "user"',
        f'roles = ["{role}"]',
        f'token_sha256 = ["{digest}"]',
    ]


def build(plane: Plane, dsn: str, cast: Cast, nodes: int, name: str = "bench", first: int = 0) -> str:
    """Make a site and a pool of that name with nodes numbered from `first` on, and return the pool's id."""
    place = {"name": name, "kind": "shared", "iamRegion": "eu-north"}
    site_id = plane.ok("POST", "/v1/sites", cast.root, place)["id"]
    asked = {"name": name, "siteId": site_id, "class": "metal-host", "gpuModel": "H100", "gpuMemoryGb": 80}
    pool_id: str = plane.ok("POST", "/v1/pools", cast.root, asked)["id"]
    for tenant in (*(f"tenant-{n}" for n in range(len(cast.crowd))), SOLO):
        plane.ok("PUT", f"/v1/pools/{pool_id}/offers/{tenant}", cast.root, {"quota": {"gpu": QUOTA}})
    mint = Mint()
    with connections(dsn, 1, application_name="bench") as opened:
        store = EventStore(opened, table.INLINE, ROOT, mint)
        of: pool.State = store.load(pool_id).state
        for begin in range(first, first + nodes, NODES_AN_APPEND):
            numbers = range(begin, min(first + nodes, begin + NODES_AN_APPEND))
            changes = [_node(mint, n, site_id, pool_id, of, store.now()) for n in numbers]
            store.append(Append(tuple(changes), Meta("controller:bench")))
    return pool_id


def _node(mint: Mint, number: int, site_id: str, pool_id: str, of: pool.State, now: int) -> Change:
    """All that happens to a machine until it can be booked, in one change."""
    node_id = mint("node")
    found = msgspec.convert(machines.inventory_for("H100", 8, number, seed="bench"), inventory.NodeInventory)
    joined = node.Joined(
        name=f"n{number:04}",
        site_id=site_id,
        owner_tenant_id=of.owner_tenant_id,
        region=of.region,
        role="unassigned",
        trust="platform",
        public_key=base64.b64encode(number.to_bytes(32)).decode(),
        join_token_id=mint("jt"),
        labels={"rack": f"r{number // 16}"},
        at=now,
    )
    events: list[node.Events] = [joined]
    seen = hardware.snapshot(found, (), (), now)
    events += hardware.observe(_fold(events), seen, None, (), now)
    events += hardware.assign(node_id, _fold(events), pool_id, of, "host", now)
    events = schedulability.settle(node.State(), events, now)
    state = _fold(events)
    rising: list[node.Events] = [
        node.move(state, "adopted", "Adopted", now),
        node.ConnectivityChanged("connected", 1, now),
        node.SpecObserved(state.generation),
    ]
    return Change(node_id, 0, (*events, *schedulability.settle(state, rising, now)))


def _fold(events: Sequence[node.Events]) -> node.State:
    state = node.State()
    for event in events:
        state = node_fold.evolve(state, event)
    return state
