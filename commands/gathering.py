"""Several decisions, one append: what an earlier one brought is there when a later one looks."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec.structs import replace

from commands.ports import Loaded
from domain import registry
from domain.event import Change, Event, Meta


class Loads(Protocol):
    """Where a decision finds a stream."""

    def load(self, stream: str, until: int | None = None) -> Loaded:
        """The state after the stream's last event, or after version `until`."""


class Gathered:
    """Changes on their way into one append; `load` shows a stream as it will be."""

    def __init__(self, store: Loads, known: Mapping[str, Loaded] = MappingProxyType({})) -> None:
        """`known` are streams that were loaded together beforehand."""
        self._store = store
        self._seen: dict[str, Loaded] = dict(known)
        self._events: dict[str, list[Event]] = {}
        self._metas: dict[str, Meta | None] = {}

    def load(self, stream: str, until: int | None = None) -> Loaded:
        if until is not None:
            return self._store.load(stream, until)
        if stream not in self._seen:
            self._seen[stream] = self._store.load(stream)
        return self._seen[stream]

    def add(self, changes: Iterable[Change]) -> None:
        """Take what was decided on streams as `load` showed them."""
        for change in changes:
            before = self.load(change.stream)
            assert change.expected == before.version, f"{change.stream} was decided on as it was before"
            self._metas.setdefault(change.stream, change.meta)
            self._events.setdefault(change.stream, []).extend(change.events)
            state = registry.fold(change.stream, change.events, before.state)
            self._seen[change.stream] = replace(before, state=state, version=before.version + len(change.events))

    def changes(self, first: str = "") -> tuple[Change, ...]:
        """One change a stream, in the order in which they came, `first` before all others.

        Where several brought a stream's change about, it is told of the one that began it.
        """
        return tuple(
            Change(stream, self._seen[stream].version - len(events), tuple(events), self._metas[stream])
            for stream, events in sorted(self._events.items(), key=lambda item: item[0] != first)
        )
