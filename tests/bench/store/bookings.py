"""A full append: a reservation of a whole node of eight GPUs, decided, claimed, placed (architecture.md §2).

Reservation `n` takes node `n % NODES` in the hour `n // NODES`, so that none refuses another; of eight threads that
deal the numbers out in turn, each has nodes and a quota of its own.
"""

from typing import Any, Final

import psycopg
from msgspec import Struct

from adapters.ids import Mint
from adapters.postgres.store import EventStore
from domain import admission, asking, claim, node, offering, pool, reservation
from domain.device import Device
from domain.event import Append, Change, Meta

NODES: Final = 800
SCOPES: Final = 8
HOUR_MS: Final = 3_600_000
T0: Final = 4_000_000_000_000
POOL: Final = f"pool_{0:026d}"
TENANT: Final = "acme"
META: Final = Meta("identity:acme/alice", correlation="req_01k00000000000000000000000")


class Names(Struct, frozen=True):
    """What differs between one reservation and the next; `tag` is 26 characters of every id of its own."""

    tag: str
    node: str
    scope: str
    start: int
    end: int


def names(number: int, node: int | None = None, scope: int | None = None) -> Names:
    """With `node` and `scope` everybody meets there: the rivals' case."""
    hour = number // NODES if node is None else number
    start = T0 + hour * HOUR_MS
    place = number % NODES if node is None else node
    quota = number % SCOPES if scope is None else scope
    return Names(f"{number:026d}", f"{place:026d}", f"{quota:026d}", start, start + HOUR_MS)


def atoms(node: str) -> tuple[str, ...]:
    return tuple(f"node_{node}/gpu/{n}" for n in range(8))


def append(of: Names) -> Append:
    """What `reservations.create` appends when its claim is placed at once."""
    rsv, adm, node_id, scope = f"rsv_{of.tag}", f"adm_{of.tag}", f"node_{of.node}", f"poff_{of.scope}"
    asked = claim.Claim((claim.DeviceLine("gpu", 8),))
    draft = reservation.Drafted(
        TENANT, "alice", POOL, "p", asked, 3600, "hold", False, 86_400, 8, "H100", "eu-north", "b" * 64, T0
    )
    caller = admission.Caller(TENANT, "alice", "user", "sess_1", "direct")
    decided = admission.Decided(
        "compute-reservation:create", f"compute-reservation/{rsv}", True, "Allowed", asking.attributes(draft)
    )
    replay = admission.Replay(of.tag + "k" * 38, "b" * 64, rsv, 3, 201)
    recorded = admission.Admitted(caller, META.correlation or "", (decided,), "d" * 64, replay)
    claimed = reservation.Claimed((scope,), {"gpu": 8}, of.start, of.end)
    allocation = reservation.Allocation(
        f"alloc_{of.tag}",
        node_id,
        "n",
        ("10.0.0.1",),
        atoms(of.node),
        tuple(f"nvidia.com/gpu={n}" for n in range(8)),
        {},
        1,
    )
    placed = reservation.Placed(
        POOL, TENANT, of.start, of.end, (allocation,), claimed, priority=0, spot=False, since=T0, queued=False
    )
    admitted = reservation.Admitted(adm, claimed, 0)
    meta = Meta(META.actor, adm, correlation=META.correlation)
    return Append((Change(adm, 0, (recorded,)), Change(rsv, 0, (draft, admitted, placed))), meta)


def build(store: EventStore, mint: Mint) -> None:
    """The pool, its offers and its nodes, as facts."""
    created = pool.Created(
        "bench", "site_1", "platform", "eu-north", "metal-host", "H100", 80, "exclusive", "bcd", pool.Policy(), 1
    )
    changes = [Change(POOL, 0, (created,))]
    for scope in range(SCOPES):
        offered = offering.Offered(POOL, "platform", f"tenant-{scope}", {"gpu": 10**9}, 0, False, 1)
        changes.append(Change(f"poff_{scope:026d}", 0, (offered,)))
    changes += [_node(number, mint) for number in range(NODES)]
    for change in changes:
        store.append(Append((change,), Meta("controller:bench")))


def _node(number: int, mint: Mint) -> Change:
    name = f"{number:026d}"
    joined = node.Joined(
        f"n{number}", "site_1", "platform", "eu-north", "host", "platform", f"key {number}", mint("jt"), {}, 1
    )
    devices = tuple(Device(atom, "gpu", True, gpu_model="H100", memory_gb=80) for atom in atoms(name))
    events: tuple[Any, ...] = (
        joined,
        node.Assigned("host", POOL, "platform"),
        node.DevicesChanged(POOL, 1, devices, {"vcpu": 64}),
        node.SchedulabilityChanged({}),
    )
    return Change(f"node_{name}", 0, events)


def clear(connection: psycopg.Connection[Any]) -> None:
    """Back to an empty calendar, so that no cell meets what another left."""
    connection.execute("TRUNCATE stored_events, device_bookings, quota_claims, replays")
    connection.execute("DELETE FROM catalog WHERE type = 'compute-reservation'")
