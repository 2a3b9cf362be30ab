"""Coordination leases: ownership with a fencing epoch, expired without comparing clocks (domain.md §5)."""

import time
from collections.abc import Callable
from typing import Any, Final, LiteralString

import psycopg

from adapters.postgres.pool import Pool
from domain.event import Fence

TTL_S: Final = 5.0
LOOK_S: Final = TTL_S / 8
LATE_S: Final = TTL_S / 4

_READ: LiteralString = "SELECT holder, epoch, beats FROM coordination_leases WHERE name = %s"
_FIRST: LiteralString = """
INSERT INTO coordination_leases (name, holder, epoch, beats) VALUES (%s, %s, 1, 0)
ON CONFLICT DO NOTHING RETURNING epoch
"""
_TAKE: LiteralString = """
UPDATE coordination_leases SET holder = %s, epoch = epoch + 1, beats = 0
WHERE name = %s AND epoch = %s AND beats = %s RETURNING epoch
"""
_BEAT: LiteralString = """
UPDATE coordination_leases SET beats = beats + 1 WHERE name = %s AND holder = %s AND epoch = %s RETURNING beats
"""
_FREE: LiteralString = "UPDATE coordination_leases SET holder = '' WHERE name = %s AND holder = %s AND epoch = %s"


class Lease:
    """One process's view of a lease. A holder beats; a rival takes over only after seeing no beat for a whole TTL."""

    def __init__(self, pool: Pool, name: str, holder: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._pool = pool
        self._holder = holder
        self._monotonic = monotonic
        self._epoch: int | None = None
        self._seen: tuple[int, int] | None = None
        self._since = 0.0
        self._looked: float | None = None

    @property
    def fence(self) -> Fence | None:
        """What a write under this lease carries; None while somebody else holds it."""
        return Fence(self.name, self._epoch) if self._epoch is not None else None

    def tick(self) -> bool:
        """Beat, or try to take over; call it at least every quarter of the TTL. Returns whether it is held.

        It asks the database every eighth of the TTL at most, however often it is called.
        """
        now = self._monotonic()
        if self._looked is not None and now - self._looked < LOOK_S:
            return self._epoch is not None
        late = self._looked is None or now - self._looked > LATE_S
        self._looked = now
        try:
            with self._pool.connection() as connection:
                if self._epoch is None:
                    self._epoch = self._take(connection, now, late)
                elif connection.execute(_BEAT, (self.name, self._holder, self._epoch)).fetchone() is None:
                    self._epoch = None
        except psycopg.Error:
            self._seen = None
            raise
        return self._epoch is not None

    def _take(self, connection: psycopg.Connection[Any], now: float, late: bool) -> int | None:
        row = connection.execute(_READ, (self.name,)).fetchone()
        if row is None:
            taken = connection.execute(_FIRST, (self.name, self._holder)).fetchone()
            return taken[0] if taken else None
        holder, epoch, beats = row
        if holder and not self._lapsed((epoch, beats), now, late):
            return None
        taken = connection.execute(_TAKE, (self._holder, self.name, epoch, beats)).fetchone()
        return taken[0] if taken else None

    def _lapsed(self, beat: tuple[int, int], now: float, late: bool) -> bool:
        """Whether the same beat was seen for a whole TTL; a late look starts over."""
        if self._seen != beat or late:
            self._seen, self._since = beat, now
        return now - self._since >= TTL_S

    def lose(self) -> None:
        """A write was refused: somebody else holds it, whatever the last beat said."""
        self._epoch = None

    def release(self) -> None:
        """Hand the lease back, so that the next holder need not wait."""
        if self._epoch is not None:
            with self._pool.connection() as connection:
                connection.execute(_FREE, (self.name, self._holder, self._epoch))
            self._epoch = None
