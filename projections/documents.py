"""The shape that most read models share: one row a stream, with its folded state (architecture.md §3).

What is shown of a thing is made of the state by whoever shows it: a view is cheap to make and as long as the state, and
each write would write both.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from domain import registry
from domain.event import Recorded
from projections import history
from projections.projection import Async, Steps, Write

OF_EVERY = ("id text", "since bigint", "version bigint", "state bytea")
KEEPING = "WITH (fillfactor = 80, toast_tuple_target = 8160)"
"""Room for the next state of a row on its own page, and no compressing of what fits there anyway."""

KEPT = ("to_version bigint", "kept_version bigint", "kept bytea")
"""The event that ended a version, and in some the state that began with it, to fold on from: null in the others."""

_SHORT = 16
"""Events that are folded from the beginning in no time."""

_ONE_IN = 4


class Documents:
    """A read model of one kind of stream, in the table `name`.

    `facets` are what lists filter by, of which versions are kept; `columns` are everything else that is asked or
    ordered by. Both are columns with their types, and come from `facets_of` and `columns_of`. `since` is the position
    from which the row's facets have been as they are. `kept` leaves out of the state what neither fold nor view needs.
    """

    def __init__(
        self,
        name: str,
        prefix: str,
        state: type,
        *,
        facets: tuple[str, ...],
        columns: tuple[str, ...],
        facets_of: Callable[[Any], tuple[Any, ...]],
        columns_of: Callable[[Any], tuple[Any, ...]],
        kept: Callable[[Any], Any] = lambda state: state,
    ) -> None:
        self._name = name
        self._prefix = prefix
        self._facets = facets
        self._facets_of, self._columns_of, self._kept = facets_of, columns_of, kept
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(state)
        self._typed = (*OF_EVERY, *facets, *columns)
        changes = ", ".join(f"{column.split()[0]} = given.{history.taken(column)}" for column in self._typed[1:])
        self._change = f"""
        UPDATE {name} SET {changes} FROM {history.given(self._typed)} WHERE {name}.id = given.id
        """
        self._load = f"SELECT id, version, since, state FROM {name} WHERE id = ANY(%s)"
        # rows of a state of another shape would decode with defaults in silence
        self._shape = msgspec.json.encode(msgspec.json.schema(state), order="sorted").decode()

    def projection(self, tables: str, of_history: str = "") -> Async:
        """`of_history` are further indexes on the versions."""
        made = tables + history.tables_of(self._name, (*self._facets, *KEPT)) + of_history
        made += f"CREATE INDEX {self._name}_history_kept ON {self._name}_history (id, from_position)"
        made += " WHERE kept_version IS NOT NULL;\n"
        return Async(self._name, made, self.apply, self._shape)

    def apply(self, batch: Sequence[Recorded]) -> Steps:
        """Bring the rows of a batch's streams forward; events that a row has seen already change nothing."""
        streams: dict[str, list[Recorded]] = defaultdict(list)
        for recorded in batch:
            if recorded.stream.startswith(self._prefix):
                streams[recorded.stream].append(recorded)
        if not streams:
            return ()
        found = yield self._load, (list(streams),)
        known = {id: (version, since, state) for id, version, since, state in found}
        new: list[tuple[Any, ...]] = []
        changed: list[tuple[Any, ...]] = []
        opened, ended = [], []
        for id, events in streams.items():
            row = _Row(id, self._facets_of, self._kept, self._decoder, known.get(id))
            for recorded in events:
                row.take(recorded)
            kept, columns = encode(self._kept(row.state)), self._columns_of(row.state)
            (changed if id in known else new).append((id, row.since, row.version, kept, *row.facets, *columns))
            opened += row.opened
            ended += row.ended
        writes: list[Write] = []
        if new:
            writes.append(history.insert(self._name, self._typed, new))
        if changed:
            writes.append((self._change, history.columns(changed, len(self._typed))))
        if ended:
            writes.append(_close(self._name, ended))
        if opened:
            writes.append(history.rows(self._name, (*self._facets, *KEPT), opened))
        return writes


class _Row:
    """One stream's row while a batch passes over it."""

    def __init__(
        self,
        id: str,
        facets_of: Callable[[Any], tuple[Any, ...]],
        kept: Callable[[Any], Any],
        decoder: msgspec.json.Decoder[Any],
        known: tuple[int, int, bytes] | None,
    ) -> None:
        self.id = id
        self._facets_of, self._kept = facets_of, kept
        self._evolve = registry.kind(id).evolve
        self.version, self.since = (known[0], known[1]) if known else (0, 0)
        self.state = decoder.decode(known[2]) if known else registry.kind(id).initial
        self.facets: tuple[Any, ...] = facets_of(self.state) if known else ()
        self.opened: list[tuple[Any, ...]] = []
        self.ended: list[tuple[str, int, int, int]] = []

    def take(self, recorded: Recorded) -> None:
        if recorded.version <= self.version:
            return
        self.state, self.version = self._evolve(self.state, recorded.event), recorded.version
        facets = self._facets_of(self.state)
        if facets == self.facets:
            return
        if self.opened:
            id, since, _, *rest = self.opened[-1]
            rest[len(facets)] = recorded.version
            self.opened[-1] = (id, since, recorded.position, *rest)
        elif self.since:
            self.ended.append((self.id, self.since, recorded.position, recorded.version))
        state = (self.version, encode(self._kept(self.state))) if carries(self.id, self.version) else (None, None)
        self.opened.append((self.id, recorded.position, None, *facets, None, *state))
        self.facets, self.since = facets, recorded.position


def _close(name: str, ends: Iterable[tuple[str, int, int, int]]) -> Write:
    """End open versions, each as (id, from, to, the event's version)."""
    sql = f"""
    UPDATE {name}{history.SUFFIX} AS open SET to_position = ended.until, to_version = ended.event
    FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) AS ended (id, since, until, event)
    WHERE open.id = ended.id AND open.from_position = ended.since
    """
    return sql, history.columns(ends, 4)


def carries(id: str, version: int) -> bool:
    """Whether the version that begins with this event carries its state: some, in no step with what a stream does."""
    return version > _SHORT and zlib.crc32(f"{id} {version}".encode()) % _ONE_IN == 0


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
