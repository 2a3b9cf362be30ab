"""The log's evidence as the operations on it see it: over the database, with the key of this process."""

import time
from collections.abc import Callable, Iterator
from typing import Final, LiteralString

import psycopg

from adapters import offline
from adapters.postgres import evidence
from adapters.postgres import export as written
from adapters.postgres.pool import Pool
from adapters.postgres.refusals import translate
from domain import merkle
from domain.access import Session
from domain.export import Ask
from queries.evidence import Books

LOOK_S: Final = 0.02

_POSITIONS: LiteralString = "SELECT notification_id FROM stored_events WHERE notification_id BETWEEN %s AND %s"


class Library:
    """Makes the books of one request. `sign` signs a checkpoint of what is taken in now, `vkey` verifies it."""

    def __init__(self, pool: Pool, sign: Callable[[], str], vkey: str) -> None:
        self._pool = pool
        self._sign = sign
        self._vkey = vkey

    def of(self, session: Session) -> Books:
        return Books(
            session,
            self._vkey,
            self._sign,
            self._write,
            offline.check,
            self._consistency,
            self._position,
            self._strays,
        )

    def wait(self, position: int, seconds: float) -> bool:
        """Whether the evidence came to a position of the log within so many seconds; any process may be its writer."""
        until = time.monotonic() + seconds
        while self.position() < position:
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_S)
        return True

    def position(self) -> int:
        with evidence.sound(), self._pool.connection() as connection:
            return evidence.progress(connection).position

    def _write(self, ask: Ask, note: str) -> Iterator[bytes]:
        try:
            yield from written.lines(self._pool.connection, ask, note, self._vkey)
        except psycopg.Error as fault:
            translate(fault)

    def _consistency(self, old: int, new: int) -> tuple[bytes, list[bytes]]:
        with evidence.sound(), self._pool.connection() as connection:
            return written.consistency(connection, old, new)

    def _position(self, leaf: int) -> int:
        with evidence.sound(), self._pool.connection() as connection:
            return evidence.position(connection, leaf)

    def _strays(self, first: int, last: int) -> list[int]:
        """Positions from one leaf to another that are no leaf's."""
        leaves: set[int] = set()
        with evidence.sound(), self._pool.connection() as connection:
            for index in range(first // merkle.WIDTH, last // merkle.WIDTH + 1):
                leaves.update(evidence.tile(connection, 0, index).positions)
            between = evidence.position(connection, first), evidence.position(connection, last)
            found = connection.execute(_POSITIONS, between, prepare=True).fetchall()
        return sorted(row[0] for row in found if row[0] not in leaves)
