"""The library's recorder without its table lock: writers share the server's group commit (eventsourcing.md §3, §4)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from eventsourcing import persistence
from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

from adapters.postgres import pipeline
from adapters.postgres.pool import Pool
from domain.event import Fence
from projections.projection import Statement

INSERT = """
INSERT INTO stored_events (originator_id, originator_version, topic, state)
SELECT originator_id, originator_version, topic, state
FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::bytea[]) WITH ORDINALITY
    AS given (originator_id, originator_version, topic, state, n)
ORDER BY n
RETURNING notification_id
"""
_OF_ALL: Final = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM unnest(%s::text[], %s::bigint[]) AS asked (stream, seen)
JOIN stored_events ON originator_id = stream AND originator_version > seen
ORDER BY originator_id, originator_version
"""
_FENCE = """
SELECT refuse('FENCED', jsonb_build_object('lease', %s::text))
WHERE NOT EXISTS (SELECT 1 FROM coordination_leases WHERE name = %s AND epoch = %s)
"""
_FENCE_LOCK = "SELECT 1 FROM coordination_leases WHERE name = %s AND epoch = %s FOR KEY SHARE"
_STREAM = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events
WHERE originator_id = %s AND originator_version > %s AND originator_version <= %s
"""
_LAST = 2**62
_ERRORS: Final[tuple[tuple[type[psycopg.Error], type[persistence.PersistenceError]], ...]] = (
    (psycopg.IntegrityError, persistence.IntegrityError),
    (psycopg.OperationalError, persistence.OperationalError),
    (psycopg.DataError, persistence.DataError),
    (psycopg.InternalError, persistence.InternalError),
    (psycopg.ProgrammingError, persistence.ProgrammingError),
    (psycopg.NotSupportedError, persistence.NotSupportedError),
    (psycopg.InterfaceError, persistence.InterfaceError),
    (psycopg.DatabaseError, persistence.DatabaseError),
    (psycopg.Error, persistence.PersistenceError),
)


@contextmanager
def _as_the_library_says() -> Iterator[None]:
    """The library's callers expect its own errors; psycopg's, with the SQLSTATE, is the cause (eventsourcing.md §3)."""
    try:
        yield
    except psycopg.Error as fault:
        raise next(theirs for ours, theirs in _ERRORS if isinstance(fault, ours))(fault) from fault


class Datastore(PostgresDatastore):
    """The library's datastore over a pool of ours, which carries the timeouts (eventsourcing.md §3.9)."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool  # type: ignore[assignment]
        self.schema = "public"
        self.originator_id_type = "text"
        self.lock_timeout = 0
        self.enable_db_functions = False
        self.single_row_tracking = True
        self.pool_open_timeout = None
        self.db_type_names = set()
        self.psycopg_type_adapters = {}
        self.psycopg_python_types = {}

    def register_type_adapters(self) -> None:
        """Nothing to register: events travel as plain arrays."""

    def __del__(self) -> None:
        """The pool is closed by whoever opened it."""


