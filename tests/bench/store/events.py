"""One event a transaction, nothing else: our recorder beside the library's own and plain psycopg."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import psycopg
from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg.conninfo import conninfo_to_dict

from adapters.postgres.pool import pool
from adapters.postgres.recorder import Recorder
from tests.bench.store import crowd
from tests.bench.store.crowd import Work

STATE: Final = b'{"id":"evt_01k00000000000000000000000","part":{"append":"' + b"x" * 310 + b'"}}'
_PLAIN: Final = "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES (%s, %s, %s, %s)"


def event(number: int) -> StoredEvent:
    """About 370 bytes of state, five events a stream."""
    return StoredEvent(f"site_{number // 5:026d}", number % 5 + 1, "site.renamed.1", STATE)


@contextmanager
def ours(dsn: str) -> Iterator[list[Work]]:
    with pool(dsn, crowd.THREADS, application_name="bench") as connections:
        recorder = Recorder(connections)
        yield [lambda number: recorder.insert_events([event(number)])] * crowd.THREADS


@contextmanager
def stock(dsn: str) -> Iterator[list[Work]]:
    recorder = stock_recorder(dsn, "stock_events")
    try:
        recorder.create_table()
        yield [lambda number: recorder.insert_events([event(number)])] * crowd.THREADS
    finally:
        recorder.datastore.close()


def stock_recorder(dsn: str, table: str) -> PostgresApplicationRecorder:
    """The library's recorder as it comes, with text ids and a connection for each thread."""
    known: dict[str, Any] = conninfo_to_dict(dsn)
    datastore = PostgresDatastore(
        known["dbname"],
        known["host"],
        known["port"],
        known["user"],
        "none is asked for",
        pool_size=crowd.THREADS,
        originator_id_type="text",
    )
    return PostgresApplicationRecorder(datastore, events_table_name=table)


@contextmanager
def plain(dsn: str) -> Iterator[list[Work]]:
    """The same row by plain psycopg, prepared, one connection a thread."""
    with ExitStack() as opened:
        yield [_inserting(opened.enter_context(psycopg.connect(dsn, autocommit=True))) for _ in range(crowd.THREADS)]


def _inserting(connection: psycopg.Connection[Any]) -> Work:
    def insert(number: int) -> None:
        one = event(number)
        row = (one.originator_id, one.originator_version, one.topic, one.state)
        connection.execute(_PLAIN, row, prepare=True)

    return insert
