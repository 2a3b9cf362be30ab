"""Coordination leases: ownership with a fencing epoch, expired without comparing clocks (domain.md §5)."""

import time
from collections.abc import Callable
from typing import Final, LiteralString

from adapters.postgres.pool import Pool
from domain.event import Fence

TTL_S: Final = 5.0

_READ: LiteralString = "SELECT holder, epoch, beats FROM coordination_leases WHERE name = %s"
_FIRST: LiteralString = """
INSERT INTO coordination_leases (name, holder, epoch, beats) VALUES (%s, %s, 1, 0)
ON CONFLICT (name) DO NOTHING RETURNING epoch
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
        self._looked = 0.0

    @property
    def fence(self) -> Fence | None:
        """What a write under this lease carries; None while somebody else holds it."""
        return Fence(self.name, self._epoch) if self._epoch is not None else None

    def tick(self) -> bool:
        """Beat, or try to take over; call it at least every quarter of the TTL. Returns whether it is held."""
        with self._pool.connection() as connection:
            if self._epoch is not None:
                beat = connection.execute(_BEAT, (self.name, self._holder, self._epoch)).fetchone()
                if beat is None:
                    self._epoch = None
                return self._epoch is not None
            row = connection.execute(_READ, (self.name,)).fetchone()
            if row is None:
                taken = connection.execute(_FIRST, (self.name, self._holder)).fetchone()
            else:
                holder, epoch, beats = row
                if holder and not self._lapsed(epoch, beats):
                    return False
                taken = connection.execute(_TAKE, (self._holder, self.name, epoch, beats)).fetchone()
            self._epoch = taken[0] if taken else None
            return self._epoch is not None

    def _lapsed(self, epoch: int, beats: int) -> bool:
        """Whether the same beat was seen for a whole TTL; a late look starts over."""
        now = self._monotonic()
        late = now - self._looked > TTL_S / 2
        self._looked = now
        if self._seen != (epoch, beats) or late:
            self._seen, self._since = (epoch, beats), now
        return now - self._since >= TTL_S

    def release(self) -> None:
        """Hand the lease back, so that the next holder need not wait."""
        if self._epoch is not None:
            with self._pool.connection() as connection:
                connection.execute(_FREE, (self.name, self._holder, self._epoch))
            self._epoch = None
