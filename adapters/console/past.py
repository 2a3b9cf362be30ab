"""The past that a page shows: told above it, and carried to whatever page it leads to."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from . import render, table

_PLACEHOLDER: Final = re.compile(r"\\\{\w+\\\}")


def told(as_of: str | None) -> dict[str, Any] | None:
    if as_of is None:
        return None
    at = None if as_of.startswith("@") else int(as_of)
    return {"value": as_of, "at": at, "iso": "" if at is None else render.iso(at)}


def carried(as_of: str | None) -> Callable[[str], str]:
    """An address within the console as it stood then; what has no past, or names one of its own, stays as it is."""

    def to(address: str) -> str:
        parts = urlsplit(address)
        if as_of is None or "asOf" in parse_qs(parts.query) or not _has_past(parts.path):
            return address
        query = f"{parts.query}&" if parts.query else ""
        return parts._replace(query=f"{query}asOf={quote(as_of, safe='')}").geturl()

    return to


def _has_past(path: str) -> bool:
    return next((past for pattern, past in _pasts() if pattern.fullmatch(path)), False)


@cache
def _pasts() -> tuple[tuple[re.Pattern[str], bool], ...]:
    """Addresses that are written out come before those with placeholders, which would hold them too."""
    known = [(page.path, page.past) for page in table.PAGES] + [(file.path, True) for file in table.FILES]
    known.sort(key=lambda one: "{" in one[0])
    return tuple((re.compile(_PLACEHOLDER.sub("[^/]+", re.escape(path))), past) for path, past in known)
