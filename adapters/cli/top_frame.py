"""The picture that `better-compute top` shows: from what is known, a width and a height come lines."""

from typing import Any, Final, NamedTuple

from adapters.cli import drawn, spans, tables, top_capacity, top_lists, top_state
from adapters.cli.drawn import Line, Marks, Span
from adapters.cli.top_state import State

STALE_MS: Final = 15_000
"""A server that says nothing for so long has not answered."""

PLAIN_WIDTH: Final = 100
"""Of the bars where nothing says how wide the page is."""

PLAIN_EVENTS: Final = 20
LEAST_WIDTH: Final = 20
LEAST_DETAIL: Final = 20
"""Fewer letters of a detail tell nothing."""

TITLES: Final = {"capacity": "CAPACITY", "reservations": "QUEUE", "nodes": "NODES", "instances": "INSTANCES"}


class View(NamedTuple):
    """How it is looked at: columns and lines (None: as many as it takes), the server's time in epoch ms.

    `pool` is the id of the one that is chosen, `paused` since when the picture stands still.
    """

    width: int | None = None
    height: int | None = None
    now: int = 0
    pool: str | None = None
    sort: str = "age"
    paused: int | None = None
    marks: Marks = drawn.UNICODE


class Section(NamedTuple):
    """A title, lines under it, and how many of these come for each of another section where room is short.

    The first of the lines may be a `heading` of the others. There are `more` than were drawn; of an `endless` list
    nobody misses the rest.
    """

    title: Line
    rows: list[Line]
    share: int = 1
    heading: bool = False
    more: int = 0
    endless: bool = False


def frame(state: State, view: View) -> list[Line]:
    """The whole picture: never more lines than there is height, none wider than the width."""
    head, foot = _head(state, view), _foot(state, view)
    found = _sections(state, view)
    if view.height is None:
        body = [each for one in found for each in (one.title, *one.rows, drawn.line(""))]
    else:
        body = _fitted(found, view.height - len(head) - len(foot), view.marks)
        body += [drawn.line("")] * (view.height - len(head) - len(foot) - len(body))
    lines = [drawn.clip(each, view.width, view.marks) for each in (*head, *body, *foot)]
    return lines if view.height is None else lines[: view.height]


def stale(state: State, now: int) -> bool:
    return bool(state.trouble) or (state.answered_at is not None and now - state.answered_at > STALE_MS)


def _head(state: State, view: View) -> list[Line]:
    whose = "the whole fleet" if state.scope == "fleet" else "one tenant"
    silent = view.paused is None and stale(state, view.now)
    at = spans.second(view.now if view.paused is None else view.paused)
    how = "" if view.height is None or silent else "  live" if state.following else "  polling"
    if view.paused is not None:
        how = "  PAUSED"
    lines = [drawn.line(Span("better-compute top", "title"), f"  {tables.printable(state.server)}  {whose}  {at}{how}")]
    if silent:
        since = "yet" if state.answered_at is None else f"since {spans.second(state.answered_at)}"
        why = f": {state.trouble}" if state.trouble else ""
        lines.append(drawn.line(Span(f"no answer {since}{why}", "alarm")))
    if state.refused:
        kept = ", ".join("queue" if name == "reservations" else name for name in state.refused)
        lines.append(drawn.line(Span(f"left out, as you may not see it: {kept}", "faint")))
    return lines


def _foot(state: State, view: View) -> list[Line]:
    if view.height is None:
        return []
    pool = "all" if view.pool is None else tables.printable(top_state.pools(state).get(view.pool, view.pool))
    pausing = "p go on" if view.paused is not None else "p pause"
    keys = f"q quit  {pausing}  tab pool: {pool}  s queue by: {view.sort}"
    return [drawn.line(Span(keys, "faint"))]


