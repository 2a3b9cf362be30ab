"""A durable PostgreSQL of the benchmark's own, and databases with the product's tables."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from adapters.ids import Mint
from adapters.postgres import embedded, migrate, runner
from adapters.postgres.pool import Pool
from adapters.postgres.store import EventStore
from projections import table
from tests.bench.store import bookings


@contextmanager
def server() -> Iterator[str]:
    """Its connection string; the directory is gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="better-compute-bench-", dir="/var/tmp"))
    place.chmod(0o711)
    try:
        with embedded.running(place / "data") as dsn:
            yield dsn
    finally:
        shutil.rmtree(place)


def database(dsn: str, name: str) -> str:
    """Make a database with the product's tables and the fleet of `bookings`."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    made = make_conninfo(dsn, dbname=name)
    migrate.migrate(made)
    runner.create_tables(made, table.ALL)
    return made


def store(connections: Pool) -> EventStore:
    return EventStore(connections, table.INLINE, "platform", Mint())


def fleet(connections: Pool) -> EventStore:
    made = store(connections)
    bookings.build(made, Mint())
    return made