class Recorder(PostgresApplicationRecorder):
    """One round trip an append, no table lock, errors typed and at once, no retry of our own making."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(Datastore(pool))
        self.pool = pool

    def insert_events(
        self,
        stored_events: Sequence[StoredEvent],
        *,
        statements: Sequence[Statement] = (),
        fence: Fence | None = None,
        **_: Any,
    ) -> list[int]:
        """Run the append's statements and insert its events as one transaction; return their positions.

        The order is that of architecture.md §2: the fence, then the statements as they were planned, then the events,
        which take their positions last. The first error is the answer, as the database gave it.
        """
        fenced = () if fence is None else fencing(fence)
        steps = [*fenced, *((one.sql, one.params) for one in statements), (INSERT, columns(stored_events))]
        with _as_the_library_says(), self.pool.connection() as connection:
            return pipeline.run(connection, steps)

    def select_events(
        self,
        originator_id: Any,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        order = "ORDER BY originator_version DESC" if desc else "ORDER BY originator_version"
        window = (originator_id, -1 if gt is None else gt, _LAST if lte is None else lte)
        with _as_the_library_says(), self.pool.connection() as connection:
            rows = connection.execute(
                f"{_STREAM} {order} LIMIT %s", (*window, limit), prepare=True, binary=True
            ).fetchall()
        return [StoredEvent(*row[:4]) for row in rows]

    def select_rows(
        self, stream: str, after: int, until: int | None = None, upto: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Rows of a stream as tuples, for our own fold: the library's objects cost more than the query.

        Versions in `(after, until]`, at positions not beyond `upto`.
        """
        window = (stream, after, _LAST if until is None else until, _LAST if upto is None else upto)
        with self.pool.connection() as connection:
            return connection.execute(
                f"{_STREAM} AND notification_id <= %s ORDER BY originator_version", window, prepare=True, binary=True
            ).fetchall()

    def select_all(self, versions: Mapping[str, int], upto: int) -> list[tuple[Any, ...]]:
        """Rows of streams behind their versions, up to a position."""
        if not versions:
            return []
        sql = """
        SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
        FROM unnest(%s::text[], %s::bigint[]) AS asked (stream, seen)
        JOIN stored_events ON originator_id = stream AND originator_version > seen
        WHERE notification_id <= %s ORDER BY originator_id, originator_version
        """
        with self.pool.connection() as connection:
            return connection.execute(
                sql, (list(versions), list(versions.values()), upto), prepare=True, binary=True
            ).fetchall()

    def select_log(self, after: int, upto: int, limit: int) -> list[tuple[Any, ...]]:
        """Rows of all streams in position order."""
        sql = """
        SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
        FROM stored_events WHERE notification_id > %s AND notification_id <= %s ORDER BY notification_id LIMIT %s
        """
        with self.pool.connection() as connection:
            return connection.execute(sql, (after, upto, limit), prepare=True, binary=True).fetchall()

    def select_at(self, positions: Sequence[int]) -> list[tuple[Any, ...]]:
        """Rows at these positions, in that order."""
        sql = """
        SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
        FROM unnest(%s::bigint[]) WITH ORDINALITY AS asked (position, n)
        JOIN stored_events ON notification_id = position ORDER BY n
        """
        with self.pool.connection() as connection:
            return connection.execute(sql, (list(positions),), prepare=True, binary=True).fetchall()

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Committed events in position order. A tailing reader needs reader.Tail: positions have holes."""
        sql = """
        SELECT originator_id, originator_version, topic, state, notification_id FROM stored_events
        WHERE notification_id >= %s AND notification_id <= %s AND (cardinality(%s::text[]) = 0 OR topic = ANY(%s))
        ORDER BY notification_id LIMIT %s
        """
        first = 0 if start is None else start + (not inclusive_of_start)
        wanted = list(topics)
        with _as_the_library_says(), self.pool.connection() as connection:
            rows = connection.execute(
                sql,
                (first, _LAST if stop is None else stop, wanted, wanted, limit),
                prepare=True,
                binary=True,
            ).fetchall()
        return [Notification(*row) for row in rows]

    def max_notification_id(self) -> int | None:
        with _as_the_library_says(), self.pool.connection() as connection:
            row = connection.execute("SELECT max(notification_id) FROM stored_events").fetchone()
        return row[0] if row else None


def fencing(fence: Fence) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Lock the lease's epoch, and then look: in one statement the look would see what was before the lock."""
    held = (fence.lease, fence.epoch)
    return (_FENCE_LOCK, held), (_FENCE, (fence.lease, *held))


def of_all(after: Mapping[str, int]) -> tuple[str, tuple[list[str], list[int]]]:
    """The question for the rows of many streams, of each those beyond a version."""
    return _OF_ALL, (list(after), list(after.values()))


def columns(events: Sequence[StoredEvent]) -> tuple[list[Any], ...]:
    return (
        [e.originator_id for e in events],
        [e.originator_version for e in events],
        [e.topic for e in events],
        [e.state for e in events],
    )
