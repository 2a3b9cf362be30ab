"""Keeps the asynchronous projections: batches, exactly once, each failing by itself (architecture.md §3)."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, LiteralString

import psycopg

from adapters.postgres import pipeline, retention
from adapters.postgres.pool import Pool
from adapters.postgres.reader import Tail
from adapters.postgres.refusals import REFUSED, is_outage
from domain.event import Recorded, tag
from projections import history
from projections.projection import Async, Inline, Projection, Steps, Write, written

log = logging.getLogger(__name__)

_LOCKED: LiteralString = "SELECT 1 FROM projection_positions WHERE name = ANY(%s::text[]) ORDER BY name FOR UPDATE"
_UNMOVED: LiteralString = """
SELECT refuse('MOVED', jsonb_build_object('name', known.name))
FROM unnest(%s::text[], %s::bigint[]) AS known (name, position)
LEFT JOIN projection_positions AS stands ON stands.name = known.name
WHERE stands.position IS DISTINCT FROM known.position LIMIT 1
"""
_ADVANCE: LiteralString = "UPDATE projection_positions SET position = %s, failure = NULL WHERE name = ANY(%s::text[])"
_FAILED: LiteralString = "UPDATE projection_positions SET failure = %s WHERE name = %s"
_STANDS: LiteralString = "SELECT position, failure FROM projection_positions WHERE name = %s"
_KNOWN: LiteralString = "SELECT name, tables_digest, position FROM projection_positions"


def digest(projection: Projection) -> str:
    shape = projection.shape if isinstance(projection, Async) else ""
    return hashlib.sha256(f"{projection.tables}{shape}".encode()).hexdigest()


def create_tables(dsn: str, projections: Sequence[Projection]) -> list[str]:
    """Make the tables of projections that the database does not have; return the names of those to rebuild.

    Those are projections whose tables changed, and new inline ones on a log that has events already: they are filled
    by appends alone, so what happened before would be missing. A new one that keeps versions is among them once the
    others have forgotten some: by itself it would have them all.
    """
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('better-compute projections'))")
        known = {name: tables for name, tables, _ in connection.execute(_KNOWN).fetchall()}
        begun = connection.execute("SELECT 1 FROM stored_events LIMIT 1").fetchone() is not None
        forgotten = retention.begun(connection)
        for projection in projections:
            if projection.name not in known:
                late = begun if isinstance(projection, Inline) else forgotten and bool(history.names(projection))
                known[projection.name] = "" if late else digest(projection)
                connection.execute(projection.tables.encode())
                connection.execute(
                    "INSERT INTO projection_positions (name, tables_digest, position) VALUES (%s, %s, 0)",
                    (projection.name, known[projection.name]),
                )
    return [p.name for p in projections if known[p.name] != digest(p)]


def writes_of(connection: psycopg.Connection[Any], batches: Sequence[Steps]) -> list[Write]:
    """What projections write of a batch, by what their tables say on this connection."""
    return written(batches, lambda questions: pipeline.ask(connection, questions))


class Poisoned(Exception):
    """An event that a projection cannot take; the message says which and why."""


class _Moved(Exception):
    """Somebody else has brought the projection to another position."""


class Runner:
    """Applies batches to the projections of this process; belongs to the follower's thread.

    All that a batch changes goes to the server at once: positions, checked and moved under their rows' locks, and the
    rows of every projection, as one transaction. So several runners on one database, of this process or another, give
    each event to each projection once. `start` is where the follower begins.
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
        """Bring every projection forward together; where that fails, each by itself."""
        going = [of for of in self._projections if of.name not in self.failures or self._forgiven(of)]
        try:
            alone = self._together(going, batch)
        except Exception as fault:
            if is_outage(fault):
                raise
            log.info("the projections go on one by one: %r", fault)
            alone = going
        for projection in alone:
            self._guarded(projection, lambda of=projection: self._bring(of, batch))  # type: ignore[misc]
        self._given = batch[-1].position

    def _together(self, going: Sequence[Async], batch: Sequence[Recorded]) -> list[Async]:
        """Write for all that have seen what came before the batch; return the others."""
        while True:
            level = [of for of in going if self.positions[of.name] >= self._given]
            try:
                self._write(level, batch)
                return [of for of in going if of not in level]
            except _Moved:
                self.load()

    def at_rest(self) -> None:
        """While nothing happens, a stopped projection may have been retried elsewhere."""
        for projection in self._projections:
            if projection.name in self.failures and self._forgiven(projection):
                self._guarded(projection, lambda of=projection: self._resume(of))  # type: ignore[misc]

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
        if self._look(projection) < self._given:
            self._resume(projection)
        self._take(projection, batch)

    def _resume(self, projection: Async) -> None:
        """Read the log from where the projection stands to its end, or to a hole that is still open."""
        tail = Tail(self._look(projection), self._given)
        while True:
            with self._pool.connection() as connection:
                batch = tail.read(connection)
            if batch:
                self._take(projection, batch)
            elif not tail.hole_age or tail.held_open:
                return

    def _take(self, projection: Async, batch: Sequence[Recorded]) -> None:
        """Apply a batch; when that fails, one event at a time up to the one that is to blame.

        Who finds that another runner moved the position looks again: each time that one got further.
        """
        while self.positions[projection.name] < batch[-1].position:
            try:
                self._write([projection], batch)
            except _Moved:
                self._look(projection)
            except Exception as fault:
                if is_outage(fault):
                    raise
                self._one_by_one(projection, batch)

    def _one_by_one(self, projection: Async, batch: Sequence[Recorded]) -> None:
        for recorded in batch:
            try:
                self._write([projection], [recorded])
            except _Moved:
                self._look(projection)
                return
            except Exception as fault:
                if is_outage(fault):
                    raise
                name, of = tag(recorded.event), f"{recorded.stream} version {recorded.version}"
                raise Poisoned(f"position {recorded.position}, {name} of {of}: {fault!r}") from fault

    def _write(self, projections: Sequence[Async], batch: Sequence[Recorded]) -> None:
        """Bring these forward by what they have not seen of the batch; raises _Moved if one stands elsewhere."""
        last = batch[-1].position
        stand = {of.name: self.positions[of.name] for of in projections if self.positions[of.name] < last}
        if not stand:
            return
        names = list(stand)
        with self._pool.connection() as connection:
            going = [of for of in projections if of.name in stand]
            writes = writes_of(connection, [of.apply(_beyond(batch, stand[of.name])) for of in going])
            held: list[Write] = [(_LOCKED, (names,)), (_UNMOVED, (names, list(stand.values())))]
            try:
                pipeline.run(connection, [*held, *writes, (_ADVANCE, (last, names))])
            except psycopg.Error as fault:
                if fault.sqlstate == REFUSED and fault.diag.message_primary == "MOVED":
                    raise _Moved from fault
                raise
        self.positions.update(dict.fromkeys(names, last))

    def _look(self, projection: Async) -> int:
        """Where it stands, by the database."""
        with self._pool.connection() as connection:
            row = connection.execute(_STANDS, (projection.name,), prepare=True).fetchone()
        self.positions[projection.name] = row[0] if row else 0
        return self.positions[projection.name]

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


def _beyond(batch: Sequence[Recorded], position: int) -> Sequence[Recorded]:
    return batch if batch[0].position > position else [one for one in batch if one.position > position]
