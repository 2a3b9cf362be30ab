"""Folds the log again: to prove that the live tables follow from it, or to make them anew (architecture.md §3)."""

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Final, LiteralString

import psycopg
from eventsourcing.persistence import MapperDeserialisationError
from msgspec import Struct
from msgspec.structs import replace

from adapters.postgres import pipeline, reader, retention, snapshots
from adapters.postgres.mapper import decode
from adapters.postgres.pool import find_by_key
from adapters.postgres.reader import Tail
from adapters.postgres.runner import digest, writes_of
from domain.event import Recorded
from projections.projection import Appends, Async, Inline, Projection, replay

log = logging.getLogger(__name__)

_BATCH: Final = 500
_STANDS: LiteralString = "SELECT position FROM projection_positions WHERE name = %s FOR UPDATE"
_SHOWN: Final = 5
_LOCK_MS: Final = 200
_LET_GO_MS: Final = 5_000
_KEY: Final = "hashtext('better-compute rebuild'), hashtext(%s)"
_PAUSE_S: Final = 0.1
_TRIES: Final = 300

Progress = Callable[[int, int], None]
"""Told after each batch: the events read, and about how many the log has left, 0 at its end alone."""


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
    while rows := connection.execute(reader.AFTER, (after, _BATCH), prepare=True, binary=True).fetchall():
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
    try:
        if isinstance(projection, Async):
            writes = writes_of(connection, [projection.apply(batch)]) if batch else []
        else:
            writes = [(s.sql, s.params) for append in appends for s in replay(projection, append)]
        if writes:
            pipeline.run(connection, writes)
    except psycopg.OperationalError:
        raise
    except Exception as fault:
        given = batch if isinstance(projection, Async) else [one for append in appends for one in append]
        among = f"positions {given[0].position} to {given[-1].position}"
        raise RebuildError(f"{projection.name}: {among} cannot be folded: {fault!r}") from fault


def compare(dsn: str, projections: Sequence[Projection], progress: Progress = lambda *_: None) -> Verdict:
    """Rebuild every projection beside the live one and compare row by row.

    One REPEATABLE READ transaction sees log, live rows and positions as of one moment. Another connection folds into
    temporary tables, in short transactions: within a single one the server could not pass over what it has replaced,
    and folding a device with many bookings would take the square of their number. Nothing of it is left, nobody waits.
    """
    name = "better-compute audit diff"
    with (
        psycopg.connect(dsn, autocommit=True, application_name=name) as seen,
        psycopg.connect(dsn, autocommit=True, application_name=name) as scratch,
    ):
        scratch.prepare_threshold = None
        find_by_key(scratch)
        try:
            for projection in projections:
                if not _locked(scratch, "pg_try_advisory_lock_shared", projection):
                    raise RebuildError(f"{projection.name} is being rebuilt just now; compare when that has ended")
            seen.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            _same_tables(seen, projections)
            read = _fold(seen, scratch, projections, progress)
            horizon = retention.horizon(seen)
            for projection in projections:
                retention.prune(scratch, projection, "pg_temp", horizon)
            verdict = _compared(seen, scratch, projections, read)
            return replace(verdict, differences=(*verdict.differences, *_spoilt(seen)))
        except MapperDeserialisationError as fault:
            raise RebuildError(str(fault)) from fault
        finally:
            if not scratch.closed:
                _let_go(scratch)


def _same_tables(seen: psycopg.Connection[Any], projections: Sequence[Projection]) -> None:
    made = dict(seen.execute("SELECT name, tables_digest FROM projection_positions").fetchall())
    if changed := [of.name for of in projections if made.get(of.name) != digest(of)]:
        names = " ".join(changed)
        raise RebuildError(f"the tables of {names} changed: run `better-compute projections rebuild {names}` first")


def _fold(
    seen: psycopg.Connection[Any],
    scratch: psycopg.Connection[Any],
    projections: Sequence[Projection],
    progress: Progress,
) -> int:
    """Fold the log as one connection sees it into temporary tables of another; return how many events it has."""
    upto, total = _positions(seen), _count(seen, 0)
    for projection in projections:
        scratch.execute(projection.tables.replace("CREATE TABLE", "CREATE TEMP TABLE").encode())
    read, appends = 0, Appends()
    for batch in events(seen):
        read, whole = read + len(batch), appends.whole(batch)
        for projection in projections:
            apply(scratch, projection, _upto(batch, upto.get(projection.name, 0)), whole)
        progress(read, total - read)
    return read


