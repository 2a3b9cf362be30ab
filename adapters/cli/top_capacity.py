"""The bars of `better-compute top`: what each pool has of each resource, and how much of it is taken."""

from typing import Final

from adapters.cli import drawn, tables
from adapters.cli.drawn import Line, Marks, Span
from adapters.cli.top_state import Row

DEVICES: Final = ("gpu", "gpu.mig", "gpu.slot", "node")
"""What pools are there for; these come first."""

NUMBERS: Final = ("allocated", "reserved", "available", "unschedulable")
_SHORT: Final = ("alloc", "resvd", "avail", "unsch")
_HEADINGS: Final = (*(name.upper() for name in _SHORT), "OF")
_NUMBER: Final = 6
_LEAST_BAR: Final = 8
_WIDEST_POOL: Final = 16


def heading(row_width: int, pool_width: int, marks: Marks) -> Line:
    """The columns' names; over the bars what their letters mean."""
    width = bar_width(row_width, pool_width)
    drawn_as = [getattr(marks, name) for name in NUMBERS]
    legend = " ".join(f"{mark} {name}" for mark, name in zip(drawn_as, NUMBERS, strict=True))
    if len(legend) > width:
        legend = " ".join(f"{mark}{name}" for mark, name in zip(drawn_as, _SHORT, strict=True))
    if len(legend) > width:
        legend = ""
    numbers = "".join(f"{name:>{_NUMBER}}" for name in _HEADINGS)
    return drawn.line(Span(f"{'POOL':<{pool_width}} {'RESOURCE':<10} {legend:<{width}}{numbers}", "faint"))


def pool_width(rows: list[Row]) -> int:
    widest = max((tables.columns_of(tables.printable(row["poolName"])) for row in rows), default=4)
    return min(max(widest, 4), _WIDEST_POOL)


def bar_width(width: int, pool: int) -> int:
    return max(_LEAST_BAR, width - pool - 12 - len(_HEADINGS) * _NUMBER)


def bar(row: Row, width: int, pool: int, marks: Marks) -> Line:
    """One resource: its bar is of all there is, or of what the quotas grant a tenant, who is told no more."""
    amounts = [row.get(name) or 0 for name in NUMBERS]
    whole = row.get("total", row.get("limit"))
    room = bar_width(width, pool)
    taken = drawn.cells(amounts, room, whole or 0)
    spans = [Span(getattr(marks, name) * many, name) for name, many in zip(NUMBERS, taken, strict=True)]  # type: ignore[arg-type]
    shown = [*amounts[:3], row.get("unschedulable"), whole]
    numbers = "".join(f"{_number(row['resource'], amount):>{_NUMBER}}" for amount in shown)
    name = _fitted(tables.printable(row["poolName"]), pool, marks)
    resource = "memory GiB" if row["resource"] == "memoryMiB" else row["resource"]
    rest = marks.beyond * (room - sum(taken))
    return drawn.line(f"{name} {resource:<10} ", *spans, f"{rest}{numbers}")


def ordered(rows: list[Row]) -> list[Row]:
    """The devices of every pool before what else they have: on a small screen those are what is seen."""
    return sorted(rows, key=lambda row: row["resource"] not in DEVICES)


def _number(resource: str, amount: int | None) -> str:
    if amount is None:
        return "-"
    amount = amount // 1024 if resource == "memoryMiB" else amount
    if amount < 100_000:
        return str(amount)
    return f"{amount // 1_000}k" if amount < 10_000_000 else f"{amount // 1_000_000}M"


def _fitted(name: str, width: int, marks: Marks) -> str:
    shown = drawn.text(drawn.clip(drawn.line(name), width, marks))
    return shown + " " * (width - tables.columns_of(shown))
