"""The shape that most read models share: one row a stream, its folded state and its view (architecture.md §3)."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, LiteralString

import msgspec
from psycopg import Cursor

from domain import registry
from domain.event import Recorded


class Model(msgspec.Struct, frozen=True):
    """A read model of one kind of stream.

    `load` selects id, version and state for an array of ids, `save` upserts what `row` gives.
    """

    prefix: str
    state: type
    load: LiteralString
    save: LiteralString
    row: Callable[[str, Any, int], tuple[Any, ...]]

    @property
    def shape(self) -> str:
        """The folded state's JSON schema: rows of another shape would decode with defaults in silence."""
        return msgspec.json.encode(msgspec.json.schema(self.state), order="sorted").decode()

    def apply(self, cursor: Cursor[Any], batch: Sequence[Recorded]) -> None:
        """Bring the rows of a batch's streams forward; events that a row has seen already change nothing."""
        streams: dict[str, list[Recorded]] = defaultdict(list)
        for recorded in batch:
            if recorded.stream.startswith(self.prefix):
                streams[recorded.stream].append(recorded)
        if streams:
            cursor.executemany(self.save, self._rows(cursor, streams))

    def _rows(self, cursor: Cursor[Any], streams: dict[str, list[Recorded]]) -> list[tuple[Any, ...]]:
        known: dict[str, tuple[int, Any]] = {
            id: (version, msgspec.json.decode(state, type=self.state))
            for id, version, state in cursor.execute(self.load, (list(streams),), prepare=True).fetchall()
        }
        rows = []
        for id, events in streams.items():
            version, state = known.get(id, (0, registry.kind(id).initial))
            fresh = [recorded.event for recorded in events if recorded.version > version]
            if fresh:
                after = registry.fold(id, fresh, state)
                rows.append((*self.row(id, after, events[-1].version), encode(after)))
        return rows


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
