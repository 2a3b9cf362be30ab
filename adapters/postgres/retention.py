"""Forgets row versions that ended long ago, in all read models up to one position, the horizon.

Versions and horizon change in one transaction: whatever reads both in one snapshot finds every version that was current
at the horizon or later, and none that ended up to it (architecture.md §3).
"""

import time
from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from adapters.postgres.pool import Pool
from projections import history, log_time
from projections.projection import Async, Projection

DAY_MS: Final = 86_400_000
EVERY_S: Final = 5.0
AT_ONCE: Final = 2_000
"""Positions a transaction."""

BUDGET_S: Final = 0.1
"""For one run: the thread has other work, which is more urgent."""

HORIZON: LiteralString = "SELECT position FROM history_horizon"
_HOLD: LiteralString = "SELECT position FROM history_horizon FOR SHARE"
_TAKE: LiteralString = "SELECT position FROM history_horizon FOR UPDATE SKIP LOCKED"
_MOVE: LiteralString = "UPDATE history_horizon SET position = %s"
_TARGET: LiteralString = f"""
SELECT least(coalesce(({log_time.AS_OF}), 0), (SELECT min(position) FROM projection_positions WHERE name = ANY(%s)))
"""
_NOW: LiteralString = "SELECT database_ms()"


class Retention:
    """Keeps the versions of so many days; several on one database take turns, and the shortest memory counts."""

    def __init__(self, pool: Pool, projections: Sequence[Async], days: int) -> None:
        self._pool = pool
        self._kept_ms = days * DAY_MS
        self._names = [of.name for of in projections if history.names(of)]
        self._tables = [name for of in projections for name in history.names(of)]

    def run(self) -> None:
        """Move the horizon towards where it should be, in short transactions, until time is up."""
        until = time.monotonic() + BUDGET_S
        with self._pool.connection() as connection:
            target = self._target(connection)
            while self._step(connection, target) and time.monotonic() < until:
                pass

    def _target(self, connection: psycopg.Connection[Any]) -> int:
        """Where the log was so many days ago; no read model may yet have to write a version that ended before."""
        now = _number(connection.execute(_NOW))
        return _number(connection.execute(_TARGET, (now - self._kept_ms, self._names)))

    def _step(self, connection: psycopg.Connection[Any], target: int) -> bool:
        """Whether there is more to do, and nobody else at it."""
        if horizon(connection) >= target:
            return False
        with connection.transaction():
            row = connection.execute(_TAKE).fetchone()
            if row is None or row[0] >= target:
                return False
            reached = min(target, row[0] + AT_ONCE)
            for name in self._tables:
                connection.execute(history.prune(name).encode(), (row[0], reached))
            connection.execute(_MOVE, (reached,))
        return bool(reached < target)


def horizon(connection: psycopg.Connection[Any]) -> int:
    """The position up to which ended versions are forgotten, as the connection sees it."""
    return _number(connection.execute(HORIZON))


def prune(connection: psycopg.Connection[Any], projection: Projection, schema: str, upto: int) -> None:
    """Forget, of tables folded from the whole log, what the live ones have forgotten."""
    for name in history.names(projection) if upto else ():
        connection.execute(history.prune(f"{schema}.{name}").encode(), (0, upto))


def hold(connection: psycopg.Connection[Any], projection: Projection) -> None:
    """Keep the horizon where it is until the transaction ends."""
    if history.names(projection):
        connection.execute(_HOLD)


def begun(connection: psycopg.Connection[Any]) -> bool:
    """Whether anything has been forgotten."""
    return bool(horizon(connection))


def _number(cursor: psycopg.Cursor[Any]) -> int:
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])
