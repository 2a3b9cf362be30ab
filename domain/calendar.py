"""What is free and busy in one pool, in memory: bit masks per node and time segment (architecture.md §4).

A follower of the log feeds it one event at a time; fed from zero it becomes the same again. It guides
placement and promises nothing: the database's exclusion has the last word (domain.md §5).

Instants are integer epoch milliseconds, intervals half-open, `until=None` is open. An outlook knows how many devices
of a class every node has free at any instant: a search meets the tightest nodes first without looking at the others,
and rivals start at different places of a ring.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain, islice

from msgspec import Struct
from msgspec.structs import replace

from domain import outlook
from domain.timeline import ALWAYS, ANY, FOREVER, Atom, Entry, Node, ring_position

__all__ = ["ALWAYS", "ANY", "FOREVER", "Atom", "Booking", "Calendar", "Entry", "Node", "Spot"]

LATE_MS = 3_600_000  # an ended booking stays known so long: only after its end comes "not given back yet"
PATIENCE = 8
"""So many nodes a search offers before it asks which ones stay free all through the window."""
NOTHING: Mapping[str, int] = {}


class Spot(Struct, frozen=True, gc=False):
    """Whose a booking is that may be preempted: the reservation, its priority, since when (epoch ms) it is claimed."""

    reservation_id: str
    priority: int
    since: int


class Booking(Struct, frozen=True, gc=False):
    """Atoms and scalars of one node held over `[start, until)`; `key` is the allocation's id, or a mark's.

    `ended` says when it ended (epoch ms), of one that only holds on until it is torn down.
    """

    key: str
    node_id: str
    atoms: tuple[str, ...]
    scalars: Mapping[str, int]
    start: int
    until: int
    ended: int | None = None
    spot: Spot | None = None


class Calendar:
    """Nodes and bookings of one pool; `gap_ms` is the pool's cleaning gap between bookings (domain.md §2)."""

    def __init__(self, pool_id: str, gap_ms: int = 0) -> None:
        self.pool_id = pool_id
        self.gap_ms = gap_ms
        self.entries: dict[str, Entry] = {}
        self.bookings: dict[str, Booking] = {}
        self.ended: dict[str, None] = {}
        """Keys of bookings that ended and are not torn down."""
        self.spots: dict[str, dict[str, None]] = {}
        """Keys of the bookings of each reservation that may be preempted."""
        self.schedulable = 0
        self._clock = ALWAYS
        self._strays: dict[str, set[str]] = {}
        self._ends: list[tuple[int, str]] = []
        self._homes: dict[str, str] = {}
        self._marks: list[tuple[int, str]] = []
        self._marks_made = 0
        self._read = 0
        self._outlook: outlook.Outlook | None = None

    def put_node(self, node: Node) -> None:
        """Add a node or replace what is known of it; its bookings are found again by atom id."""
        before, entry = self.entries.get(node.id), Entry(node)
        held = self._strays.pop(node.id, ()) if before is None else before.held
        for key in held:
            self._occupy(entry, self.bookings[key])
        entry.timeline.trim(self._clock)
        if before is not None:
            entry.place = before.place
            self._forget_homes(before)
        self._homes |= dict.fromkeys(entry.bits, node.id)
        anew = before is None or not before.offers_as(entry)
        if before is not None and anew:
            self._withdraw(before)
        self.entries[node.id] = entry
        if before is None and self._outlook is not None:
            self._outlook.enter(entry)
        if anew:
            self._offer(entry)

    def remove_node(self, node_id: str) -> None:
        """The node offers nothing any more; its bookings stay known until their own events end them."""
        if (entry := self.entries.get(node_id)) is None:
            return
        self._withdraw(entry)
        if self._outlook is not None:
            self._outlook.leave(entry)
        del self.entries[node_id]
        self._forget_homes(entry)
        if entry.held:
            self._strays[node_id] = set(entry.held)

    def _offer(self, entry: Entry) -> None:
        if entry.node.schedulable:
            self.schedulable += 1
            if self._outlook is not None:
                self._outlook.offer(entry)

    def _withdraw(self, entry: Entry) -> None:
        if entry.node.schedulable:
            self.schedulable -= 1
            if self._outlook is not None:
                self._outlook.withdraw(entry)

    def _view(self) -> outlook.Outlook:
        """Made when it is first asked for: a calendar that is read from the log has no use for it before."""
        if self._outlook is None:
            self._outlook = outlook.Outlook(self.entries, self._clock)
        return self._outlook

    def look_ahead(self) -> None:
        """Make the outlook now, so that no search has to wait for it: a second for 100,000 bookings."""
        self._view()

    def _forget_homes(self, entry: Entry) -> None:
        for atom in [atom for atom in entry.bits if self._homes.get(atom) == entry.node.id]:
            del self._homes[atom]

    def book(
        self,
        allocation_id: str,
        node_id: str,
        atoms: Iterable[str],
        scalars: Mapping[str, int],
        start: int,
        until: int | None,
        ended: int | None = None,
        spot: Spot | None = None,
    ) -> Booking:
        """Hold atoms over `[start, until)`, nothing if that is empty; the same allocation again replaces."""
        self.unbook(allocation_id)
        end = FOREVER if until is None else until
        names = tuple(map(sys.intern, atoms))
        booking = Booking(allocation_id, sys.intern(node_id), names, scalars or NOTHING, start, end, ended, spot)
        self.restore(booking)
        return booking

    def rebound(self, allocation_id: str, until: int | None) -> None:
        """Move a booking's end, before its start meaning that it never began; unknown ones are left alone.

        Where the atoms of one allocation end at different instants, the last of them is right.
        """
        if (booking := self.bookings.get(allocation_id)) is not None:
            self.unbook(allocation_id)
            self.restore(replace(booking, until=FOREVER if until is None else until))

    def unbook(self, allocation_id: str) -> None:
        if (booking := self.bookings.pop(allocation_id, None)) is None:
            return
        self._list(booking, False)
        if (entry := self.entries.get(booking.node_id)) is not None:
            self._write(entry, booking, self._vacate)
        else:
            strays = self._strays[booking.node_id]
            strays.discard(allocation_id)
            if not strays:
                del self._strays[booking.node_id]

    def mark_busy(self, atoms: Iterable[str], start: int, until: int | None, position: int) -> None:
        """Hold atoms that a rival won until the log is read past `position`, if it is not yet (architecture.md §4)."""
        by_node: dict[str, list[str]] = defaultdict(list)
        for atom in atoms if position > self._read else ():
            if (home := self._homes.get(atom)) is not None:
                by_node[home].append(atom)
        for node_id, lost in by_node.items():
            self._marks_made += 1
            key = f"mark_{self._marks_made}"
            self._marks.append((position, key))
            self.book(key, node_id, lost, {}, start, until)

    def caught_up(self, position: int) -> None:
        """The log has been read up to and including `position`: forget the marks up to there."""
        self._read = max(self._read, position)
        passed = [key for marked, key in self._marks if marked <= position]
        self._marks = [mark for mark in self._marks if mark[0] > position]
        for key in passed:
            self.unbook(key)

    def forget_before(self, now: int) -> None:
        """Move the clock on, drop what is past; bookings that ended lately stay for a late `rebound`."""
        self._clock = max(self._clock, now - self.gap_ms)
        for node_id in self._outlook.advance(self._clock) if self._outlook else ():
            self.entries[node_id].timeline.trim(self._clock)
        while self._ends and self._ends[0][0] <= self._clock - LATE_MS:
            until, key = heappop(self._ends)
            if (booking := self.bookings.get(key)) is not None and booking.until == until:
                self.unbook(key)

    def free(self, entry: Entry, start: int, until: int) -> int:
        """Mask of the bookable devices that nothing holds in the window and a cleaning gap on both sides."""
        gap = self.gap_ms
        return entry.classes[ANY] & ~entry.timeline.busy_over(start - gap, min(until + gap, FOREVER))

    def spare(self, entry: Entry, scalar: str, start: int, until: int) -> int:
        """What of a scalar stays unused all through the window and its gaps."""
        if scalar not in entry.timeline.used:
            return 0
        peak = entry.timeline.peak(scalar, start - self.gap_ms, min(until + self.gap_ms, FOREVER))
        return entry.node.scalars[scalar] - peak

    def tightest(self, class_: str, need: int, start: int, seed: str, until: int | None = None) -> "Search":
        """Schedulable nodes with `need` or more of the class free at `start`, fewest first, ties by hash.

        With `until`, nodes may be left out that have fewer free at some instant of the window.
        """
        return Search(self, self._view(), (class_, need), (start, until), seed)

    def census(self, class_: str, start: int) -> Counter[int]:
        """How many schedulable nodes have how many devices of the class free at `start`."""
        levels = self._view().levels(class_, 0, start - self.gap_ms)
        return Counter({count: nodes.bit_count() for count, nodes in levels})

    def openings(self, class_: str, need: int, after: int, duration: int, ends_at: int) -> Iterator[tuple[int, Entry]]:
        """In order, the instants after `after` from which on a node that could not may be able to take a claim.

        A claim needs its devices for `duration` ms, and not beyond `ends_at`.
        """
        gap, end = self.gap_ms, min(ends_at + self.gap_ms, FOREVER)
        for instant, node_id in self._view().openings(class_, need, after - gap, duration + 2 * gap, end):
            yield instant + gap, self.entries[node_id]

    def restore(self, booking: Booking) -> None:
        """Hold what a booking says, as `book` does; its key is free."""
        if booking.start >= booking.until:
            return
        self.bookings[booking.key] = booking
        self._list(booking, True)
        if booking.until < FOREVER:
            heappush(self._ends, (booking.until, booking.key))
        if len(self._ends) > 2 * len(self.bookings) + 1024:
            self._ends = [(kept.until, key) for key, kept in self.bookings.items() if kept.until < FOREVER]
            heapify(self._ends)
        if (entry := self.entries.get(booking.node_id)) is not None:
            self._write(entry, booking, self._occupy)
        else:
            self._strays.setdefault(booking.node_id, set()).add(booking.key)

    def _list(self, booking: Booking, holds: bool) -> None:
        """Keep the two lists of bookings that a queue may reckon with otherwise than with others."""
        if booking.ended is not None:
            self.ended.pop(booking.key, None)
            if holds:
                self.ended[booking.key] = None
        if booking.spot is not None:
            keys = self.spots.setdefault(booking.spot.reservation_id, {})
            keys.pop(booking.key, None)
            if holds:
                keys[booking.key] = None
            elif not keys:
                del self.spots[booking.spot.reservation_id]

    def _write(self, entry: Entry, booking: Booking, write: Callable[[Entry, Booking], int]) -> None:
        """Put a booking on its node's timeline or take it off, and let the outlook see what became of it."""
        entry.timeline.trim(self._clock)
        start, until = max(booking.start, self._clock), booking.until
        if self._outlook is None or not entry.node.schedulable or start >= until:
            write(entry, booking)
            return
        before = entry.timeline.picture(start, until)
        mask = write(entry, booking)
        self._outlook.changed(entry, mask, before, entry.timeline.picture(start, until))

    def _occupy(self, entry: Entry, booking: Booking) -> int:
        mask = entry.held[booking.key] = entry.mask(booking.atoms)
        if (start := max(booking.start, self._clock)) < booking.until:
            entry.timeline.load(mask, booking.scalars, start, booking.until)
        return mask

    def _vacate(self, entry: Entry, booking: Booking) -> int:
        """Free what the booking held, except where another (a mark, or log order) holds the same atom."""
        mask = entry.held.pop(booking.key)
        start, until = max(booking.start, self._clock), booking.until
        if start < until:
            entry.timeline.unload(mask, booking.scalars, start, until)
            for key in [key for key, held in entry.held.items() if held & mask]:
                other = self.bookings[key]
                if other.start < until and start < other.until:
                    shared = entry.held[key] & mask
                    entry.timeline.load(shared, {}, max(other.start, start), min(other.until, until))
        return mask


