"""Logs of any length for the benchmark of growth, filled inside the server, alike in two layouts of `stored_events`.

Which version of which stream stands at which position is arithmetic, so that whoever measures knows the streams
without asking. Of ten events nine belong to streams of 5 events (`rsv_`), 1,800 of them at a time, their events 2,000
positions apart; the tenth to one of the streams of 500 events (`node_`), which go through the whole log.
"""

import hashlib
import secrets
import time
from typing import Any, Final, LiteralString, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from adapters.postgres import migrate

PLAIN: Final = "plain"
PARTITIONS: Final = 16
PARTITIONED: Final = f"{PARTITIONS} partitions"
LAYOUTS: Final = (PLAIN, PARTITIONED)
SHORT, LONG = 5, 500
STEP: Final = 10_000
"""A log has a multiple of so many events: then all its streams are whole."""
CHUNK: Final = 250_000
FILL_S: Final = 1500
STATEMENT_MS: Final = 600_000

TOPIC: Final = "reservation.placed.1"
STATE: Final = (
    '{"id":"evt_%s","part":{"append":"evt_%s","index":1,"count":4},"tenants":["tenant-17","platform"],'
    '"meta":{"actor":"identity:tenant-17/user-4"},'
    '"data":{"type":"reservation.placed.1","allocationId":"alloc_%s","nodeId":"node_%s",'
    '"startsAt":1790000000000,"endsAt":1790003600000}}'
)

_PARTITIONED: LiteralString = """
ALTER TABLE stored_events RENAME TO unpartitioned;
CREATE TABLE stored_events (
    LIKE unpartitioned INCLUDING DEFAULTS,
    PRIMARY KEY (originator_id, originator_version)
) PARTITION BY HASH (originator_id);
ALTER SEQUENCE stored_events_position OWNED BY stored_events.notification_id;
DROP TABLE unpartitioned;
CREATE INDEX stored_events_by_position ON stored_events (notification_id);
"""
_PARTITION: LiteralString = """
CREATE TABLE stored_events_{0} PARTITION OF stored_events FOR VALUES WITH (MODULUS {1}, REMAINDER {0})
"""
_FILL: LiteralString = """
INSERT INTO stored_events (originator_id, originator_version, topic, state, notification_id, recorded_at)
SELECT
    kind || lpad(number::text, 10, '0') || left(md5(number::text), 16),
    version,
    %(topic)s,
    convert_to(
        format(%(state)s, substr(hex, 1, 26), substr(hex, 27, 26), substr(hex, 53, 26), substr(hex, 79, 26)), 'UTF8'
    ),
    i + 1,
    1790000000000 + 20 * i
FROM (
    SELECT
        i,
        CASE WHEN i %% 10 = 9 THEN 'node_' ELSE 'rsv_' END AS kind,
        CASE WHEN i %% 10 = 9 THEN i / 10 %% %(nodes)s ELSE short / 9000 * 1800 + short %% 1800 END AS number,
        CASE WHEN i %% 10 = 9 THEN i / 10 / %(nodes)s ELSE short %% 9000 / 1800 END + 1 AS version,
        encode(sha512(int8send(i)), 'hex') AS hex
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i, LATERAL (SELECT i - i / 10) AS of (short)
    OFFSET 0 -- or the hash is made again for each of its uses
) AS made
"""


class Log(NamedTuple):
    """A log as it was filled; the benchmark's own appends come after `events`, on the same streams and on new ones."""

    events: int

    @property
    def reservations(self) -> int:
        return self.events * 9 // 10 // SHORT

    @property
    def nodes(self) -> int:
        return self.events // 10 // LONG


def reservation(number: int) -> str:
    return f"rsv_{_suffix(number)}"


def node(number: int) -> str:
    return f"node_{_suffix(number)}"


def _suffix(number: int) -> str:
    """Like a ULID: what is younger sorts later."""
    return f"{number:010}{hashlib.md5(str(number).encode()).hexdigest()[:16]}"


def state() -> bytes:
    return (STATE % tuple(secrets.token_hex(13) for _ in range(4))).encode()


def connect(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True, options=f"-c statement_timeout={STATEMENT_MS}")


def create(server: str, layout: str) -> str:
    """A database with the plane's own tables, `stored_events` in this layout; returns how to reach it."""
    name = f"growth_{LAYOUTS.index(layout)}"
    with connect(server) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    made = make_conninfo(server, dbname=name)
    migrate.migrate(made)
    if layout == PARTITIONED:
        with connect(made) as connection:
            connection.execute(_PARTITIONED)
            for number in range(PARTITIONS):
                connection.execute(_PARTITION.format(number, PARTITIONS).encode())
    return made


def drop(server: str, layout: str) -> None:
    with connect(server) as connection:
        connection.execute(f"DROP DATABASE growth_{LAYOUTS.index(layout)} WITH (FORCE)".encode())


def fill(dsn: str, log: Log) -> float:
    """Write the log with its indexes in place, in position order as a real one; return how many seconds it took."""
    began = time.monotonic()
    with connect(dsn) as connection:
        for first in range(0, log.events, CHUNK):
            if time.monotonic() > began + FILL_S:
                raise TimeoutError(f"{first} of {log.events} events were filled in {FILL_S} s")
            last = min(first + CHUNK, log.events) - 1
            asked = {"topic": TOPIC, "state": STATE, "nodes": log.nodes, "first": first, "last": last}
            connection.execute(_FILL, asked)
        connection.execute("SELECT setval('stored_events_position', %s)", (log.events,))
    return time.monotonic() - began
