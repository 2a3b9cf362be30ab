"""One read model brought to the log's end: by the library's runner, by a loop written by hand, by ours."""

import time
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from eventsourcing.application import Application
from eventsourcing.persistence import Tracking, Transcoder
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.conninfo import conninfo_to_dict

from adapters.postgres import rebuild
from adapters.postgres.follower import Follower
from adapters.postgres.mapper import decode
from adapters.postgres.pool import Pool
from adapters.postgres.runner import Runner, writes_of
from domain.event import Recorded
from projections import reservations, table
from projections.projection import Async, Question, Rows, written
from tests.bench.store import events

_LOG: Final = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE notification_id > %s ORDER BY notification_id LIMIT 500
"""
_COPIED: Final = """
INSERT INTO bench_events (originator_id, originator_version, topic, state, notification_id)
SELECT originator_id, originator_version, topic, state, notification_id FROM stored_events
WHERE notification_id <= %s ORDER BY notification_id
"""


def clear(connection: psycopg.Connection[Any]) -> None:
    """The read models as if nobody had read the log yet."""
    tables = [name for of in table.ASYNC for name in rebuild.tables(of)]
    connection.execute(f"TRUNCATE {', '.join(tables)}".encode())
    connection.execute("UPDATE projection_positions SET position = 0")


def ours(connections: Pool, of: Sequence[Async]) -> float:
    """Events a second, from the first to the last of the log."""
    running = Runner(connections, of)
    running.load()
    follower = Follower(connections, [running.apply])
    began = time.monotonic()
    follower.catch_up()
    took = time.monotonic() - began
    assert not running.failures, running.failures
    return follower.position / took


def by_hand(dsn: str) -> float:
    """What one would write: a transaction a batch of 500, the same rows, plain psycopg."""
    position = 0
    began = time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as connection:
        while rows := connection.execute(_LOG, (position,), prepare=True, binary=True).fetchall():
            batch = [decode(*row) for row in rows]
            with connection.transaction():
                for sql, params in writes_of(connection, [reservations.PROJECTION.apply(batch)]):
                    connection.execute(sql.encode(), params, prepare=True)
                position = batch[-1].position
                connection.execute(
                    "UPDATE projection_positions SET position = %s WHERE name = 'reservations'", (position,)
                )
    return position / (time.monotonic() - began)


class _View(PostgresTrackingRecorder):
    """The read model as the library would have it: rows and tracking in one transaction, an event at a time."""

    def take(self, recorded: Recorded, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as cursor:

            def ask(questions: Sequence[Question]) -> list[Rows]:
                return [[tuple(row.values()) for row in cursor.execute(sql.encode(), of)] for sql, of in questions]

            for sql, params in written([reservations.PROJECTION.apply([recorded])], ask):
                cursor.execute(sql.encode(), params)
            self._insert_tracking(cursor, tracking)


class _Reservations(Projection[_View]):
    def process_event(self, domain_event: Recorded, tracking: Tracking) -> None:
        self.view.take(domain_event, tracking)


class Nothing(Transcoder):
    """Our mapper needs none."""

    def encode(self, obj: Any) -> bytes:
        raise NotImplementedError

    def decode(self, data: bytes) -> Any:
        raise NotImplementedError


class _App(Application[str]):
    name = "bench"


def stock(dsn: str, number: int, seconds: float) -> float:
    """Events a second of the library's runner in its first `seconds`, on a copy of the log in a table of its own."""
    recorder = events.stock_recorder(dsn, "bench_events")
    try:
        with psycopg.connect(dsn) as connection:
            connection.execute("DROP TABLE IF EXISTS bench_events, _reservations_tracking")
        recorder.create_table()
        with psycopg.connect(dsn) as connection:
            connection.execute(_COPIED, (number,))
    finally:
        recorder.datastore.close()
    known = conninfo_to_dict(dsn)
    env = {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "ORIGINATOR_ID_TYPE": "text",
        "MAPPER_TOPIC": "adapters.postgres.mapper:EventMapper",
        "TRANSCODER_TOPIC": "tests.bench.store.catching_up:Nothing",
        "POSTGRES_DBNAME": str(known["dbname"]),
        "POSTGRES_HOST": str(known["host"]),
        "POSTGRES_PORT": str(known["port"]),
        "POSTGRES_USER": str(known["user"]),
        "POSTGRES_PASSWORD": "none is asked for",
    }
    began = time.monotonic()
    with ProjectionRunner(application_class=_App, projection_class=_Reservations, view_class=_View, env=env) as running:
        time.sleep(seconds)
        done = running.view.max_tracking_id("bench") or 0
        took = time.monotonic() - began
    return done / took