class Search:
    """What `tightest` found, to be looked at once; `passed` nodes were left out because of what comes later on."""

    def __init__(
        self, pool: Calendar, view: outlook.Outlook, wanted: tuple[str, int], window: tuple[int, int | None], seed: str
    ) -> None:
        self.passed = 0
        self._pool = pool
        self._outlook = view
        self._wanted = wanted
        self._window = window
        self._origin = ring_position(seed)

    def __iter__(self) -> Iterator[Entry]:
        (class_, need), (start, until), gap = self._wanted, self._window, self._pool.gap_ms
        levels = list(self._outlook.levels(class_, need, start - gap))
        seen = 0
        for bit, entry in islice(chain.from_iterable(self._around(nodes) for _, nodes in levels), PATIENCE):
            seen |= bit
            yield entry
        steady = outlook.EVERY
        if until is not None:
            steady = self._outlook.steady(class_, need, start - gap, min(until + gap, FOREVER))
        for _, nodes in levels:
            able = nodes & ~seen & steady
            self.passed += (nodes & ~seen ^ able).bit_count()
            yield from (entry for _, entry in self._around(able))

    def _around(self, nodes: int) -> Iterator[tuple[int, Entry]]:
        return ((bit, self._pool.entries[node_id]) for bit, node_id in self._outlook.around(nodes, self._origin))
