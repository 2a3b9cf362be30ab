"""What evidence costs: taking a log in, and verifying it against the database (docs/audit.md)."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg

from adapters import audit_key
from adapters.evidence import LEASE, Writer
from adapters.postgres import embedded, evidence, migrate
from adapters.postgres.mapper import EventMapper
from adapters.postgres.pool import pool
from domain import admission, node, reservation
from domain import pool as pools
from domain.event import Event, Fence, Meta, Part, Recorded
from tests.bench import figures

EVENTS: Final = 1_000_000
TENANTS: Final = 50
COPY: Final = "COPY stored_events (originator_id, originator_version, topic, state) FROM STDIN"
CLI: Final = "from adapters.cli.main import main; main()"


def report(place: Path, events: int = EVENTS) -> str:
    """Fill a log, take it in as its writer would without rest, and verify it with the command that people run."""
    with embedded.running(place / "data") as dsn:
        migrate.migrate(dsn)
        began = time.monotonic()
        end = fill(dsn, events)
        filled = time.monotonic() - began
        wall, cpu = take_in(dsn, place / "audit.key", end)
        verified, peak, said = verify(dsn, place)
        size = _bytes(dsn)
    rows = [
        (f"log of {events:,} events of {TENANTS} tenants, written in", f"{filled:.0f} s"),
        ("taken in without rest", f"{events / wall:,.0f} events/s, {cpu / events * 1e6:.0f} µs of processor each"),
        ("chains, tiles and checkpoints take", f"{size / events:.0f} bytes an event"),
        ("audit verify", f"{events / verified:,.0f} events/s, {peak / 1024:.0f} MiB at most"),
        ("", said),
    ]
    return figures.table("Evidence", rows)


def fill(dsn: str, events: int) -> int:
    """Put so many events into the log, without read models; its last position."""
    mapper = EventMapper()
    with psycopg.connect(dsn, autocommit=True) as connection:
        with connection.cursor().copy(COPY) as copy:
            copy.set_types(["text", "int8", "text", "bytea"])
            for recorded in _events(events):
                row = mapper.to_stored_event(recorded)
                copy.write_row((row.originator_id, row.originator_version, row.topic, row.state))
        connection.execute("ANALYZE stored_events")
        return _number(connection, "SELECT max(notification_id) FROM stored_events")


def take_in(dsn: str, key: Path, end: int) -> tuple[float, float]:
    """Seconds on the wall, and of this process's processor time."""
    with pool(dsn, 2, by_key=True) as connections, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO coordination_leases VALUES (%s, 'bench', 1, 0)", (LEASE,))
        signer = audit_key.Signer(audit_key.read_or_make(key), evidence.incarnation(connection))
        began, used = time.monotonic(), time.process_time()
        writer = Writer(connections, Fence(LEASE, 1))
        while writer.step(end):
            pass
        took = time.monotonic() - began, time.process_time() - used
        size = writer.progress.size
        evidence.keep(connection, size, signer.note(size, evidence.tree(connection).root(size)))
    return took


def verify(dsn: str, home: Path) -> tuple[float, int, str]:
    """Seconds, the most KiB that the process held, and its first line."""
    command = [sys.executable, "-c", CLI, "audit", "verify", "--database-url", dsn, "--data-dir", str(home)]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return time.monotonic() - began, usage.ru_maxrss, said.splitlines()[0]


def _events(number: int) -> Iterator[Recorded]:
    """What a fleet writes: a third are people's acts with their admissions, the rest is of agents and controllers."""
    for n in range(1, number + 1):
        tenant = f"tenant-{n // 6 % TENANTS}"
        stream, event, actor, tenants = _one(n, tenant)
        meta = Meta(actor, f"adm_01m8pbzxzedze2vmz954e{n:07d}", correlation=f"req-{n}")
        id = f"evt_01m8pbzxzedze2vmz954e{n:07d}"
        yield Recorded(stream, 1, event, meta, id, part=Part(id, 0, 1), tenants=tenants)


def _one(n: int, tenant: str) -> tuple[str, Event, str, tuple[str, ...]]:
    who = f"identity:{tenant}/alice"
    match n % 6:
        case 0:
            caller = admission.Caller(tenant, "alice", "user", f"ses_{n}", "user")
            facts: dict[str, Any] = {"poolId": "pool_1", "gpuCount": 8, "gpuModel": "H100", "region": "eu-north"}
            decided = admission.Decided("reservations:create", f"compute-reservation/rsv_{n}", True, "ALLOWED", facts)
            return f"adm_{n}", admission.Admitted(caller, f"req-{n}", (decided,), "d" * 64), who, (tenant,)
        case 1:
            return f"pool_{n}", pools.Renamed(f"p{n}", "p", "platform"), who, ("platform", tenant)
        case 2:
            return f"rsv_{n}", reservation.Cancelled("Cancelled", n), "controller:timekeeper", (tenant,)
        case 3:
            condition = node.ConditionCleared("GpuFault", n)
            return f"node_{n}", condition, f"agent:node_{n}", ("platform",)
        case 4:
            return f"inst_{n}", reservation.Released("Released", n), f"agent:node_{n}", (tenant,)
        case _:
            return f"host_{n}", node.SpecObserved(n), f"agent:node_{n}", ("platform",)


def _bytes(dsn: str) -> int:
    tables = ("audit_chain", "audit_tiles", "audit_checkpoints")
    with psycopg.connect(dsn) as connection:
        return sum(_number(connection, f"SELECT pg_total_relation_size('{name}')") for name in tables)


def _number(connection: psycopg.Connection[Any], sql: str) -> int:
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])
