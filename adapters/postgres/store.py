"""The event store behind the commands' port: load a stream, append, read the inline rows."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

import psycopg
import psycopg_pool
from eventsourcing.persistence import PersistenceError

from adapters.postgres import carried, envelope, pipeline, snapshots
from adapters.postgres.catalog import CatalogReader
from adapters.postgres.mapper import EventMapper, decode
from adapters.postgres.pool import Pool
from adapters.postgres.recorder import Recorder, of_all
from adapters.postgres.refusals import translate
from commands.ports import Ahead, Loaded, Outlook, Race
from domain import registry
from domain.event import Append, Change, Recorded
from projections.projection import Inline, plan
from projections.seen import unmoved

_REMEMBERED = 20_000
_NOW: Final = ("SELECT database_ms()", ())
_NEVER_SENT = (psycopg_pool.PoolTimeout, psycopg_pool.TooManyRequests, psycopg_pool.PoolClosed)


class EventStore(CatalogReader):
    """Appends through our mapper and recorder of the library; states are remembered and brought forward on load."""

    def __init__(self, pool: Pool, inline: Sequence[Inline], root_tenant: str, new_id: Callable[[str], str]) -> None:
        super().__init__(pool, root_tenant)
        self._recorder = Recorder(pool)
        self._mapper = EventMapper()
        self._inline = tuple(inline)
        self._new_id = new_id
        self._known: OrderedDict[str, Loaded] = OrderedDict()
        self._guard = Lock()

    def now(self) -> int:
        with self._pool.connection() as connection:
            ((row,),) = pipeline.ask(connection, [_NOW])
        return int(row[0])

    def look(self, ahead: Ahead) -> Outlook:
        """One round trip, and one before it if a long stream is asked for that is not remembered."""
        before = self._remembered(ahead.streams)
        beside = self._questions(ahead)
        with self._pool.connection() as connection:
            rows, *answers, ((now,),) = pipeline.ask(connection, [of_all(_versions(before)), *beside, _NOW])
        replay, resources, offers = self._found(ahead, answers)
        return Outlook(now, replay, self._brought_forward(before, rows), resources, offers)

    def load(self, stream: str, until: int | None = None) -> Loaded:
        if until == 0:
            return Loaded(registry.kind(stream).initial, 0)
        with self._guard:
            known = self._known.get(stream)
        if known is not None and until is not None:
            if known.version == until:
                return known
            known = known if known.version < until else None
        if known is None:
            known = snapshots.latest(self._pool, stream, snapshots.LAST if until is None else until)
        before = known or Loaded(registry.kind(stream).initial, 0)
        loaded = _folded(stream, before, self._recorder.select_rows(stream, before.version, until))
        if until is None:
            self._loaded(stream, before, loaded)
        return loaded

    def load_all(self, streams: Sequence[str]) -> list[Loaded]:
        """One query, and one before it for those that are not remembered, however many streams."""
        before = self._remembered(streams)
        with self._pool.connection() as connection:
            (rows,) = pipeline.ask(connection, [of_all(_versions(before))])
        after = self._brought_forward(before, rows)
        return [after[stream] for stream in streams]

    def _remembered(self, streams: Sequence[str]) -> dict[str, Loaded]:
        """States to go on from, of each stream the newest at hand."""
        wanted = dict.fromkeys(streams)
        with self._guard:
            known = {stream: self._known[stream] for stream in wanted if stream in self._known}
        known |= snapshots.latest_of_all(self._pool, [stream for stream in wanted if stream not in known])
        return {stream: known.get(stream) or Loaded(registry.kind(stream).initial, 0) for stream in wanted}

    def _brought_forward(self, before: dict[str, Loaded], rows: Sequence[tuple[Any, ...]]) -> dict[str, Loaded]:
        """The states after the rows of these streams."""
        since: dict[str, list[tuple[Any, ...]]] = {stream: [] for stream in before}
        for row in rows:
            since[row[0]].append(row)
        after = {stream: _folded(stream, one, since[stream]) for stream, one in before.items()}
        for stream, loaded in after.items():
            self._loaded(stream, before[stream], loaded)
        return after

    def _loaded(self, stream: str, before: Loaded, loaded: Loaded) -> None:
        """Remember a state, and keep it for other processes where many events led to it."""
        if not loaded.version:
            return
        self._remember(stream, loaded)
        self._keep(stream, before, loaded)

    def _keep(self, stream: str, before: Loaded, loaded: Loaded) -> None:
        """A snapshot where many events had to be folded: who asks next need not."""
        if loaded.version - before.version >= registry.kind(stream).snapshot_every > 0:
            snapshots.take(self._pool, stream, loaded)

    def load_as_of(self, stream: str, position: int) -> Loaded:
        """The state after everything up to this position of the log; version 0 when there was nothing of it."""
        before = snapshots.latest(self._pool, stream, position=position)
        before = before or Loaded(registry.kind(stream).initial, 0)
        loaded = _folded(stream, before, self._recorder.select_rows(stream, before.version, upto=position))
        self._keep(stream, before, loaded)
        return loaded

    def load_all_as_of(
        self, streams: Sequence[str], position: int, table: str = "", until: Sequence[int] = ()
    ) -> list[Loaded]:
        """As `load_as_of`, for several; with a read model's `table`, all of one kind, going on from its versions.

        One query then; two for those that are to be folded from their snapshot, or from the beginning. `until` are
        versions that they did not have yet, 0 where that is not known.
        """
        known = self._carried(streams, position, table, until) if table and streams else {}
        before = {one: Loaded(registry.kind(one).initial, 0) for one in streams if one not in known}
        before |= snapshots.latest_of_all(self._pool, list(before), position)
        since: dict[str, list[tuple[Any, ...]]] = {stream: [] for stream in before}
        for row in self._recorder.select_all(_versions(before), position):
            since[row[0]].append(row)
        known |= {stream: _folded(stream, one, since[stream]) for stream, one in before.items()}
        return [known[stream] for stream in streams]

    def _carried(self, streams: Sequence[str], position: int, table: str, until: Sequence[int]) -> dict[str, Loaded]:
        """Those of these streams, all of one kind, that are folded soon from what their row versions carry.

        Missing are those of which a snapshot may be nearer, and of which an event has an old shape.
        """
        most = registry.kind(streams[0]).snapshot_every or snapshots.LAST
        asked = (list(streams), [version or snapshots.LAST for version in until], position, most, position)
        with self._pool.connection() as connection:
            (rows,) = pipeline.ask(connection, [(carried.question(table), asked)])
        return {row[0]: loaded for row in rows if row[3] < most and (loaded := carried.folded(*row)) is not None}

    def _remember(self, stream: str, loaded: Loaded) -> None:
        with self._guard:
            former = self._known.get(stream)
            if former is None or former.version <= loaded.version:
                self._known[stream] = loaded
                self._known.move_to_end(stream)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def log(self, after: int, upto: int, limit: int) -> list[Recorded]:
        """Events in `(after, upto]` by position; `upto` must have been passed by the follower, who skips none."""
        return [decode(*row) for row in self._recorder.select_log(after, upto, limit)]

    def history(self, stream: str) -> list[Recorded]:
        return [decode(*row) for row in self._recorder.select_rows(stream, 0)]

    def versions(self, stream: str, after: int, until: int) -> list[Recorded]:
        """Events of a stream, oldest first: those of the versions in `(after, until]`."""
        return [decode(*row) for row in self._recorder.select_rows(stream, after, until)]

    def at(self, positions: Sequence[int]) -> list[tuple[Recorded, str]]:
        """The events at these positions, in that order, each with the hex SHA-256 of its stored bytes."""
        return [(decode(*row), hashlib.sha256(row[3]).hexdigest()) for row in self._recorder.select_at(positions)]

    def append(self, append: Append) -> int:
        """One transaction, one round trip; a commit whose answer was lost is recognised by its event ids.

        Raises Race, Unavailable or what the database refused by name (refusals.py).
        """
        try:
            after = [self._after(change) for change in append.changes]
        except psycopg.Error as unread:
            translate(unread)
        recorded = envelope.seal(append, after, self._new_id)
        statements = plan(self._inline, recorded, unmoved(append.seen))
        stored = [self._mapper.to_stored_event(one) for one in recorded]
        try:
            positions = self._recorder.insert_events(stored, statements=statements, fence=append.fence)
        except PersistenceError as wrapped:
            fault = wrapped.__cause__
            assert isinstance(fault, psycopg.Error)
            position = self._committed_after_all(recorded, fault)
            return position if position is not None else translate(fault)
        at = -1
        for change, state in zip(append.changes, after, strict=True):
            at += len(change.events)
            loaded = _loaded(state, recorded[at], positions[at])
            self._remember(change.stream, loaded)
            if snapshots.due(change.stream, change.expected, loaded.version):
                snapshots.take(self._pool, change.stream, loaded)
        return positions[-1]

    def _after(self, change: Change) -> Any:
        """The state that the change makes: it says whose events they are, and the answer needs no second read."""
        before = self.load(change.stream, change.expected)
        if before.version != change.expected:
            raise Race(f"{change.stream} is at version {before.version}")
        return registry.fold(change.stream, change.events, before.state)

    def _committed_after_all(self, recorded: Sequence[Recorded], fault: psycopg.Error) -> int | None:
        """The position of our own events if the commit went through before the connection broke."""
        if not isinstance(fault, psycopg.OperationalError) or isinstance(fault, _NEVER_SENT):
            return None
        if fault.sqlstate is not None and not fault.sqlstate.startswith(("08", "57P")):
            return None
        last = recorded[-1]
        try:
            rows: list[tuple[Any, ...]] = self._recorder.select_rows(last.stream, last.version - 1, last.version)
        except psycopg.Error:
            return None
        found = [decode(*row) for row in rows]
        return found[0].position if found and found[0].event_id == last.event_id else None


def _versions(of: dict[str, Loaded]) -> dict[str, int]:
    return {stream: one.version for stream, one in of.items()}


def _folded(stream: str, before: Loaded, rows: Sequence[tuple[Any, ...]]) -> Loaded:
    if not rows:
        return before
    recorded = [decode(*row) for row in rows]
    return _loaded(registry.fold_recorded(stream, recorded, before.state), recorded[-1], recorded[-1].position)


def _loaded(state: Any, last: Recorded, position: int) -> Loaded:
    return Loaded(state, last.version, position, last.event_id, last.meta.correlation)
