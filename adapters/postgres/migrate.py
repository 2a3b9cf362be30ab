"""Brings a database to the schema this program knows: numbered SQL files, each applied once, in order.

A file `NNNN_name.sql` runs in one transaction together with its row in `schema_migrations`. One whose first
line is `-- no-transaction` (for CREATE INDEX CONCURRENTLY) runs statement by statement, each ended by a `;`
at the end of a line, and must bear being run again, because nothing undoes the first half when the second
fails.
"""

import hashlib
import importlib.resources
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

import psycopg

PACKAGE = "adapters.postgres"
DIRECTORY = "migrations"

_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_NO_TRANSACTION = "-- no-transaction"
_LOCK = 0x6263_6D69_6772  # "bcmigr"
_LOCK_SECONDS = 120.0
_POLL_SECONDS = 0.05
_TABLE = b"""
CREATE TABLE IF NOT EXISTS public.schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
_RECORD = b"INSERT INTO public.schema_migrations (version, name, checksum) VALUES (%s, %s, %s)"

Source = str | Path | Traversable | None


class MigrationError(Exception):
    """The database and this program's migrations do not fit; the message says which and what to do."""


@dataclass(frozen=True)
class Migration:
    """One file: its number, its name, its text."""

    version: int
    name: str
    sql: str

    @property
    def label(self) -> str:
        return f"{self.version:04d}_{self.name}"

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def transactional(self) -> bool:
        return self.sql.split("\n", 1)[0].strip() != _NO_TRANSACTION


def migrate(dsn: str, source: Source = None) -> list[Migration]:
    """Apply what is missing and return it; several processes may call this at once, one of them works.

    `source` is a package name or a directory of other migrations, for tests.
    """
    known = load(source)
    with _connect(dsn) as connection, _alone(connection):
        _prepare(connection)
        missing = _missing(known, _applied(connection))
        for migration in missing:
            _apply(connection, migration)
    return missing


def check(dsn: str, source: Source = None) -> None:
    """Raise MigrationError unless the database is exactly at this program's head; changes nothing."""
    known = load(source)
    with _connect(dsn) as connection:
        exists = connection.execute(b"SELECT to_regclass('public.schema_migrations') IS NOT NULL").fetchone()
        missing = _missing(known, _applied(connection) if exists == (True,) else {})
    if missing:
        labels = ", ".join(migration.label for migration in missing)
        raise MigrationError(f"the database lacks {labels}: run `better-compute migrate` first")


def load(source: Source = None) -> list[Migration]:
    """The migrations of a source in order; a number used twice is an error."""
    found: dict[int, Migration] = {}
    for entry in _entries(source):
        if entry.name.endswith(".sql"):
            match = _FILE.fullmatch(entry.name)
            if match is None:
                raise MigrationError(f"{entry.name}: a migration is named NNNN_name.sql, in lower case")
            text = entry.read_bytes().decode().replace("\r\n", "\n")
            migration = Migration(int(match[1]), match[2], text)
            if migration.version in found:
                raise MigrationError(f"two migrations have number {match[1]}: renumber one of them")
            found[migration.version] = migration
    return [found[version] for version in sorted(found)]


def _entries(source: Source) -> Iterator[Traversable]:
    if source is None:
        place = importlib.resources.files(PACKAGE) / DIRECTORY
        return iter(place.iterdir() if place.is_dir() else ())
    return (importlib.resources.files(source) if isinstance(source, str) else source).iterdir()


def _connect(dsn: str) -> psycopg.Connection:
    connection = psycopg.connect(dsn, autocommit=True, application_name="better-compute migrate")
    connection.execute(b"SET lock_timeout = '5s'")
    return connection


@contextmanager
def _alone(connection: psycopg.Connection) -> Iterator[None]:
    """Hold the migration lock; polled for, as a waiter's snapshot stalls CREATE INDEX CONCURRENTLY."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while connection.execute(b"SELECT pg_try_advisory_lock(%s)", [_LOCK]).fetchone() != (True,):
        if time.monotonic() > deadline:
            raise MigrationError(f"another process has been migrating this database for {_LOCK_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        if not connection.broken:
            connection.execute(b"SELECT pg_advisory_unlock(%s)", [_LOCK])


def _prepare(connection: psycopg.Connection) -> None:
    try:
        connection.execute(_TABLE)
    except psycopg.errors.InsufficientPrivilege as problem:
        raise MigrationError(
            f"the role {connection.info.user} may not make tables in {connection.info.dbname}, which it must own: "
            f"{problem.diag.message_primary}"
        ) from problem


def _applied(connection: psycopg.Connection) -> dict[int, tuple[str, str]]:
    rows = connection.execute(b"SELECT version, name, checksum FROM public.schema_migrations ORDER BY version")
    return {version: (name, checksum) for version, name, checksum in rows}


def _missing(known: list[Migration], applied: dict[int, tuple[str, str]]) -> list[Migration]:
    """What to apply; refuses a history other than a beginning of ours."""
    newer = sorted(set(applied) - {migration.version for migration in known})
    if newer:
        label = f"{newer[-1]:04d}_{applied[newer[-1]][0]}"
        raise MigrationError(f"the database has migration {label}, which this program does not know: run a newer one")
    for migration in known:
        recorded = applied.get(migration.version)
        if recorded not in (None, (migration.name, migration.checksum)):
            raise MigrationError(
                f"migration {migration.label} was changed after it was applied: restore the file and add a new one"
            )
    missing = [migration for migration in known if migration.version not in applied]
    if missing and applied and missing[0].version < max(applied):
        raise MigrationError(
            f"migration {missing[0].label} comes before {max(applied):04d}, which is applied: give it a higher number"
        )
    return missing


def _apply(connection: psycopg.Connection, migration: Migration) -> None:
    record = (migration.version, migration.name, migration.checksum)
    try:
        if migration.transactional:
            with connection.transaction():
                connection.execute(migration.sql.encode())
                connection.execute(_RECORD, record)
        else:
            for statement in re.split(r"(?<=;)[ \t]*\n", migration.sql):
                if re.sub(r"--[^\n]*", "", statement).strip():
                    connection.execute(statement.encode())
            connection.execute(_RECORD, record)
    except psycopg.Error as problem:
        raise MigrationError(f"migration {migration.label} failed: {problem}") from problem
