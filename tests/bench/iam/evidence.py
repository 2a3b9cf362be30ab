"""What evidence costs: taking a log in, and verifying it against the database (docs/how-to/audit.md)."""

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
CHUNK: Final = 100_000
FILL: Final = """
INSERT INTO stored_events (originator_id, originator_version, topic, state)
SELECT replace(stream, '#', i::text), 1, topic, convert_to(replace(state, '#', lpad(i::text, 8, '0')), 'UTF8')
FROM generate_series(%s::int, %s::int) AS i JOIN patterns ON n = i %% %s ORDER BY i
"""
CLI: Final = "from adapters.cli.main import main; main()"


def report(place: Path, events: int = EVENTS) -> str:
    """Fill a log, take it in as its writer would without rest, and verify it with the command that people run."""
    with embedded.running(place / "data") as dsn:
        migrate.migrate(dsn)
        began = time.monotonic()
        end = fill(dsn, events)
        filled = time.monotonic() - began
        wall, cpu = take_in(dsn, place / "audit.key", end)
        verified, used, peak, said = verify(dsn, place)
        size = _bytes(dsn)
    rows = [
        (f"log of {events:,} events of {TENANTS} tenants, written in", f"{filled:.0f} s"),
        ("taken in without rest", f"{events / wall:,.0f} events/s, {cpu / events * 1e6:.0f} µs of processor each"),
        ("chains, tiles and checkpoints take", f"{size / events:.0f} bytes an event"),
        (
            "audit verify",
            f"{events / verified:,.0f} events/s, {used / events * 1e6:.0f} µs of processor each, "
            f"{peak / 1024:.0f} MiB at most",
        ),
        ("", said),
    ]
    return figures.table("Evidence", rows)


def fill(dsn: str, events: int) -> int:
    """Put so many events into the log, without read models, multiplied inside the server; its last position."""
    mapper = EventMapper()
    rows = [mapper.to_stored_event(recorded) for recorded in _patterns()]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE patterns (n int, stream text, topic text, state text)")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO patterns VALUES (%s, %s, %s, %s)",
                [(n, row.originator_id, row.topic, row.state.decode()) for n, row in enumerate(rows)],
            )
        for first in range(0, events, CHUNK):
            connection.execute(FILL, (first, min(first + CHUNK, events) - 1, len(rows)))
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


def verify(dsn: str, home: Path) -> tuple[float, float, int, str]:
    """Seconds on the wall, and of its processor, the most KiB that the process held, and its first line."""
    command = [sys.executable, "-c", CLI, "audit", "verify", "--database-url", dsn, "--data-dir", str(home)]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, said.splitlines()[0]


def _patterns() -> Iterator[Recorded]:
    """What a fleet writes, `#` for a number: a third are people's acts and their admissions, the rest the machine's."""
    for n in range(6 * TENANTS):
        tenant = f"tenant-{n // 6}"
        stream, event, actor, tenants = _one(n % 6, tenant)
        meta = Meta(actor, "adm_01m8pbzxzedze2vmz954#", correlation="req-#")
        id = "evt_01m8pbzxzedze2vmz954#"
        yield Recorded(stream, 1, event, meta, id, part=Part(id, 0, 1), tenants=tenants)


def _one(kind: int, tenant: str) -> tuple[str, Event, str, tuple[str, ...]]:
    who, agent = f"identity:{tenant}/alice", "agent:node_#"
    match kind:
        case 0:
            caller = admission.Caller(tenant, "alice", "user", "ses_#", "user")
            facts: dict[str, Any] = {"poolId": "pool_1", "gpuCount": 8, "gpuModel": "H100", "region": "eu-north"}
            decided = admission.Decided("reservations:create", "compute-reservation/rsv_#", True, "ALLOWED", facts)
            return "adm_#", admission.Admitted(caller, "req-#", (decided,), "d" * 64), who, (tenant,)
        case 1:
            return "pool_#", pools.Renamed("p#", "p", "platform"), who, ("platform", tenant)
        case 2:
            return "rsv_#", reservation.Cancelled("Cancelled", 1), "controller:timekeeper", (tenant,)
        case 3:
            return "node_#", node.ConditionCleared("GpuFault", 1), agent, ("platform",)
        case 4:
            return "ext_#", reservation.Released("Released", 1), agent, (tenant,)
        case _:
            return "cmd_#", node.SpecObserved(1), agent, ("platform",)


def _bytes(dsn: str) -> int:
    tables = ("audit_chain", "audit_tiles", "audit_checkpoints")
    with psycopg.connect(dsn) as connection:
        return sum(_number(connection, f"SELECT pg_total_relation_size('{name}')") for name in tables)


def _number(connection: psycopg.Connection[Any], sql: str) -> int:
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])
