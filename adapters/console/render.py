"""Templates to HTML; what every page's templates can say."""

import json
import re
from collections.abc import Callable, Collection, Container, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape
from msgspec import Struct

from adapters import instant_names, legible

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
    "site": "/sites/",
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
    made.tests["instant"] = instant_names.holds
    made.filters |= {"exact": exact, "lines": forms.lines}
    made.filters["spelt"] = lambda name: (name, words(name))
    made.filters["same"] = lambda name: (name, name)
    return made


class Ways(Struct, frozen=True):
    """Which things may be linked to, each to its page or else to its story, and of which the story may be told."""

    things: Container[str] = frozenset()
    stories: Container[str] = frozenset()


Find = Callable[[Collection[str], Collection[str]], Ways]
"""Of the things and of the stories that a page would link to."""


class _Link(Struct, frozen=True):
    id: str
    made: Markup
    otherwise: Markup
    story: bool = False


_PLACE: Final = re.compile("<!--link ([0-9]+)-->")
_LINKS: Final[ContextVar[list[_Link]]] = ContextVar("links")
_TO: Final[ContextVar[Callable[[str], str]]] = ContextVar("to", default=str)


def html(template: str, shown: Mapping[str, Any], find: Find = lambda things, stories: Ways()) -> bytes:
    """The page. `to` among what is shown makes of an address the one that a link of this page leads to."""
    made = environment().get_template(template)
    return linked(lambda: made.render(shown), find, shown.get("to", str)).encode()


def linked(make: Callable[[], str], find: Find, to: Callable[[str], str] = str) -> str:
    """What is made, with the links in it asked for at once when all of it is known; the rest of them stays text."""
    links: list[_Link] = []
    kept, led = _LINKS.set(links), _TO.set(to)
    try:
        text = make()
    finally:
        _LINKS.reset(kept)
        _TO.reset(led)
    if not links:
        return text
    ways = find({one.id for one in links if not one.story}, {one.id for one in links if one.story})

    def placed(match: re.Match[str]) -> str:
        link = links[int(match[1])]
        return link.made if link.id in (ways.stories if link.story else ways.things) else link.otherwise

    return _PLACE.sub(placed, text)


def _placed(link: _Link) -> Markup:
    """Text from elsewhere is escaped, so that it never looks like this."""
    links = _LINKS.get()
    links.append(link)
    return Markup("<!--link {}-->").format(len(links) - 1)


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


@pass_context
def to(context: Context, address: str) -> str:
    """Where a link leads: of a page that shows the past, to what it leads to as that stood then.

    It takes the context so that a template is not compiled with what it said once.
    """
    return _led(address)


def _led(address: str) -> str:
    return _TO.get()(address)


def thing(id: str | None, name: str | None = None) -> Markup:
    """A link to a thing's page, by its name where it has one; text where it would lead whoever looks nowhere."""
    if not id:
        return Markup('<span class="none">–</span>')
    said = Markup("<code>{}</code>").format(short(id)) if name is None else escape(readable(name))
    base = PAGES.get(id.partition("_")[0], "/audit/streams/")
    href = _led(f"{base}{quote(id, safe='')}")
    made = Markup('<a href="{}" title="{}">{}</a>').format(href, id, said)
    return _placed(_Link(id, made, Markup('<span title="{}">{}</span>').format(id, said)))


def story(id: str, said: str, as_of: str | None = None, button: bool = False, otherwise: str = "") -> Markup:
    """A link to what happened to a thing, for those who may read it."""
    href = _led(f"/audit/streams/{quote(id, safe='')}" + (f"?asOf={quote(as_of, safe='')}" if as_of else ""))
    kind = Markup(' class="button"') if button else Markup("")
    return _placed(_Link(id, Markup('<a{} href="{}">{}</a>').format(kind, href, said), escape(otherwise), story=True))


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


FILTERS: Final = (instant, span, amount, to, thing, story, short, words, iso, attribute, pretty)
