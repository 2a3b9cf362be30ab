"""Folds the log again: to prove that the live tables follow from it, or to make them anew (architecture.md §3)."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Final, LiteralString

import psycopg
from msgspec import Struct

from adapters.postgres import pipeline
from adapters.postgres.mapper import decode
from adapters.postgres.reader import Tail
from adapters.postgres.runner import digest, reading
from domain.event import Recorded
from projections.projection import Appends, Async, Inline, Projection, replay

_BATCH: Final = 500
_LOG: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE notification_id > %s ORDER BY notification_id LIMIT %s
"""
_STANDS: LiteralString = "SELECT position FROM projection_positions WHERE name = %s FOR UPDATE"
_SHOWN: Final = 5
_LOCK_MS: Final = 200
_PAUSE_S: Final = 0.1
_TRIES: Final = 300

Progress = Callable[[int], None]


class Difference(Struct, frozen=True):
    """Rows of one table that the live one has and the log does not give, or the other way round."""

    projection: str
    table: str
    only_live: int
    only_log: int
    examples: tuple[str, ...]


class Verdict(Struct, frozen=True):
    """What a comparison saw: events read, rows compared, and the tables that differ."""

    events: int
    rows: int
    differences: tuple[Difference, ...]


def tables(projection: Projection) -> list[str]:
    return re.findall(r"CREATE TABLE (\w+)", projection.tables)


def events(connection: psycopg.Connection[Any], after: int = 0) -> Iterator[list[Recorded]]:
    """The log in position order, in batches, as far as the transaction sees it."""
    while rows := connection.execute(_LOG, (after, _BATCH), prepare=True, binary=True).fetchall():
        batch = [decode(*row) for row in rows]
        after = batch[-1].position
        yield batch


def apply(
    connection: psycopg.Connection[Any],
    projection: Projection,
    batch: Sequence[Recorded],
    appends: Sequence[Sequence[Recorded]],
) -> None:
    """Fold a batch; inline projections fold whole appends, in the order of their steps."""
    if isinstance(projection, Async):
        writes = list(projection.apply(reading(connection), batch)) if batch else []
    else:
        writes = [(s.sql, s.params) for append in appends for s in replay(projection, append)]
    if writes:
        pipeline.run(connection, writes)


def compare(dsn: str, projections: Sequence[Projection], progress: Progress = lambda n: None) -> Verdict:
    """Rebuild every projection beside the live one and compare row by row.

    One REPEATABLE READ transaction sees log, live rows and positions as of one moment. The scratch tables are
    temporary ones of that transaction, so nothing of it is left, and nobody waits for it.
    """
    with psycopg.connect(dsn, autocommit=True, application_name="better-compute audit diff") as connection:
        connection.prepare_threshold = None
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        try:
            upto = _positions(connection)
            cursor = connection.cursor()
            for projection in projections:
                cursor.execute(projection.tables.replace("CREATE TABLE", "CREATE TEMP TABLE").encode())
            read, appends = 0, Appends()
            for batch in events(connection):
                read, whole = read + len(batch), appends.whole(batch)
                for projection in projections:
                    apply(connection, projection, _upto(batch, upto.get(projection.name, 0)), whole)
                progress(read)
            return _compared(cursor, projections, read)
        finally:
            connection.execute("ROLLBACK")


