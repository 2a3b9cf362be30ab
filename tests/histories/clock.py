"""Time as a history has it: the database's clock shows what a row says, and moves when the history says so."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from adapters.postgres.pool import Pool
from facts import T0

_BEFORE: Final = "SELECT pg_get_functiondef('database_ms()'::regprocedure)"
_HAND: Final = """
CREATE SCHEMA test_clock;
CREATE TABLE test_clock.hand (ms bigint NOT NULL);
INSERT INTO test_clock.hand VALUES (0);
CREATE OR REPLACE FUNCTION database_ms() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT ms FROM test_clock.hand $$;
"""


@contextmanager
def ours(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """The database's clock is the test's, until it is put back."""
    row = connection.execute(_BEFORE).fetchone()
    assert row is not None
    connection.execute(_HAND.encode())
    try:
        yield
    finally:
        connection.execute(row[0])
        connection.execute("DROP SCHEMA test_clock CASCADE")


class Clock:
    """`now` is the database's wall clock in epoch ms; `monotonic` is every process's own clock, in seconds.

    `latest` is the furthest that the wall clock ever was: it can be set back, the other one cannot.
    """

    def __init__(self, connections: Pool) -> None:
        self._connections = connections
        self.now = self.latest = T0
        self._monotonic_ms = 0
        self._set()

    def monotonic(self) -> float:
        return self._monotonic_ms / 1000

    def passes(self, ms: int) -> None:
        self._monotonic_ms += ms
        self.steps(ms)

    def steps(self, ms: int) -> None:
        """Somebody sets the wall clock."""
        self.now += ms
        self.latest = max(self.latest, self.now)
        self._set()

    def _set(self) -> None:
        with self._connections.connection() as connection:
            connection.execute("UPDATE test_clock.hand SET ms = %s", (self.now,))
