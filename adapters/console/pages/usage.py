"""Usage: GPU-hours over time by tenant, project, pool or model, as a chart, a table and a CSV file."""

import csv
import io
from typing import Any, Final

from adapters.console import render, seen
from adapters.console.ask import Ask
from adapters.console.page import File, Page

DAY_MS: Final = 86_400_000
SPANS: Final = {"day": (DAY_MS, 1800), "week": (7 * DAY_MS, 6 * 3600), "month": (30 * DAY_MS, 86_400)}
"""Of each choice its length in ms, and the step of its chart in seconds."""

BY: Final = (("tenant", "Tenant"), ("project", "Project"), ("pool", "Pool"), ("gpuModel", "GPU model"))
_ALL: Final = "tenant,project,pool,gpuModel"
_COLUMNS: Final = (
    "tenantId",
    "projectId",
    "poolId",
    "gpuModel",
    "resource",
    "deviceHours",
    "gpuHours",
    "from",
    "until",
)
_INSTANTS: Final = frozenset(("from", "until"))


def build(ask: Ask) -> dict[str, Any]:
    span = ask.query.get("span", "week")
    length, step = SPANS.get(span, SPANS["week"])
    by = ask.query.get("by", "gpuModel")
    scope = ask.widest("usage.list")
    until = ask.now
    begin = max(0, until - length)
    shown = ask("usage.timeline", **{"from": begin}, until=until, step=step, by=by, scope=scope)
    rows = ask("usage.list", **{"from": begin}, until=until, scope=scope, groupBy=_ALL.split(","), limit=1000)
    names = _names(ask, by)
    series = [(names.get(id := one.get("name", "none"), id), one["gpuHours"]) for one in shown["series"]]
    if shown["othersGpuHours"]:
        series.append(("all others", shown["othersGpuHours"]))
    return {
        "span": span,
        "spans": tuple(SPANS),
        "by": by,
        "choices": BY,
        "chart": {"from": shown["from"], "step": shown["step"], "series": series},
        "totals": [(name, sum(hours)) for name, hours in series],
        "rows": rows["items"],
        "more": "nextCursor" in rows,
        "pools": seen.names(ask, "pools"),
        "projects": seen.names(ask, "projects"),
        "begin": shown["from"],
        "until": shown["until"],
    }


def _names(ask: Ask, by: str) -> dict[str, str]:
    noun = {"pool": "pools", "project": "projects"}.get(by)
    return {} if noun is None else seen.names(ask, noun)


def export(ask: Ask) -> bytes:
    """Every row, however many pages they are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    asked: dict[str, Any] = {"scope": ask.widest("usage.list"), "groupBy": _ALL.split(","), "limit": 1000}
    asked |= {name: ask.query.get(name) for name in ("from", "until")}
    while True:
        page = ask("usage.list", **asked)
        writer.writerows([_cell(column, row.get(column)) for column in _COLUMNS] for row in page["items"])
        if "nextCursor" not in page:
            return text.getvalue().encode()
        asked["cursor"] = page["nextCursor"]


def _cell(column: str, value: Any) -> Any:
    """An instant as spreadsheets know one, in UTC; a text that they would run as a formula is kept a text."""
    if column in _INSTANTS and value is not None:
        return f"{render.iso(value)}Z"
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return "" if value is None else value


PAGES: Final = (
    Page(
        path="/usage",
        name="console.usage",
        template="usage.html",
        build=build,
        title="Usage",
        nav="Usage",
        needs="usage.list",
        live=("rsv", "inst"),
    ),
)
FILES: Final[tuple[File, ...]] = (
    File(
        path="/usage.csv",
        name="console.usage.csv",
        media_type="text/csv; charset=utf-8",
        build=export,
        filename="usage.csv",
    ),
)
