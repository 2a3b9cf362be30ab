"""Which line of an access file a mistake is in: tomllib keeps no positions, so headers and keys are read once more."""

import re
from collections.abc import Iterator

_NAME = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_NAMES = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_NAMES})\s*\]")
_ASSIGNED = re.compile(rf"\s*({_NAMES})\s*=")


def line_of(text: str, path: str) -> int | None:
    """The line, from 1, that says most of a path as `roles.hpc.statements[1].effect`; None where none says any.

    Where nothing leads to it, as to a section that is wrong as a whole, it is the first line below it.
    """
    places = list(_places(text))
    leading = [(len(place), -number) for number, place in places if _leads(place, path)]
    if leading:
        return -max(leading)[1]
    return next((number for number, place in places if _leads(path, place)), None)


def _leads(place: str, path: str) -> bool:
    return path.startswith(place) and path[len(place) : len(place) + 1] in ("", ".", "[")


def _places(text: str) -> Iterator[tuple[int, str]]:
    """Every line with a header or a key, and the path of it; rows of `[[...]]` have their index."""
    rows: dict[str, int] = {}
    at = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            at = _indexed(_names(header[2]), rows, repeated=header[1] == "[[")
            yield number, at
        elif key := _ASSIGNED.match(line):
            yield number, ".".join([*filter(None, [at]), *_names(key[1])])


def _indexed(names: list[str], rows: dict[str, int], *, repeated: bool) -> str:
    at = ""
    for position, name in enumerate(names, 1):
        at = f"{at}.{name}" if at else name
        if repeated and position == len(names):
            rows[at] = rows.get(at, -1) + 1
        if at in rows:
            at = f"{at}[{rows[at]}]"
    return at


def _names(dotted: str) -> list[str]:
    return [name.strip("\"'") for name in re.findall(_NAME, dotted)]
