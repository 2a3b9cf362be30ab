"""Lines of a screen: text with styles, cut to a width, painted for a terminal or left plain."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from adapters.cli import tables

Style = Literal["", "title", "faint", "alarm", "allocated", "reserved", "available", "unschedulable"]

_PAINT: Final[dict[Style, str]] = {
    "title": "1",
    "faint": "2",
    "alarm": "1;31",
    "allocated": "34",
    "reserved": "36",
    "available": "32",
    "unschedulable": "31",
}
"""SGR of each style: the sixteen colours that the reader's own theme sets, for light and dark."""


class Span(NamedTuple):
    text: str
    style: Style = ""


Line = tuple[Span, ...]


class Marks(NamedTuple):
    """The letters that bars and cuts are drawn with."""

    allocated: str
    reserved: str
    available: str
    unschedulable: str
    beyond: str
    cut: str


UNICODE: Final = Marks("█", "▒", "·", "╳", " ", "…")
ASCII: Final = Marks("#", "+", ".", "x", " ", "~")


def line(*parts: str | Span) -> Line:
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def text(spans: Line) -> str:
    return "".join(span.text for span in spans)


def clip(spans: Line, width: int | None, marks: Marks) -> Line:
    """The line in so many columns; where something is cut off, the last one says so."""
    if width is None or tables.columns_of(text(spans)) <= width:
        return spans
    kept: list[Span] = []
    left = max(0, width - 1)
    for span in spans:
        fits = tables.beginning(span.text, left)
        kept.append(Span(fits, span.style))
        left -= tables.columns_of(fits)
        if fits != span.text:
            break
    return (*kept, Span(marks.cut if width > 0 else ""))


def paint(spans: Line, *, colours: bool) -> str:
    """For a terminal with colours, styled; for another the text alone."""
    if not colours:
        return text(spans)
    return "".join(f"\x1b[{_PAINT[style]}m{piece}\x1b[0m" if style and piece else piece for piece, style in spans)


def cells(amounts: Sequence[int], width: int, whole: int) -> list[int]:
    """How many of `width` cells each amount takes of `whole`: in proportion, and what there is at least one."""
    whole = max(whole, sum(amounts), 1)
    exact = [amount * width / whole for amount in amounts]
    found = [max(int(share), 1 if amount else 0) for share, amount in zip(exact, amounts, strict=True)]
    room = round(sum(exact)) - sum(found)
    by_rest = sorted(range(len(amounts)), key=lambda n: exact[n] - int(exact[n]), reverse=True)
    for n in by_rest:
        if room > 0 and amounts[n] and exact[n] > found[n]:
            found[n] += 1
            room -= 1
    while sum(found) > width and max(found) > 1:
        found[found.index(max(found))] -= 1
    return found
