"""Keeps the asynchronous projections: batches, exactly once, each failing by itself (architecture.md §3)."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, LiteralString

import psycopg

from adapters.postgres.pool import Pool
from adapters.postgres.reader import Tail
from domain.event import Recorded, tag
from projections.projection import Async, Inline, Projection

log = logging.getLogger(__name__)

_LOCKED: LiteralString = "SELECT position FROM projection_positions WHERE name = %s FOR UPDATE"
_ADVANCE: LiteralString = "UPDATE projection_positions SET position = %s, failure = NULL WHERE name = %s"
_FAILED: LiteralString = "UPDATE projection_positions SET failure = %s WHERE name = %s"
_STANDS: LiteralString = "SELECT position, failure FROM projection_positions WHERE name = %s"
_KNOWN: LiteralString = "SELECT name, tables_digest, position FROM projection_positions"


def digest(projection: Projection) -> str:
    shape = projection.shape if isinstance(projection, Async) else ""
    return hashlib.sha256(f"{projection.tables}{shape}".encode()).hexdigest()


def create_tables(dsn: str, projections: Sequence[Projection]) -> list[str]:
    """Make the tables of projections that the database does not have; return the names of those to rebuild.

    Those are projections whose tables changed, and new inline ones on a log that has events already: they are filled
    by appends alone, so what happened before would be missing.
    """
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('better-compute projections'))")
        known = {name: tables for name, tables, _ in connection.execute(_KNOWN).fetchall()}
        begun = connection.execute("SELECT 1 FROM stored_events LIMIT 1").fetchone() is not None
        for projection in projections:
            if projection.name not in known:
                known[projection.name] = "" if begun and isinstance(projection, Inline) else digest(projection)
                connection.execute(projection.tables.encode())
                connection.execute(
                    "INSERT INTO projection_positions (name, tables_digest, position) VALUES (%s, %s, 0)",
                    (projection.name, known[projection.name]),
                )
    return [p.name for p in projections if known[p.name] != digest(p)]


class Poisoned(Exception):
    """An event that a projection cannot take; the message says which and why."""


class _Behind(Exception):
    """The projection has not seen what came before this batch."""


class Runner:
    """Applies batches to the projections of this process; belongs to the follower's thread.

    Position and rows change in one transaction under the position's row lock, so several runners on one database,
    of this process or another, give each event to each projection once. `start` is where the follower begins.
    """

    def __init__(self, pool: Pool, projections: Sequence[Async], start: int = 0) -> None:
        self._pool = pool
        self._projections = tuple(projections)
        self._given = start
        self.positions: dict[str, int] = {}
        self.failures: dict[str, str] = {}

    def load(self) -> int:
        """Read where each projection stands; return the lowest position.

        One that an earlier run left stopped is tried again: this program may be the one with the fix.
        """
        with self._pool.connection() as connection:
            rows = connection.execute(_KNOWN).fetchall()
        mine = {projection.name for projection in self._projections}
        self.positions = {name: position for name, _, position in rows if name in mine}
        return min(self.positions.values(), default=0)

    def apply(self, batch: Sequence[Recorded]) -> None:
        last = batch[-1].position
        for projection in self._projections:
            if projection.name in self.failures and not self._forgiven(projection):
                continue
            if self.positions[projection.name] < last:
                self._guarded(projection, lambda of=projection: self._bring(of, batch))  # type: ignore[misc]
        self._given = last

    def retry(self, name: str) -> str | None:
        """Bring a stopped projection to the log's end; return its failure when it stops again."""
        (projection,) = (of for of in self._projections if of.name == name)
        self.load()
        self.failures.pop(name, None)
        self._guarded(projection, lambda: self._resume(projection))
        if name not in self.failures:
            self._say(name, None)
        return self.failures.get(name)

    def _guarded(self, projection: Async, bring: Callable[[], None]) -> None:
        """A poisoned event stops its projection alone, and says which it is."""
        try:
            bring()
        except Poisoned as fault:
            log.error("projection %s stopped at %s", projection.name, fault, exc_info=fault.__cause__)
            self.failures[projection.name] = str(fault)
            self._say(projection.name, str(fault))

    def _bring(self, projection: Async, batch: Sequence[Recorded]) -> None:
        try:
            self._take(projection, batch, self._given)
        except _Behind:
            self._resume(projection)
            self._take(projection, batch, 0)

    def _resume(self, projection: Async) -> None:
        """Read the log from where the projection stands to its end, or to a hole that is still open."""
        with self._pool.connection() as connection:
            row = connection.execute(_STANDS, (projection.name,)).fetchone()
        tail = Tail(row[0] if row else 0, self._given)
        while True:
            with self._pool.connection() as connection:
                batch = tail.read(connection)
            if batch:
                self._take(projection, batch, 0)
            elif not tail.hole_age or tail.held_open:
                return

    def _take(self, projection: Async, batch: Sequence[Recorded], after: int) -> None:
        """Apply a batch; when that fails, one event at a time up to the one that is to blame."""
        try:
            self._apply(projection, batch, after)
        except (psycopg.OperationalError, _Behind):
            raise
        except Exception:
            for recorded in batch:
                try:
                    self._apply(projection, [recorded], 0)
                except psycopg.OperationalError:
                    raise
                except Exception as fault:
                    name, of = tag(recorded.event), f"{recorded.stream} version {recorded.version}"
                    raise Poisoned(f"position {recorded.position}, {name} of {of}: {fault!r}") from fault

    def _apply(self, projection: Async, batch: Sequence[Recorded], after: int) -> None:
        last = batch[-1].position
        with self._pool.connection() as connection, connection.transaction():
            cursor = connection.cursor()
            row: Any = cursor.execute(_LOCKED, (projection.name,), prepare=True).fetchone()
            if row[0] < after:
                raise _Behind
            fresh = [recorded for recorded in batch if recorded.position > row[0]]
            if fresh:
                projection.apply(cursor, fresh)
                cursor.execute(_ADVANCE, (last, projection.name), prepare=True)
        self.positions[projection.name] = max(last, row[0])

    def _forgiven(self, projection: Async) -> bool:
        """Whether somebody has brought a stopped projection past its trouble: `projections retry`, another process."""
        with self._pool.connection() as connection:
            row = connection.execute(_STANDS, (projection.name,), prepare=True).fetchone()
        if row is None or row[1] is not None:
            return False
        self.positions[projection.name] = row[0]
        del self.failures[projection.name]
        return True

    def _say(self, name: str, failure: str | None) -> None:
        with self._pool.connection() as connection:
            connection.execute(_FAILED, (failure, name))
