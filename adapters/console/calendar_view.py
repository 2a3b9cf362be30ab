"""Which time a calendar shows: a day, a week or a month of UTC, and how it is divided."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final

from msgspec import Struct

from domain import errors

from .gantt import Span, Window

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
PAST_MS: Final = 2 * HOUR_MS
"""Of the day that is shown where no date is named: from a little before now, however late it is."""

YEARS: Final = range(1971, 9000)


class Scale(Struct, frozen=True):
    """`cell_ms` is a cell of the strip and of a node's row, `sample_s` how densely capacity is asked for.

    `snap_ms` is what a span that is dragged begins and ends on.
    """

    cell_ms: int
    sample_s: int
    snap_ms: int
    begin: Callable[[date], date]
    step: Callable[[date, int], date]


class Tick(Struct, frozen=True):
    x: float
    width: float
    label: str
    strong: bool


class View(Struct, frozen=True):
    """`day` is the first of the days shown; `earlier` and `later` are those before and after, None at the end."""

    name: str
    scale: Scale
    day: date
    window: Window
    cells: tuple[Span, ...]
    ticks: tuple[Tick, ...]
    earlier: date | None
    later: date | None
    title: str


def _month(day: date, by: int) -> date:
    months = day.year * 12 + day.month - 1 + by
    return date(months // 12, months % 12 + 1, 1)


SCALES: Final[Mapping[str, Scale]] = {
    "day": Scale(HOUR_MS, 300, 5 * 60_000, lambda day: day, lambda day, by: day + timedelta(days=by)),
    "week": Scale(
        6 * HOUR_MS,
        1800,
        30 * 60_000,
        lambda day: day,
        lambda day, by: day + timedelta(days=7 * by),
    ),
    "month": Scale(DAY_MS, 7200, 2 * HOUR_MS, lambda day: day.replace(day=1), _month),
}


def chosen(query: Mapping[str, str], now: int) -> View:
    """Of an address's `view` and `date`; today's day where it names none. Raises Invalid."""
    name = query.get("view") or "day"
    if name not in SCALES:
        raise errors.Invalid("view", f"expected one of {', '.join(SCALES)}")
    scale = SCALES[name]
    text = query.get("date") or ""
    first = scale.begin(_date(text, now))
    following = scale.step(first, 1)
    window = Window(_ms(first), _ms(following))
    if name == "day" and not text:
        begin = now // HOUR_MS * HOUR_MS - PAST_MS
        window = Window(begin, begin + DAY_MS)
    cells = tuple((at, min(at + scale.cell_ms, window.until)) for at in range(*_ends(window), scale.cell_ms))
    return View(
        name=name,
        scale=scale,
        day=first,
        window=window,
        cells=cells,
        ticks=tuple(_ticks(name, window, cells)),
        earlier=_kept(scale.step(first, -1)),
        later=_kept(following),
        title=_title(name, window),
    )


def _date(text: str, now: int) -> date:
    try:
        found = datetime.strptime(text, "%Y-%m-%d").date() if text else datetime.fromtimestamp(now / 1000, UTC).date()
    except ValueError:
        found = None
    if found is None or found.year not in YEARS:
        raise errors.Invalid("date", f"expected a day such as 2027-01-31, of the years {YEARS[0]} to {YEARS[-1]}")
    return found


def _kept(day: date) -> date | None:
    return day if day.year in YEARS else None


def _ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _ends(window: Window) -> Span:
    return window.from_, window.until


def _ticks(name: str, window: Window, cells: tuple[Span, ...]) -> list[Tick]:
    """A line for each cell; a label where there is room for one."""
    made: list[Tick] = []
    for index, (from_, until) in enumerate(cells):
        at = datetime.fromtimestamp(from_ / 1000, UTC)
        label, strong = "", False
        if name == "day":
            strong = at.hour == 0 and index > 0
            label = f"{at:%a %d}" if strong else f"{at:%H:%M}" if at.hour % 2 == 0 else ""
        elif name == "week":
            strong = at.hour == 0
            label = f"{at:%a %d}" if strong else ""
        else:
            strong = at.weekday() == 0
            label = str(at.day)
        made.append(Tick(window.x(from_), window.width(from_, until), label, strong))
    return made


def _title(name: str, window: Window) -> str:
    first, last = (datetime.fromtimestamp(at / 1000, UTC) for at in (window.from_, window.until - 1))
    if name == "month":
        return f"{first:%B %Y}"
    begins = f"{first:%A}, {first.day} {first:%B %Y}"
    return begins if first.date() == last.date() else f"{begins} to {last:%A}, {last.day} {last:%B %Y}"
