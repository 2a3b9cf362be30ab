"""Which spot reservations give way to a claim: as few as it takes, the least worthy first (domain.md §5, Spot).

Pure: the calendar is left as it was found. Whole reservations give way, with all of their gang.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from domain import calendar, claim, placement, selector

AT_MOST: Final = 1024
"""So many spot reservations are considered, the least worthy of those in the claim's time."""


class Preemption(Struct, frozen=True):
    """Where the claim lands over `window` once these reservations end at `ends_at` (epoch ms), or never begin."""

    placed: placement.Placement
    window: tuple[int, int]
    ends_at: int
    victims: tuple[str, ...]


def find(
    pool: calendar.Calendar,
    wanted: claim.Claim,
    window: tuple[int, int],
    seed: str,
    selectors: selector.Selectors,
) -> Preemption | None:
    """Preempt for a claim over `[start, until)`, or None where that does not help.

    The smallest number of victims is taken that lets it fit: lowest priority first, then the youngest. Then they are
    put back one by one, the worthiest first, as long as it still fits: none is left that is not needed. That a claim
    which fits with some gone fits with more gone as well lets both be found by bisection. The victims end a cleaning
    gap before the claim begins.
    """
    ends_at = window[0] - pool.gap_ms
    field = _Field(pool, ends_at, lambda: placement.place(pool, wanted, window, seed, selectors))
    order = candidates(pool, wanted, window)
    try:
        enough = _enough(field, order)
        if enough is None:
            return None
        needed = _spare(field, order[:enough])
        field.without(needed)
        placed = field.place()
        if isinstance(placed, placement.Refusal) or not needed:
            return None
        return Preemption(placed, window, ends_at, tuple(needed))
    finally:
        field.without(())


def candidates(pool: calendar.Calendar, wanted: claim.Claim, window: tuple[int, int]) -> list[str]:
    """The spot reservations that stand in the way, the least worthy first.

    Those on nodes that would be too small with all of their spot gone are left out: none of them would ever be needed.
    """
    start, until = window[0] - pool.gap_ms, window[1] + pool.gap_ms
    held: dict[str, int] = defaultdict(int)
    spots: list[tuple[tuple[int, int, str], set[str]]] = []
    for keys in pool.spots.values():
        nodes = set()
        for booking in (pool.bookings[key] for key in keys):
            if start < booking.until and booking.start < until and booking.node_id in pool.entries:
                nodes.add(booking.node_id)
                held[booking.node_id] |= pool.entries[booking.node_id].mask(booking.atoms)
        if nodes and (whose := booking.spot) is not None:
            spots.append(((whose.priority, -whose.since, whose.reservation_id), nodes))
    useful = {id for id, mask in held.items() if _large_enough(pool, pool.entries[id], mask, wanted, window)}
    return [place[-1] for place, nodes in sorted(spots) if nodes & useful][:AT_MOST]


def _large_enough(
    pool: calendar.Calendar, entry: calendar.Entry, held: int, wanted: claim.Claim, window: tuple[int, int]
) -> bool:
    counts: Counter[str] = Counter()
    for line in wanted.devices:
        counts[line.class_] += line.count
    most = (pool.free(entry, *window) | held) if entry.node.schedulable else 0
    return all((most & entry.classes.get(class_, 0)).bit_count() >= count for class_, count in counts.items())


def _enough(field: "_Field", order: list[str]) -> int | None:
    """How many of the first of these it takes; None where all do not suffice. Few are tried before many."""
    high = 1
    while not field.holds_without(order[:high]):
        if high >= len(order):
            return None
        high *= 2
    return _least(high // 2 + 1, min(high, len(order)), lambda count: field.holds_without(order[:count]))


def _least(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """The smallest number from `low` to `high` that is enough, if `high` is."""
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _spare(field: "_Field", taken: list[str]) -> list[str]:
    """Put back from the end of the list whoever is not needed: as one by one, with fewer looks."""
    rest, kept = taken, list[str]()
    while rest:
        first_needed = _least(1, len(rest) + 1, partial(_too_many, field, rest, kept))
        if first_needed > len(rest):
            return kept
        kept = [rest[-first_needed], *kept]
        rest = rest[:-first_needed]
    return kept


def _too_many(field: "_Field", rest: list[str], kept: list[str], back: int) -> bool:
    """Whether it no longer fits once so many of the rest are back."""
    return back > len(rest) or not field.holds_without([*rest[: len(rest) - back], *kept])


class _Field:
    """A calendar from which reservations can be taken, and put back."""

    def __init__(
        self,
        pool: calendar.Calendar,
        ends_at: int,
        place: Callable[[], placement.Placement | placement.Refusal],
    ) -> None:
        self._pool = pool
        self._ends_at = ends_at
        self._gone: dict[str, list[calendar.Booking]] = {}
        self.place = place

    def fits(self) -> bool:
        return isinstance(self.place(), placement.Placement)

    def holds_without(self, reservations: Sequence[str]) -> bool:
        self.without(reservations)
        return self.fits()

    def without(self, reservations: Sequence[str]) -> None:
        """Exactly these are gone from the end on; every other is there."""
        wanted = set(reservations)
        for reservation_id in [id for id in self._gone if id not in wanted]:
            for booking in self._gone.pop(reservation_id):
                self._pool.unbook(booking.key)
                self._pool.restore(booking)
        for reservation_id in [id for id in reservations if id not in self._gone]:
            bookings = [self._pool.bookings[key] for key in list(self._pool.spots[reservation_id])]
            self._gone[reservation_id] = bookings
            for booking in bookings:
                self._pool.unbook(booking.key)
                self._pool.restore(replace(booking, until=min(booking.until, self._ends_at)))
