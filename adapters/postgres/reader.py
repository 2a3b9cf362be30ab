"""Reads the log in position order without ever skipping an event (architecture.md §2, "Readers never skip")."""

import logging
import time
from typing import Any, Final, LiteralString

import psycopg

from adapters.postgres.mapper import decode
from domain.event import Recorded

log = logging.getLogger(__name__)

BATCH: Final = 500
OPEN_TOO_LONG_S: Final = 5.0

_AFTER: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE notification_id > %s ORDER BY notification_id LIMIT %s
"""
_WRITERS: LiteralString = """
SELECT virtualtransaction, pid FROM pg_locks
WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation = 'stored_events'::regclass AND mode = 'RowExclusiveLock' AND granted
"""


class Hole:
    """Missing positions up to `until`, and the transactions that could still fill them."""

    def __init__(self, until: int, writers: dict[str, int], now: float) -> None:
        self.until = until
        self.writers = writers
        self.seen = now
        self.told = False


class Tail:
    """Follows the log from a position. It belongs to one thread, which gives it a connection for each read.

    At a hole it lists the transactions that hold the table's insert lock, which an INSERT takes before its
    position. Once all of those have ended, a later read that still lacks the position proves it rolled back.
    """

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._hole: Hole | None = None

    def read(self, connection: psycopg.Connection[Any], limit: int = BATCH) -> list[Recorded]:
        """The next events without a gap; empty when there is nothing new or a hole is still open."""
        passable = self._passable(connection)
        rows = connection.execute(_AFTER, (self.position, limit), prepare=True, binary=True).fetchall()
        taken: list[Recorded] = []
        for row in rows:
            if row[4] != self.position + 1 and row[4] > passable:
                if not taken:
                    self._open(connection, row[4])
                break
            taken.append(decode(*row))
            self.position = row[4]
        if taken:
            self._hole = None
        return taken

    def _passable(self, connection: psycopg.Connection[Any]) -> int:
        """The position up to which holes are proved empty for a read that begins now."""
        hole = self._hole
        if hole is None:
            return 0
        present = dict(connection.execute(_WRITERS, prepare=True).fetchall())
        hole.writers = {writer: pid for writer, pid in hole.writers.items() if writer in present}
        if not hole.writers:
            return hole.until
        if not hole.told and time.monotonic() - hole.seen > OPEN_TOO_LONG_S:
            hole.told = True
            log.warning("log hole before %d is held open by backends %s", hole.until, [*hole.writers.values()])
        return 0

    def _open(self, connection: psycopg.Connection[Any], until: int) -> None:
        if self._hole is None or self._hole.until != until:
            writers = dict(connection.execute(_WRITERS, prepare=True).fetchall())
            self._hole = Hole(until, writers, time.monotonic())

    @property
    def hole_age(self) -> float:
        """Seconds for which the present hole has been open; 0 without one."""
        return time.monotonic() - self._hole.seen if self._hole else 0.0