def _sections(state: State, view: View) -> list[Section]:
    known = [name for name in TITLES if name in state.parts and name not in state.refused]
    if state.scope == "tenant" and "nodes" in known and not state.rows("nodes"):
        known.remove("nodes")  # most tenants have none
    found = [_section(name, state, view) for name in known]
    if "events" not in state.refused and (state.events or state.following):
        told = top_lists.events(state, view.height or PLAIN_EVENTS)
        found.append(
            Section(_title("EVENTS", "" if told else "none yet"), [drawn.line(each) for each in told], endless=True)
        )
    return found


def _section(name: str, state: State, view: View) -> Section:
    beyond = "" if state.parts[name].whole else " (there are more than were read)"
    if name == "capacity":
        return _capacity(state, view)
    if name == "reservations":
        said = top_lists.queue_said(state, view.pool)
        shown = top_lists.queue(state, view.pool, view.sort, view.now, view.height)
    elif name == "nodes":
        said = top_lists.nodes_said(state, view.pool)
        shown = top_lists.nodes(state, view.pool, view.now, view.height)
    else:
        said = top_lists.instances_said(state, view.pool)
        shown = top_lists.instances(state, view.pool, view.now, view.height)
    title = _title(TITLES[name], said + beyond)
    return Section(title, _table(shown.rows, view), heading=True, more=shown.total - len(shown.rows))


def _capacity(state: State, view: View) -> Section:
    rows = top_capacity.ordered(top_state.of_pool(state.rows("capacity"), view.pool))
    if not rows:
        return Section(_title("CAPACITY", "no pool that you own or that is offered to you"), [])
    width = max(LEAST_WIDTH, view.width or PLAIN_WIDTH)
    pool = top_capacity.pool_width(rows)
    bars = [top_capacity.bar(row, width, pool, view.marks) for row in rows]
    return Section(top_capacity.heading(width, pool, view.marks), bars, share=2)


def _table(rows: list[dict[str, Any]], view: View) -> list[Line]:
    """The house's table without columns in which nothing stands, nor those for which there is no room."""
    if not rows:
        return []
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    width = None if view.width is None else view.width - 2
    if width is not None:
        columns = _with_room(rows, columns, width)
    heading, *lines = tables.table(rows, columns, width).split("\n")
    return [drawn.line(Span(f"  {heading}", "faint")), *(drawn.line(f"  {each}") for each in lines)]


def _with_room(rows: list[dict[str, Any]], columns: list[str], width: int) -> list[str]:
    """Ids are whole or not there; of details, which take what is left, a few words or nothing."""
    without = [name for name in columns if name != "detail"]
    if _wide(rows, without) > width:
        without.remove("id")
    left = width - _wide(rows, without)
    return [*without, "detail"] if "detail" in columns and left >= LEAST_DETAIL else without


def _wide(rows: list[dict[str, Any]], columns: list[str]) -> int:
    return max(map(tables.columns_of, tables.table(rows, columns, None).split("\n")))


def _title(name: str, said: str) -> Line:
    return drawn.line(Span(name, "title"), f"  {said}" if said else "")


def _fitted(sections: list[Section], room: int, marks: Marks) -> list[Line]:
    """Every title, then lines in turn, as long as there is room; what is cut says how much."""
    left = max(0, room - len(sections))
    shown = [0] * len(sections)
    while left and any(many < len(one.rows) for many, one in zip(shown, sections, strict=True)):
        for n, one in enumerate(sections):
            more = min(one.share, left, len(one.rows) - shown[n])
            shown[n] += more
            left -= more
    lines: list[Line] = []
    for many, one in zip(shown, sections, strict=True):
        lines += [one.title, *_cut(one, many, marks)]
        if left:
            lines.append(drawn.line(""))
            left -= 1
    return lines[: max(0, room)]


def _cut(one: Section, room: int, marks: Marks) -> list[Line]:
    """As many lines as there is room for, of which the last says how many are missing."""
    if one.endless or not room or (room == len(one.rows) and not one.more):
        return one.rows[:room]
    kept = 0 if one.heading and room <= 2 else room - 1
    missing = one.more + len(one.rows) - kept - int(one.heading and not kept)
    return [*one.rows[:kept], drawn.line(Span(f"  {marks.cut} {missing} more", "faint"))]
