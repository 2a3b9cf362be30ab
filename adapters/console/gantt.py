"""Bookings as rows of a chart: where bars lie, what is free between them, how full a node is; instants in epoch ms."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

Span = tuple[int, int]
"""`[from, until)`."""

LEAST_WIDTH: Final = 0.25
"""Percent of the chart: what is shorter is drawn as wide as this, or nobody would see it."""


class Booking(Struct, frozen=True, kw_only=True, rename="camel"):
    """As `bookings.list` tells it. Without `until` it has no end yet, without a reservation it is maintenance."""

    device_id: str | None = None
    node_id: str
    node_name: str = ""
    pool_id: str
    reservation_id: str | None = None
    allocation_id: str
    tenant_id: str
    bound: bool
    from_: int
    until: int | None = None


class Window(Struct, frozen=True):
    """What the chart shows, `[from_, until)`."""

    from_: int
    until: int

    def x(self, at: int) -> float:
        """Percent from the left, within the chart."""
        return 100 * (min(max(at, self.from_), self.until) - self.from_) / (self.until - self.from_)

    def width(self, from_: int, until: int | None) -> float:
        right = 100.0 if until is None else self.x(until)
        return max(right - self.x(from_), LEAST_WIDTH)

    def cut(self, from_: int, until: int | None) -> Span:
        """As much of a time as the chart shows."""
        return max(from_, self.from_), self.until if until is None else min(until, self.until)


def gaps(taken: Iterable[Booking], window: Span, gap_ms: int = 0, least_ms: int = 1) -> list[Span]:
    """The times of the window in which nothing is booked, and no cleaning is due before or after it.

    Maintenance needs no cleaning. What is shorter than `least_ms` is none.
    """
    found: list[Span] = []
    free_from = window[0]
    for from_, until in sorted((_kept(one, gap_ms) for one in taken), key=lambda kept: kept[0]):
        end = min(from_, window[1])
        if end - free_from >= least_ms:
            found.append((free_from, end))
        if until is None:
            return found
        free_from = max(free_from, until)
        if free_from >= window[1]:
            return found
    if window[1] - free_from >= least_ms:
        found.append((free_from, window[1]))
    return found


def _kept(one: Booking, gap_ms: int) -> tuple[int, int | None]:
    """How long nobody else can have the device because of it."""
    gap = gap_ms if one.reservation_id is not None else 0
    return one.from_ - gap, None if one.until is None else one.until + gap


def cells(window: Window, step_ms: int) -> list[Span]:
    """Equal pieces of the window; the last may be shorter."""
    return [(at, min(at + step_ms, window.until)) for at in range(window.from_, window.until, step_ms)]


class Load(Struct, frozen=True):
    """Of a node's devices, how many are booked at some time of a cell; the others are free all through it."""

    cell: Span
    booked: int
    of: int


def load(devices: Iterable[str], booked: Mapping[str, Sequence[Booking]], pieces: Sequence[Span]) -> list[Load]:
    """`booked` are the bookings by device, `pieces` the cells in their order."""
    known = list(devices)
    counts = [0] * len(pieces)
    for device in known:
        touched: set[int] = set()
        for one in booked.get(device, ()):
            touched.update(
                index
                for index, (from_, until) in enumerate(pieces)
                if one.from_ < until and (one.until is None or one.until > from_)
            )
        for index in touched:
            counts[index] += 1
    return [Load(cell, count, len(known)) for cell, count in zip(pieces, counts, strict=True)]


def touching(taken: Iterable[Booking], within: Span) -> list[Booking]:
    """Those that book something at some time of it."""
    from_, until = within
    return [one for one in taken if one.from_ < until and (one.until is None or one.until > from_)]


def lanes(taken: Iterable[Booking]) -> list[list[Booking]]:
    """Bookings that may lie beside each other, as those of scalars do, in as few rows as hold them apart."""
    made: list[list[Booking]] = []
    for one in sorted(taken, key=lambda one: (one.from_, one.allocation_id)):
        for lane in made:
            end = lane[-1].until
            if end is not None and end <= one.from_:
                lane.append(one)
                break
        else:
            made.append([one])
    return made


def least(points: Iterable[tuple[int, int]], pieces: Sequence[Span]) -> list[int | None]:
    """Of what is free at the instants (instant, amount), the least within each cell; None where nothing is known."""
    known: list[int | None] = [None] * len(pieces)
    place = 0
    for at, free in sorted(points):
        while place < len(pieces) and pieces[place][1] <= at:
            place += 1
        if place == len(pieces):
            break
        if at >= pieces[place][0]:
            lowest = known[place]
            known[place] = free if lowest is None else min(lowest, free)
    return known
