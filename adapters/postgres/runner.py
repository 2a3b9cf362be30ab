"""Keeps the asynchronous projections: batches, exactly once, each failing by itself (architecture.md §3)."""

import hashlib
import logging
from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg

from adapters.postgres.pool import Pool
from domain.event import Recorded
from projections.projection import Async, Projection

log = logging.getLogger(__name__)

_LOCKED: LiteralString = "SELECT position FROM projection_positions WHERE name = %s FOR UPDATE"
_ADVANCE: LiteralString = "UPDATE projection_positions SET position = %s, failure = NULL WHERE name = %s"
_FAILED: LiteralString = "UPDATE projection_positions SET failure = %s WHERE name = %s"
_KNOWN: LiteralString = "SELECT name, tables_digest, position, failure FROM projection_positions"


def digest(projection: Projection) -> str:
    return hashlib.sha256(projection.tables.encode()).hexdigest()


def create_tables(dsn: str, projections: Sequence[Projection]) -> list[str]:
    """Make the tables of projections that the database does not have; return the names of those that changed.

    A projection whose tables changed has to be rebuilt from the log before it can be trusted.
    """
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('better-compute projections'))")
        known = {name: tables for name, tables, _, _ in connection.execute(_KNOWN).fetchall()}
        for projection in projections:
            if projection.name not in known:
                connection.execute(projection.tables.encode())
                connection.execute(
                    "INSERT INTO projection_positions (name, tables_digest, position) VALUES (%s, %s, 0)",
                    (projection.name, digest(projection)),
                )
    return [p.name for p in projections if known.get(p.name, digest(p)) != digest(p)]


class Runner:
    """Applies batches to the projections of this process; belongs to the follower's thread."""

    def __init__(self, pool: Pool, projections: Sequence[Async]) -> None:
        self._pool = pool
        self._projections = tuple(projections)
        self.positions: dict[str, int] = {}
        self.failures: dict[str, str] = {}

    def load(self) -> int:
        """Read where each projection stands; return the lowest position."""
        with self._pool.connection() as connection:
            rows = connection.execute(_KNOWN).fetchall()
        mine = {projection.name for projection in self._projections}
        self.positions = {name: position for name, _, position, _ in rows if name in mine}
        self.failures = {name: failure for name, _, _, failure in rows if failure and name in mine}
        return min(self.positions.values(), default=0)

    def apply(self, batch: Sequence[Recorded]) -> None:
        last = batch[-1].position
        for projection in self._projections:
            if projection.name in self.failures or self.positions[projection.name] >= last:
                continue
            try:
                self._apply(projection, batch, last)
            except psycopg.OperationalError:
                raise
            except Exception as fault:
                self._fail(projection, batch, fault)

    def _apply(self, projection: Async, batch: Sequence[Recorded], last: int) -> None:
        """Rows and position in one transaction; the row lock keeps a second runner out."""
        with self._pool.connection() as connection, connection.transaction():
            cursor = connection.cursor()
            row: Any = cursor.execute(_LOCKED, (projection.name,), prepare=True).fetchone()
            fresh = [recorded for recorded in batch if recorded.position > row[0]]
            if fresh:
                projection.apply(cursor, fresh)
                cursor.execute(_ADVANCE, (last, projection.name), prepare=True)
        self.positions[projection.name] = max(last, row[0])

    def _fail(self, projection: Async, batch: Sequence[Recorded], fault: Exception) -> None:
        """A poisoned event stops its projection alone, and says which it is."""
        where = f"positions {batch[0].position}-{batch[-1].position}: {fault!r}"
        log.exception("projection %s stopped at %s", projection.name, where)
        self.failures[projection.name] = where
        with self._pool.connection() as connection:
            connection.execute(_FAILED, (where, projection.name))
