"""Numbers for people: medians, percentiles, and the lines of the table."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

WIDTH: Final = 72


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values do not pass; nan of none."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: Sequence[float], digits: int = 0, unit: str = "") -> str:
    """Median and the range it was found in: `312 (298-320)`."""
    if not values:
        return "none"
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f}{unit} ({low:.{digits}f}-{high:.{digits}f})"


def ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """Round by round, so that what slows a round slows both sides of it."""
    return spread([a / b for a, b in zip(above, below, strict=True) if b], 2)


def table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [title, "-" * len(title), *(f"{name:<{WIDTH}} {value}" for name, value in rows)]
    return "\n".join(lines) + "\n"


def shares(cpu: Mapping[str, float], seconds: float, items: int) -> str:
    """Who used the processors: `serve 0.92 cores, 5.1 ms each; ...`, each meaning each of the items."""
    each = 1000 / items if items else float("nan")
    return "; ".join(f"{name} {used / seconds:.2f} cores, {used * each:.2f} ms each" for name, used in cpu.items())