def _count(connection: psycopg.Connection[Any], after: int) -> int:
    row = connection.execute("SELECT count(*) FROM stored_events WHERE notification_id > %s", (after,)).fetchone()
    return row[0] if row else 0


def _positions(connection: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(connection.execute("SELECT name, position FROM projection_positions").fetchall())


def _upto(batch: Sequence[Recorded], position: int) -> list[Recorded]:
    return [recorded for recorded in batch if recorded.position <= position]


def _compared(
    seen: psycopg.Connection[Any], scratch: psycopg.Connection[Any], projections: Sequence[Projection], read: int
) -> Verdict:
    differences: list[Difference] = []
    rows = 0
    for projection in projections:
        for table in tables(projection):
            live, log = _brought(seen, scratch, table), f"pg_temp.{table}"
            counted = scratch.execute(f"SELECT count(*) FROM {live}".encode()).fetchone()
            rows += int(counted[0]) if counted else 0
            only_live, only_log = _except(scratch, live, log), _except(scratch, log, live)
            if only_live or only_log:
                examples = tuple(f"live {row}" for row in only_live[:_SHOWN])
                examples += tuple(f"log  {row}" for row in only_log[:_SHOWN])
                differences.append(Difference(projection.name, table, len(only_live), len(only_log), examples))
    return Verdict(read, rows, tuple(differences))


def _brought(seen: psycopg.Connection[Any], scratch: psycopg.Connection[Any], table: str) -> str:
    """The live rows of a table, as seen, beside those that were folded; returns what they are called there."""
    live = f"pg_temp.live_{table}"
    scratch.execute(f"CREATE TEMP TABLE live_{table} (LIKE pg_temp.{table})".encode())
    with (
        seen.cursor().copy(f"COPY (SELECT * FROM public.{table}) TO STDOUT (FORMAT binary)".encode()) as rows,
        scratch.cursor().copy(f"COPY {live} FROM STDIN (FORMAT binary)".encode()) as into,
    ):
        for data in rows:
            into.write(data)
    return live


def _spoilt(connection: psycopg.Connection[Any]) -> list[Difference]:
    """Snapshots are no projection, and follow from the log all the same."""
    wrong = tuple(snapshots.wrong(connection))
    return [Difference("snapshots", "stream_snapshots", len(wrong), 0, wrong[:_SHOWN])] if wrong else []


def _except(connection: psycopg.Connection[Any], one: str, other: str) -> list[str]:
    sql = f"SELECT t::text FROM (SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}) AS t LIMIT 1000"
    return [row[0] for row in connection.execute(sql.encode()).fetchall()]


def rebuild(dsn: str, projection: Projection, progress: Progress = lambda *_: None) -> int:
    """Make one projection anew from the log beside live writes; return the events read.

    A scratch schema is filled in short transactions. The last step alone makes anybody wait: it takes its locks within
    200 ms or gives up, goes on filling, and tries again.
    """
    scratch = f"rebuild_{projection.name}"
    try:
        return _rebuilt(dsn, projection, scratch, progress)
    except _Occupied:
        raise
    except BaseException as fault:
        _clear_away(dsn, projection, scratch)
        if isinstance(fault, MapperDeserialisationError):
            raise RebuildError(f"{projection.name}: {fault}") from fault
        raise


def _rebuilt(dsn: str, projection: Projection, scratch: str, progress: Progress) -> int:
    with psycopg.connect(dsn, autocommit=True, application_name="better-compute rebuild") as connection:
        connection.execute("SET synchronous_commit TO off")
        find_by_key(connection)
        connection.prepare_threshold = None  # or psycopg would drop the pipeline's plans when a swap rolls back
        _alone(connection, projection)
        connection.execute(f"DROP SCHEMA IF EXISTS {scratch} CASCADE".encode())
        connection.execute(f"CREATE SCHEMA {scratch}".encode())
        connection.execute(f"SET search_path TO {scratch}, public".encode())
        connection.execute(projection.tables.encode())
        filling = _Filling(connection, projection, progress)
        for _ in range(_TRIES):
            filling.on()
            retention.prune(connection, projection, scratch, retention.horizon(connection))
            if _swapped(connection, projection, scratch, filling):
                connection.execute(f"DROP SCHEMA {scratch} CASCADE".encode())
                _let_go(connection)
                return filling.read
            time.sleep(_PAUSE_S)
    raise RebuildError(f"{projection.name}: {_TRIES} times others held its tables for over {_LOCK_MS} ms")


class RebuildError(Exception):
    """A rebuild, or a comparison, that could not finish; the live tables are as they were."""


class _Occupied(RebuildError):
    """Another process is at it; what lies in its scratch schema is not ours."""


class _NotYet(Exception):
    """The live tables have read further than the scratch ones."""


class _Filling:
    """Folds the log into the scratch tables, as far as it is settled; a hole is waited for, never passed by guess."""

    def __init__(self, connection: psycopg.Connection[Any], projection: Projection, progress: Progress) -> None:
        proved = connection.execute("SELECT max(position) FROM projection_positions").fetchone()
        self.tail = Tail(0, proved[0] or 0 if proved else 0)
        self.read = 0
        self._total = _count(connection, 0)
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
                if self.read >= self._total:  # the log grew meanwhile
                    self._total = self.read + _count(self._connection, self.tail.position)
                self._progress(self.read, self._total - self.read)
            elif not self.tail.hole_age or self.tail.held_open:
                return


def _alone(connection: psycopg.Connection[Any], projection: Projection) -> None:
    """Nobody else makes it anew, or compares it: the tables of a comparison must not be swapped under it."""
    if not _locked(connection, "pg_try_advisory_lock", projection):
        raise _Occupied(f"{projection.name}: another process is rebuilding it, or comparing it with the log")


def _locked(connection: psycopg.Connection[Any], how: str, projection: Projection) -> bool:
    sql = f"SELECT {how}({_KEY})"
    return connection.execute(sql.encode(), (projection.name,)).fetchone() == (True,)


def _let_go(connection: psycopg.Connection[Any]) -> None:
    """Now, and not when the server notices that the connection is closed: whoever asks next asks at once."""
    connection.execute("SELECT pg_advisory_unlock_all()")


def _clear_away(dsn: str, projection: Projection, scratch: str) -> None:
    """On a connection of its own, once the server has let go of the rebuild's: that one may have broken."""
    try:
        with psycopg.connect(dsn, autocommit=True, application_name="better-compute rebuild") as connection:
            connection.execute(f"SET lock_timeout = {_LET_GO_MS}".encode())
            connection.execute(f"SELECT pg_advisory_lock({_KEY})".encode(), (projection.name,))
            connection.execute(f"DROP SCHEMA IF EXISTS {scratch} CASCADE".encode())
            _let_go(connection)
    except psycopg.Error as fault:
        log.warning("the schema %s is left behind: %s", scratch, fault)


def _swapped(connection: psycopg.Connection[Any], projection: Projection, scratch: str, filling: _Filling) -> bool:
    """The last step, as one transaction; False when a lock could not be had, with nothing changed.

    Locks are taken in the order of those it would meet: an append takes its tables, then the log; the runner takes its
    position's row, then its tables; who prunes takes the horizon, then the tables.
    """
    names = tables(projection)
    before = (copy(filling.tail), filling.read, filling.appends.copy())
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {_LOCK_MS}".encode())
            connection.execute("SET LOCAL synchronous_commit TO on")
            row = connection.execute(_STANDS, (projection.name,)).fetchone()
            retention.hold(connection, projection)
            live = [name for name in names if _exists(connection, name)]
            if live:
                listed = ", ".join(f"public.{name}" for name in live)
                connection.execute(f"LOCK TABLE {listed} IN ACCESS EXCLUSIVE MODE".encode())
            if isinstance(projection, Inline):
                connection.execute("LOCK TABLE stored_events IN SHARE MODE")
            filling.on()
            if isinstance(projection, Async) and row is not None and filling.tail.position < row[0]:
                raise _NotYet
            retention.prune(connection, projection, scratch, retention.horizon(connection))
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
