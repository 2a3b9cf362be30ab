"""Facts put straight into the log, for tests of what lies below the commands."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from adapters.ids import Mint
from adapters.postgres import pipeline, rebuild
from adapters.postgres.pool import Pool, pool
from adapters.postgres.store import EventStore
from domain import claim, node, offering, reservation, site
from domain import pool as pools
from domain.device import Device
from domain.event import Append, Change, Event, Fence, Meta
from projections import table
from projections.projection import Write

TENANT = "acme"
META = Meta("identity:acme/alice")
T0 = 4_000_000_000_000  # a far instant, so that guards about the present do not interfere
_mint = Mint()
_numbers = itertools.count()
R = TypeVar("R")


class Facts:
    """A store, and appends that say what happened and nothing else."""

    def __init__(self, connections: Pool, store: EventStore | None = None) -> None:
        self.connections = connections
        self.store = store or EventStore(connections, table.INLINE, "root", _mint)

    def append(self, stream: str, *events: Event, fence: Fence | None = None, expected: int | None = None) -> int:
        version = self.store.load(stream).version if expected is None else expected
        return self.store.append(Append((Change(stream, version, events),), META, fence))

    def site(self) -> str:
        site_id = _mint("site")
        self.append(site_id, site.Created(f"site{next(_numbers)}", "shared", "root", "eu-north", 1))
        return site_id

    def pool(self, cleaning_seconds: int = 0) -> str:
        pool_id = _mint("pool")
        policy = pools.Policy(cleaning_seconds=cleaning_seconds)
        name = f"pool{next(_numbers)}"
        created = pools.Created(
            name, "site_1", "root", "eu-north", "metal-host", "H100", 80, "exclusive", "bcd", policy, 1
        )
        self.append(pool_id, created)
        return pool_id

    def node(self, pool_id: str, gpus: int = 8) -> tuple[str, list[str]]:
        """An accepting node; its id and its atoms."""
        node_id = _mint("node")
        name = f"n{next(_numbers)}"
        atoms = [f"{node_id}/g{n}" for n in range(gpus)]
        joined = node.Joined(name, "site_1", "root", "eu-north", "host", "platform", f"key of {name}", "jt_1", {}, 1)
        devices = tuple(Device(atom, "gpu", True, gpu_model="H100", memory_gb=80) for atom in atoms)
        self.append(
            node_id,
            joined,
            node.Assigned("host", pool_id, "root"),
            node.DevicesChanged(pool_id, 1, devices, {"vcpu": 64}),
            node.SchedulabilityChanged({}),
        )
        return node_id, atoms

    def offer(self, pool_id: str, gpu: int, tenant: str = TENANT) -> str:
        offer_id = _mint("poff")
        self.append(offer_id, offering.Offered(pool_id, "root", tenant, {"gpu": gpu}, 0, False, 1))
        return offer_id

    def drafted(self, pool_id: str, gpus: int = 1, tenant: str = TENANT, nodes: int = 1) -> reservation.Drafted:
        asked = claim.Claim((claim.DeviceLine("gpu", gpus),), nodes)
        return reservation.Drafted(
            tenant, "alice", pool_id, "p", asked, 3600, "hold", False, 86_400, gpus, "H100", "eu-north", "b", T0
        )

    def claimed(self, scope: str | None, gpus: int, start: int, end: int) -> reservation.Claimed:
        return reservation.Claimed((scope,) if scope else (), {"gpu": gpus}, start, end)

    def placed(
        self, pool_id: str, node_id: str, atoms: Sequence[str], start: int, end: int, **fields: Any
    ) -> reservation.Placed:
        allocation = reservation.Allocation(
            _mint("alloc"), node_id, "n", (), tuple(atoms), (), fields.pop("scalars", {}), fields.pop("layout", 1)
        )
        known: dict[str, Any] = {
            "claimed": self.claimed(fields.pop("scope", None), len(atoms), start, end),
            "priority": 0,
            "spot": False,
            "since": T0,
            "queued": False,
        }
        return reservation.Placed(pool_id, TENANT, start, end, (allocation,), **known | fields)

    def place(self, placed: reservation.Placed, id: str | None = None) -> str:
        """Record a reservation as placed in one append, as `reservations.create` does; return its id."""
        reservation_id = id or _mint("rsv")
        gpus, nodes = len(placed.allocations[0].atoms), len(placed.allocations)
        admitted = reservation.Admitted("adm_1", placed.claimed, placed.priority)
        draft = self.drafted(placed.pool_id, gpus, nodes=nodes)
        self.append(reservation_id, draft, admitted, placed, expected=0)
        return reservation_id

    def queue(self, pool_id: str, scope: str | None, gpus: int, start: int, end: int) -> str:
        reservation_id = _mint("rsv")
        admitted = reservation.Admitted("adm_1", self.claimed(scope, gpus, start, end), 0)
        queued = reservation.Queued(pool_id, 0, False, T0, "NoCapacity", end)
        self.append(reservation_id, self.drafted(pool_id, gpus), admitted, queued, expected=0)
        return reservation_id

    def bind(self, reservation_id: str, at: int = T0) -> None:
        self.append(reservation_id, reservation.BindingStarted({}, at, at + 300_000))

    def release(self, reservation_id: str, at: int) -> None:
        self.append(reservation_id, reservation.ReleaseStarted("Released", at, {}))

    def tear_down(self, reservation_id: str, at: int) -> None:
        state = self.store.load(reservation_id).state
        held = [a for a in (*state.allocations, *state.lost) if not a.torn_down]
        events: list[Event] = [reservation.TornDown(a.id, a.node_id, at) for a in held]
        self.append(reservation_id, *events, reservation.Released("Released", at))

    def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        with self.connections.connection() as connection:
            return connection.execute(sql, params).fetchall()  # type: ignore[arg-type]

    def bookings(self, device_id: str) -> list[tuple[int, int | None]]:
        sql = "SELECT lower(during), upper(during) FROM device_bookings WHERE device_id = %s ORDER BY 1"
        return self.rows(sql, device_id)  # type: ignore[return-value]


@contextmanager
def facts(dsn: str, size: int = 8) -> Iterator[Facts]:
    with pool(dsn, size) as connections:
        yield Facts(connections)


def new_id(prefix: str) -> str:
    return _mint(prefix)


def at_once(jobs: Sequence[Callable[[], R]]) -> list[R | Exception]:
    """Run all jobs in threads of their own; what one raises stands in its place."""

    def run(job: Callable[[], R]) -> R | Exception:
        try:
            return job()
        except Exception as fault:
            return fault

    with ThreadPoolExecutor(len(jobs)) as threads:
        return list(threads.map(run, jobs))


def differences(dsn: str) -> list[str]:
    """What `audit diff` finds, shortened to tables with examples."""
    return [f"{d.table}: {d.examples}" for d in rebuild.compare(dsn, table.ALL).differences]


def write(connection: psycopg.Connection[Any], writes: Iterable[Write]) -> None:
    """Do what a projection says, as the runner does."""
    pipeline.run(connection, list(writes))
