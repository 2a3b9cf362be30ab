"""Reads the log in position order without ever skipping an event (architecture.md §2, "Readers never skip")."""

import logging
import time
from typing import Any, Final, LiteralString

import psycopg
from eventsourcing.persistence import MapperDeserialisationError

from adapters.postgres.mapper import decode
from domain.event import Recorded

log = logging.getLogger(__name__)

BATCH: Final = 500
OPEN_TOO_LONG_S: Final = 5.0

AFTER: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE notification_id > %s ORDER BY notification_id LIMIT %s
"""
_END: LiteralString = "SELECT coalesce(max(notification_id), 0) FROM stored_events"
_GIVEN_OUT: LiteralString = "SELECT last_value FROM stored_events_position"
_WRITERS: LiteralString = """
SELECT virtualtransaction, pid FROM pg_locks
WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation = 'stored_events'::regclass AND mode = 'RowExclusiveLock' AND granted
"""


def end(connection: psycopg.Connection[Any]) -> int:
    """The position of the last event in the log, 0 without one; events before it may still be missing."""
    row = connection.execute(_END, prepare=True).fetchone()
    return row[0] if row else 0


class Hole:
    """Positions missing in front of a reader, and the transactions that could still fill them.

    `given_out` is the highest position that was given out before the writers were listed: once these have ended, no
    position up to there can appear any more.
    """

    def __init__(self, given_out: int, writers: dict[str, int], now: float) -> None:
        self.given_out = given_out
        self.writers = writers
        self.seen = now
        self.told = False


class Tail:
    """Follows the log from a position. It belongs to one thread, which gives it a connection for each read.

    At a hole it lists the transactions that hold the table's insert lock, which an INSERT takes before its
    position. Once all of those have ended, a later read that still lacks the position proves it rolled back.
    Up to `proved` another reader has come already: holes before it are empty.
    """

    def __init__(self, position: int = 0, proved: int = 0) -> None:
        self.position = position
        self._proved = proved
        self._hole: Hole | None = None

    def read(self, connection: psycopg.Connection[Any], limit: int = BATCH) -> list[Recorded]:
        """The next events without a gap; empty when there is nothing new or a hole is still open.

        Raises MapperDeserialisationError at an event that cannot be read, after all before it were given out.
        """
        if self._hole is not None:
            self._look_again(connection, self._hole)
        rows = connection.execute(AFTER, (self.position, limit), prepare=True, binary=True).fetchall()
        taken: list[Recorded] = []
        for row in rows:
            if row[4] != self.position + 1 and row[4] - 1 > self._proved:
                if not taken and self._hole is None:
                    self._hole = self._found(connection)
                break
            try:
                taken.append(decode(*row))
            except MapperDeserialisationError:
                if taken:
                    break
                raise
            self.position = row[4]
        if taken:
            self._hole = None
        return taken

    def _found(self, connection: psycopg.Connection[Any]) -> Hole:
        given_out = connection.execute(_GIVEN_OUT, prepare=True).fetchone()
        writers = dict(connection.execute(_WRITERS, prepare=True).fetchall())
        return Hole(given_out[0] if given_out else 0, writers, time.monotonic())

    def _look_again(self, connection: psycopg.Connection[Any], hole: Hole) -> None:
        """Strike off the writers that ended; without any left the hole is proved for reads that begin now."""
        present = dict(connection.execute(_WRITERS, prepare=True).fetchall())
        hole.writers = {writer: pid for writer, pid in hole.writers.items() if writer in present}
        if not hole.writers:
            self._proved, self._hole = hole.given_out, None
        elif not hole.told and time.monotonic() - hole.seen > OPEN_TOO_LONG_S:
            hole.told = True
            log.warning("a hole in the log is held open by backends %s", [*hole.writers.values()])

    @property
    def held_open(self) -> bool:
        """Whether a writer that was there when the present hole was found may still fill it."""
        return self._hole is not None and bool(self._hole.writers)

    @property
    def hole_age(self) -> float:
        """Seconds for which the present hole has been open; 0 without one."""
        return time.monotonic() - self._hole.seen if self._hole else 0.0
