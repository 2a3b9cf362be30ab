"""Templates to HTML; what every page's templates can say."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from adapters import legible

from . import forms
from .exact import AttributesAsTheyAre, Exact, exact

PAGES: Final = {
    "node": "/nodes/",
    "rsv": "/reservations/",
    "inst": "/instances/",
    "pool": "/pools/",
    "prj": "/projects/",
    "poff": "/offerings/",
    "flv": "/flavors/",
    "img": "/images/",
}
"""The page of a thing, by its id's prefix; what has none has its story in the audit."""


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("adapters.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=readable,
        extensions=[AttributesAsTheyAre],
    )
    made.filters.update({filter.__name__: filter for filter in FILTERS})
    made.filters |= {"exact": exact, "lines": forms.lines}
    made.filters["spelt"] = lambda name: (name, words(name))
    made.filters["same"] = lambda name: (name, name)
    return made


def html(template: str, shown: Mapping[str, Any]) -> bytes:
    return environment().get_template(template).render(shown).encode()


KEPT: Final = "\t\n\r\u00a0\u2007\u202f\u3000"
"""Blanks and line ends, which on a page are blanks."""


def readable(value: Any) -> Any:
    """What a page shows as text; markup is made of such already, and what is exact goes as it is."""
    if not isinstance(value, str) or isinstance(value, Markup | Exact):
        return value
    return legible.legible(value, KEPT)


def instant(ms: int | None) -> Markup:
    """A point in time, in UTC to the second; the script adds how long ago it is, and the reader's own clock."""
    if ms is None:
        return Markup('<span class="none">–</span>')
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M:%S}</time>').format(at.isoformat(timespec="milliseconds"), at)


def iso(ms: int) -> str:
    """As an input of type datetime-local takes it."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}"


def span(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return "–"
    left, parts = round(seconds), []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2]) or "0 s"


def amount(value: float | None) -> str:
    """A number as people read it: 8,388,608; 12.5."""
    if value is None:
        return "–"
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def short(id: str) -> str:
    """As much of an id as tells it from others on one page."""
    return id if len(id) <= 18 else f"{id[:9]}…{id[-6:]}"


def thing(id: str | None, name: str | None = None) -> Markup:
    """A link to a thing's page, by its name where it has one."""
    if not id:
        return Markup('<span class="none">–</span>')
    base = PAGES.get(id.partition("_")[0], "/audit/streams/")
    said = Markup("<code>{}</code>").format(short(id)) if name is None else escape(readable(name))
    return Markup('<a href="{}{}" title="{}">{}</a>').format(base, id, id, said)


def words(name: str) -> str:
    """`notConnected` and `NotConnected` as people say it: not connected."""
    made = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return made.strip().replace("_", " ")


def attribute(value: Any) -> str:
    """JSON for a data attribute; the template escapes it."""
    return json.dumps(value, separators=(",", ":"))


def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


FILTERS: Final = (instant, span, amount, thing, short, words, iso, attribute, pretty)
