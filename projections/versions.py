"""Versions of rows that a fold makes from the log alone, for those that the append keeps no past of (decisions/0026).

What is current of a thing is its open version: no other table holds it, and a batch reads those it may change.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, LiteralString, TypeVar

from projections import history
from projections.projection import Write

T = TypeVar("T")

CURRENT: Final[LiteralString] = """
(h.from_position <= %(_as_of)s AND (h.to_position IS NULL OR h.to_position > %(_as_of)s))
"""
"""What of a history `h` was so at the position `_as_of`."""


class Versions(Generic[T]):
    """What a batch knows of things by id, and which of their versions it opens and ends; None is: not there."""

    def __init__(self) -> None:
        self._current: dict[str, T] = {}
        self._since: dict[str, int] = {}
        self._opened: dict[tuple[str, int], list[Any]] = {}
        self._ended: list[tuple[str, int, int]] = []

    def know(self, id: str, since: int, value: T) -> None:
        """An open version as the table has it."""
        if id not in self._since:
            self._current[id], self._since[id] = value, since

    def __contains__(self, id: str) -> bool:
        return id in self._since

    def get(self, id: str) -> T | None:
        return self._current.get(id)

    def items(self) -> Iterable[tuple[str, T]]:
        return self._current.items()

    def put(self, id: str, value: T | None, position: int) -> None:
        """The thing is so from this position on."""
        before = self._current.get(id)
        if value == before:
            return
        if before is not None:
            self._end(id, position)
        if value is None:
            del self._current[id]
            return
        self._current[id], self._since[id] = value, position
        self._opened[id, position] = [id, position, None, value]

    def _end(self, id: str, position: int) -> None:
        since = self._since[id]
        opened = self._opened.get((id, since))
        if opened is None:
            self._ended.append((id, since, position))
        elif since == position:
            del self._opened[id, since]
        else:
            opened[2] = position

    def writes(self, name: str, facets: Sequence[str], columns: Callable[[T], Sequence[Any]]) -> list[Write]:
        """`columns` gives what a version holds of a value, in the order of the facets."""
        writes: list[Write] = []
        if self._ended:
            writes.append(history.close(name, self._ended))
        if self._opened:
            rows = [(*row[:3], *columns(row[3])) for row in self._opened.values()]
            writes.append(history.rows(name, facets, rows))
        return writes


def known(name: LiteralString, facets: Sequence[LiteralString], whose: LiteralString) -> LiteralString:
    """The open versions of things, as (id, from, *facets); jsonb as text, which msgspec reads faster than psycopg."""
    columns = ", ".join(_column(*facet.split()) for facet in facets)
    return f"SELECT id, from_position, {columns} FROM {name}{history.SUFFIX} AS h WHERE to_position IS NULL AND {whose}"


def _column(name: LiteralString, type: LiteralString) -> LiteralString:
    return f"{name}::text" if type == "jsonb" else name
