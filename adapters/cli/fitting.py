"""Tables for a terminal that is narrower than they are: what gives way first, and what never does.

Headings are stacked, instants become ages, columns without content go, long texts and the ids of other things are
shortened, and at last columns go from the right. The first column and numbers are never cut: they are there to be
copied and compared. What does not go onto the screen is named.
"""

import re
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from adapters.cli import tables

LEAST: Final = 12
"""Of a text, and of the id of another thing: with less neither is told from its neighbours."""

ENOUGH: Final = 18
"""Of the id of another thing: down to this it gives way before texts do."""

WHO: Final = frozenset({"actor", "holder"})
"""Fields that hold an id with its kind before it."""

_PREFIX: Final = re.compile(r"(?:[A-Za-z]+[:_-])+")
_UNITS: Final = (("s", 1, 120), ("m", 60, 120 * 60), ("h", 3600, 48 * 3600), ("d", 86_400, 730 * 86_400))


class Fitted(NamedTuple):
    """A table, and the headings of the columns that had no room."""

    text: str
    left_out: tuple[str, ...]


class _Column(NamedTuple):
    name: str
    heading: tuple[str, ...]
    cells: list[str]
    right: bool
    kind: str  # "kept", "text" or "id": how it is shortened

    @property
    def natural(self) -> int:
        return max(map(tables.columns_of, (*self.heading, *self.cells)))

    @property
    def least(self) -> int:
        cells = max(map(tables.columns_of, self.cells), default=0)
        return max(*map(tables.columns_of, self.heading), cells if self.kind == "kept" else min(cells, LEAST))

    @property
    def is_empty(self) -> bool:
        return all(cell in ("-", "") for cell in self.cells)


def fit(rows: Sequence[object], columns: Sequence[str], width: int | None, now: float | None = None) -> Fitted:
    """Rows under headings in at most `width` characters; `now` (epoch s) is what ages count from."""
    named = tables.columns_shown(rows, columns)
    whole = tables.table(rows, named, None)
    if width is None or all(tables.columns_of(line) <= width for line in whole.split("\n")):
        return Fitted(whole, ())
    kept = [_column(rows, name, first=index == 0) for index, name in enumerate(named)]
    if _sum(kept) > width:
        now = time.time() if now is None else now
        kept = [_aged(column, rows, now) for column in kept]
    gone: list[_Column] = []
    while _sum(kept) > width and (empty := [column for column in kept[1:] if column.is_empty]):
        gone.append(empty[-1])
        kept.remove(empty[-1])
    while len(kept) > 1 and sum(column.least for column in kept) + _gaps(kept) > width:
        gone.append(kept.pop())
    left_out = [column.name for column in gone if not column.is_empty]
    return Fitted(_drawn(kept, width), tuple(tables.heading(name) for name in named if name in left_out))


def age(milliseconds: int, now: float) -> str:
    """An instant as seen from `now` (epoch s): `3m ago`, `in 2h`."""
    away = milliseconds / 1000 - now
    size = abs(away)
    if size < 1:
        return "now"
    unit, seconds = next(((unit, seconds) for unit, seconds, most in _UNITS if size < most), ("y", 31_556_952))
    counted = f"{int(size // seconds)}{unit}"
    return f"in {counted}" if away > 0 else f"{counted} ago"


def _column(rows: Sequence[object], name: str, *, first: bool) -> _Column:
    field = tables.last(name)
    cells = [tables.cell(field, tables.lookup(row, name)) for row in rows]
    right = tables.is_numeric(name, rows)
    is_id = tables.is_identifier(field) or field in WHO
    kind = "kept" if first or right or tables.is_instant(field) else "id" if is_id else "text"
    return _Column(name, _stacked(tables.heading(name)), cells, right, kind)


def _stacked(heading: str) -> tuple[str, ...]:
    """In one line or two, so that the longer of them is as short as can be."""
    words = heading.split(" ")
    splits = [(" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words))]
    return min(splits, key=lambda split: max(map(len, split)), default=(heading,))


def _aged(column: _Column, rows: Sequence[object], now: float) -> _Column:
    values = [tables.lookup(row, column.name) for row in rows]
    if tables.last(column.name) in tables.STANDING:
        return column._replace(cells=[_standing(value, now) for value in values])
    if not tables.is_instant(column.name):
        return column
    cells = [age(value, now) if type(value) is int else cell for value, cell in zip(values, column.cells, strict=True)]
    return column._replace(cells=cells)


def _standing(value: object, now: float) -> str:
    """`Cordoned 9m ago`, each of the words."""
    if not isinstance(value, dict) or not all(type(since) is int for since in value.values()):
        return tables.cell("", value)
    return ", ".join(f"{tables.printable(word)} {age(since, now)}" for word, since in value.items()) or "-"


def _gaps(columns: Sequence[_Column]) -> int:
    return len(tables.GAP) * (len(columns) - 1)


def _sum(columns: Sequence[_Column]) -> int:
    return sum(column.natural for column in columns) + _gaps(columns)


def _drawn(columns: Sequence[_Column], width: int) -> str:
    widths = [column.natural for column in columns]
    while sum(widths) + _gaps(columns) > width:
        loose = [index for index, column in enumerate(columns) if widths[index] > column.least]
        loose = [index for index in loose if columns[index].kind == "id" and widths[index] > ENOUGH] or loose
        if not loose:
            break
        widths[max(loose, key=lambda index: widths[index])] -= 1
    deep = max(len(column.heading) for column in columns)
    stacks = [("",) * (deep - len(column.heading)) + column.heading for column in columns]
    grid = [[stack[depth] for stack in stacks] for depth in range(deep)]
    grid += [
        [_shortened(column.cells[row], widths[index], column.kind) for index, column in enumerate(columns)]
        for row in range(len(columns[0].cells))
    ]
    rights = [column.right for column in columns]
    return "\n".join(tables.line(cells, widths, rights) for cells in grid)


def _shortened(text: str, width: int, kind: str) -> str:
    """Of an id its kind and its end, which tell it from others of about the same time."""
    if kind != "id" or tables.columns_of(text) <= width:
        return text
    prefix = found[0] if (found := _PREFIX.match(text)) else ""
    return f"{prefix}…{text[len(prefix) + 1 - width :]}" if width > len(prefix) + 1 else text
