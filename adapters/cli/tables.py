"""What a person sees: tables and key/value lines, in which nothing a server sends steers the terminal."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from adapters import instant_names
from adapters.legible import legible

GAP: Final = "  "
LEAST: Final = 8
"""A column is not made narrower than this many characters: less cannot be read."""

STANDING: Final = frozenset({"reasons", "conditions"})
"""Fields that say since when each of some words holds."""

_USE: Final = {"resource", "used", "limit"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


printable: Final = legible


def counted(number: int, noun: str) -> str:
    """A number of things in words: `1 fault`, `2,000 faults`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def instant(milliseconds: int) -> str:
    """Epoch ms as ISO 8601 UTC; a number that is no instant of a calendar stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def is_instant(name: str) -> bool:
    return instant_names.holds(last(name))


def cell(name: str, value: object) -> str:
    """One value in one line; instants as such (api.md §2)."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and is_instant(name):
        return instant(value)
    if isinstance(value, float):
        return f"{value:.1g}" if 0 < abs(value) < 0.001 else f"{round(value, 3):.15g}"
    if isinstance(value, dict) and last(name) in STANDING:
        return ", ".join(f"{printable(word)} since {cell('since', since)}" for word, since in value.items()) or "-"
    if isinstance(value, dict) and value and not any(isinstance(below, dict | list) for below in value.values()):
        return _pairs(value)
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return ", ".join(cell(name, item) for item in value) or "-"
    if isinstance(value, list) and all(isinstance(item, dict) and item.keys() >= _USE for item in value):
        return ", ".join(map(_used, value))
    if isinstance(value, dict | list):
        return printable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return printable(str(value))


def _used(of: Mapping[str, object]) -> str:
    """`gpu 256 of 400`; without a limit `gpu 256`."""
    limit = "" if of["limit"] is None else f" of {cell('', of['limit'])}"
    return f"{cell('', of['resource'])} {cell('', of['used'])}{limit}"


def _pairs(value: Mapping[str, object]) -> str:
    """A flat object as one types it: `gpu=64, vcpu=4096`; a number of one class of device as `gpu=1`."""
    if {"class", "count"} <= value.keys() and not any(value[key] for key in value.keys() - {"class", "count"}):
        value = {str(value["class"]): value["count"]}
    return ", ".join(f"{printable(key)}={cell(key, below)}" for key, below in value.items())


def lookup(row: object, column: str) -> object:
    """The value at the dotted path of a column, None where any step is missing; `pool_id` finds `poolId`.

    Of a list it is that of each.
    """
    for step in path(column).split("."):
        if isinstance(row, list):
            row = [found for below in row if (found := lookup(below, step)) is not None] or None
        elif isinstance(row, dict):
            row = row.get(step, row.get(_camel(step)))
        else:
            return None
    return row


def _has(row: object, column: str) -> bool:
    step = path(column).partition(".")[0]
    return not isinstance(row, dict) or step in row or _camel(step) in row


def path(column: str) -> str:
    """Where the values of a column are: it is declared as a path, or as `heading=path`."""
    return column.rpartition("=")[2]


def last(column: str) -> str:
    """The field that a column shows; its name tells whether it is an instant or an id."""
    return path(column).rpartition(".")[2]


def table(rows: Sequence[object], columns: Sequence[str], width: int | None) -> str:
    """Rows under headings, at most `width` characters wide (None: as wide as they are).

    Columns are shortened, the widest first; identifiers are not, for they are there to be copied.
    """
    names = columns_shown(rows, columns)
    grid = [[cell(last(name), lookup(row, name)) for name in names] for row in rows]
    headings = [heading(name) for name in names]
    widths = [max(map(columns_of, cells)) for cells in zip(headings, *grid, strict=True)]
    if width is not None:
        _narrow(widths, [is_identifier(name) for name in names], width)
    numbers = [is_numeric(name, rows) for name in names]
    return "\n".join(line(cells, widths, numbers) for cells in (headings, *grid))


def record(body: Mapping[str, object]) -> str:
    """One object as `key  value` lines; nested ones by path: `allocations[0].nodeId`."""
    lines = list(_flat("", body))
    width = max((columns_of(key) for key, _ in lines), default=0)
    return "\n".join(f"{_padded(key, width)}{GAP}{value}" for key, value in lines)


def problem(document: Mapping[str, Any], status: int) -> str:
    """RFC 9457 problem details as `code: detail`, then its fields, other members and the request's id."""
    code = document.get("code") or f"HTTP_{status}"
    detail = document.get("detail") or document.get("title") or "the server gave no reason"
    lines = [f"{printable(str(code))}: {printable(str(detail))}"]
    errors = document.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            field, message = error.get("field"), error.get("message")
            if detail not in (message, f"{field}: {message}"):
                lines.append(f"  {cell('', field)}: {cell('', message)}")
    shown = {"type", "title", "status", "detail", "code", "instance", "errors", "requestId"}
    extra = {key: value for key, value in document.items() if key not in shown}
    lines += [f"  {key} = {value}" for key, value in _flat("", extra) if key]
    if document.get("requestId"):
        lines.append(f"request id: {cell('', document['requestId'])}")
    return "\n".join(lines)


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: East Asian wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(letter) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def heading(column: str) -> str:
    """`poolId` in two words; a unit stays whole, as in `memoryGiB`."""
    spaced = re.sub(r"(?<!^)(?=[A-Z](?!$))", " ", column.partition("=")[0])
    return printable(spaced.replace("_", " ").upper())


def columns_shown(rows: Sequence[object], named: Sequence[str]) -> tuple[str, ...]:
    """Those that any row has: what a server does not tell a caller is no column of his.

    An operation that names none shows the scalar fields, in the order the server sends them.
    """
    if named:
        return tuple(name for name in named if not rows or any(_has(row, name) for row in rows))
    seen: dict[str, None] = {}
    for row in rows:
        if isinstance(row, dict):
            seen.update({key: None for key, value in row.items() if not isinstance(value, dict | list)})
    return tuple(seen) or ("value",)


def is_identifier(column: str) -> bool:
    return column.lower().endswith("id")


def is_numeric(column: str, rows: Sequence[object]) -> bool:
    """Whether it holds numbers, or nothing in some rows."""
    kinds = {type(lookup(row, column)) for row in rows} - {type(None)}
    return bool(kinds) and kinds <= {int, float} and not is_instant(column)


def _narrow(widths: list[int], fixed: Sequence[bool], width: int) -> None:
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while excess > 0:
        loose = [index for index, kept in enumerate(fixed) if not kept and widths[index] > LEAST]
        if not loose:
            return
        widths[max(loose, key=lambda index: widths[index])] -= 1
        excess -= 1


def line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    parts = (
        _padded(cut(text, width), width, right=number)
        for text, width, number in zip(cells, widths, numbers, strict=True)
    )
    return GAP.join(parts).rstrip()


def _padded(text: str, width: int, *, right: bool = False) -> str:
    fill = " " * (width - columns_of(text))
    return fill + text if right else text + fill


def cut(text: str, width: int) -> str:
    return text if columns_of(text) <= width else beginning(text, width - 1) + "…"


def beginning(text: str, width: int) -> str:
    """As much of it as has room, marks on its last letter too."""
    if text.isascii():
        return text[: max(0, width)]
    for at, letter in enumerate(text):
        width -= columns_of(letter)
        if width < 0:
            return text[:at]
    return text


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, below in value.items():
            yield from _flat(f"{path}.{printable(key)}" if path else printable(key), below)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from _flat(f"{path}[{index}]", item)
    else:
        yield path, cell(path.rpartition(".")[2], value)