def _positions(connection: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(connection.execute("SELECT name, position FROM projection_positions").fetchall())


def _upto(batch: Sequence[Recorded], position: int) -> list[Recorded]:
    return [recorded for recorded in batch if recorded.position <= position]


def _compared(cursor: psycopg.Cursor[Any], projections: Sequence[Projection], read: int) -> Verdict:
    differences: list[Difference] = []
    rows = 0
    for projection in projections:
        for table in tables(projection):
            counted = cursor.execute(f"SELECT count(*) FROM public.{table}".encode()).fetchone()
            rows += int(counted[0]) if counted else 0
            only_live = _except(cursor, f"public.{table}", f"pg_temp.{table}")
            only_log = _except(cursor, f"pg_temp.{table}", f"public.{table}")
            if only_live or only_log:
                examples = tuple(f"live {row}" for row in only_live[:_SHOWN])
                examples += tuple(f"log  {row}" for row in only_log[:_SHOWN])
                differences.append(Difference(projection.name, table, len(only_live), len(only_log), examples))
    return Verdict(read, rows, tuple(differences))


def _except(cursor: psycopg.Cursor[Any], one: str, other: str) -> list[str]:
    sql = f"SELECT t::text FROM (SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}) AS t LIMIT 1000"
    return [row[0] for row in cursor.execute(sql.encode()).fetchall()]


def rebuild(dsn: str, projection: Projection, progress: Progress = lambda n: None) -> int:
    """Make one projection anew from the log beside live writes; return the events read.

    A scratch schema is filled in short transactions. The last step alone makes anybody wait: it takes its locks within
    200 ms or gives up, goes on filling, and tries again.
    """
    scratch = f"rebuild_{projection.name}"
    with psycopg.connect(dsn, autocommit=True, application_name="better-compute rebuild") as connection:
        connection.execute("SET synchronous_commit TO off")
        connection.prepare_threshold = None  # or psycopg would drop the pipeline's plans when a swap rolls back
        _alone(connection, projection)
        try:
            connection.execute(f"DROP SCHEMA IF EXISTS {scratch} CASCADE".encode())
            connection.execute(f"CREATE SCHEMA {scratch}".encode())
            connection.execute(f"SET search_path TO {scratch}, public".encode())
            connection.execute(projection.tables.encode())
            filling = _Filling(connection, projection, progress)
            for _ in range(_TRIES):
                filling.on()
                if _swapped(connection, projection, scratch, filling):
                    return filling.read
                time.sleep(_PAUSE_S)
        finally:
            if not connection.broken:
                connection.execute(f"DROP SCHEMA IF EXISTS {scratch} CASCADE".encode())
    raise RebuildError(f"{projection.name}: {_TRIES} times others held its tables for over {_LOCK_MS} ms")


class RebuildError(Exception):
    """A rebuild that could not finish; the live tables are as they were."""


class _NotYet(Exception):
    """The live tables have read further than the scratch ones."""


class _Filling:
    """Folds the log into the scratch tables, as far as it is settled; a hole is waited for, never passed by guess."""

    def __init__(self, connection: psycopg.Connection[Any], projection: Projection, progress: Progress) -> None:
        proved = connection.execute("SELECT max(position) FROM projection_positions").fetchone()
        self.tail = Tail(0, proved[0] or 0 if proved else 0)
        self.read = 0
        self.appends = Appends()
        self._connection = connection
        self._projection = projection
        self._progress = progress

    def on(self) -> None:
        """To the present end, or to a hole that is still open; a transaction a batch, or part of one under way."""
        while True:
            batch = self.tail.read(self._connection)
            if batch:
                apply(self._connection, self._projection, batch, self.appends.whole(batch))
                self.read += len(batch)
                self._progress(self.read)
            elif not self.tail.hole_age or self.tail.held_open:
                return


def _alone(connection: psycopg.Connection[Any], projection: Projection) -> None:
    sql = "SELECT pg_try_advisory_lock(hashtext('better-compute rebuild'), hashtext(%s))"
    if connection.execute(sql, (projection.name,)).fetchone() != (True,):
        raise RebuildError(f"{projection.name}: another process is rebuilding it")


def _swapped(connection: psycopg.Connection[Any], projection: Projection, scratch: str, filling: _Filling) -> bool:
    """The last step, as one transaction; False when a lock could not be had, with nothing changed.

    Locks are taken in the order of those it would meet: an append takes its tables, then the log; the runner takes its
    position's row, then its tables.
    """
    names = tables(projection)
    before = (copy(filling.tail), filling.read, filling.appends.copy())
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {_LOCK_MS}".encode())
            connection.execute("SET LOCAL synchronous_commit TO on")
            row = connection.execute(_STANDS, (projection.name,)).fetchone()
            live = [name for name in names if _exists(connection, name)]
            if live:
                listed = ", ".join(f"public.{name}" for name in live)
                connection.execute(f"LOCK TABLE {listed} IN ACCESS EXCLUSIVE MODE".encode())
            if isinstance(projection, Inline):
                connection.execute("LOCK TABLE stored_events IN SHARE MODE")
            filling.on()
            if isinstance(projection, Async) and row is not None and filling.tail.position < row[0]:
                raise _NotYet
            for name in names:
                connection.execute(f"DROP TABLE IF EXISTS public.{name}".encode())
                connection.execute(f"ALTER TABLE {scratch}.{name} SET SCHEMA public".encode())
            _place(connection.cursor(), projection, filling.tail.position)
    except (_NotYet, psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        filling.tail, filling.read, filling.appends = before
        return False
    return True


def _exists(connection: psycopg.Connection[Any], table: str) -> bool:
    row = connection.execute("SELECT to_regclass(%s)", (f"public.{table}",)).fetchone()
    return row is not None and row[0] is not None


def _place(cursor: psycopg.Cursor[Any], projection: Projection, position: int) -> None:
    cursor.execute(
        """
        INSERT INTO projection_positions (name, tables_digest, position) VALUES (%s, %s, %s)
        ON CONFLICT (name) DO UPDATE SET
            tables_digest = excluded.tables_digest, position = excluded.position, failure = NULL
        """,
        (projection.name, digest(projection), position if isinstance(projection, Async) else 0),
    )
