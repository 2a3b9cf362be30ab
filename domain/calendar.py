"""What is free and busy in one pool, in memory: bit masks per node and time segment (architecture.md §4).

A follower of the log feeds it one event at a time; fed from zero it becomes the same again. It guides
placement and promises nothing: the database's exclusion has the last word (domain.md §5).

Instants are integer epoch milliseconds, intervals half-open, `until=None` is open. Bit i of a node's mask is
the i-th device of its inventory. Nodes stand in buckets by how many devices of a class are free at the
calendar's clock, and in each bucket on a ring in the order of a hash: a search meets the tightest nodes first
without looking at the others, and rivals start at different places.
"""

import hashlib
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from heapq import heapify, heappop, heappush, merge
from itertools import chain
from operator import or_

from msgspec import Struct
from msgspec.structs import replace

FOREVER = 2**63 - 1
ALWAYS = -FOREVER
LATE_MS = 3_600_000  # an ended booking stays known so long: only after its end comes "not given back yet"
ANY = ""  # all classes together, for a claim of scalars alone

Bucket = list[tuple[int, str]]


class Atom(Struct, frozen=True):
    """A device of a node; `parent` is the GPU of a slice or slot; only what is bookable is placed."""

    id: str
    class_: str
    attributes: Mapping[str, object] = {}
    gpu_product: str | None = None
    gpu_model: str | None = None
    memory_gb: int | None = None
    numa_node: int | None = None
    nvlink_group: str | None = None
    parent: str | None = None
    bookable: bool = True


class Node(Struct, frozen=True):
    """A machine; `scalars` are amounts after overcommit, `layout` is the generation of its slices."""

    id: str
    name: str
    labels: Mapping[str, str] = {}
    schedulable: bool = True
    layout: int = 0
    devices: tuple[Atom, ...] = ()
    scalars: Mapping[str, int] = {}
    gpus: int = 0


class Spot(Struct, frozen=True):
    """Whose a booking is that may be preempted: the reservation, its priority, since when (epoch ms) it is claimed."""

    reservation_id: str
    priority: int
    since: int


class Booking(Struct, frozen=True):
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


class Timeline:
    """One node's load: segment i reaches from `starts[i]` to the next start, the last one for ever."""

    __slots__ = ("busy", "starts", "used")

    def __init__(self, scalars: Iterable[str]) -> None:
        self.starts = [ALWAYS]
        self.busy = [0]
        self.used: dict[str, list[int]] = {name: [0] for name in scalars}

    def load(self, mask: int, scalars: Mapping[str, int], start: int, until: int) -> None:
        """Hold devices and amounts over `[start, until)`; scalars the node does not have are left out."""
        self._apply(mask, 0, scalars, 1, start, until)

    def unload(self, mask: int, scalars: Mapping[str, int], start: int, until: int) -> None:
        self._apply(0, mask, scalars, -1, start, until)

    def trim(self, now: int) -> None:
        """Forget the boundaries up to `now`."""
        gone = bisect_right(self.starts, now) - 1
        if gone > 0:
            for column in self._columns():
                del column[:gone]
            self.starts[0] = ALWAYS

    def busy_at(self, instant: int) -> int:
        return self.busy[bisect_right(self.starts, instant) - 1]

    def busy_over(self, start: int, until: int) -> int:
        return reduce(or_, self.busy[self._segments(start, until)])

    def peak(self, scalar: str, start: int, until: int) -> int:
        return max(self.used[scalar][self._segments(start, until)])

    def next_change(self, instant: int) -> int:
        """The first boundary after `instant`, FOREVER if there is none."""
        index = bisect_right(self.starts, instant)
        return self.starts[index] if index < len(self.starts) else FOREVER

    def _apply(self, on: int, off: int, scalars: Mapping[str, int], sign: int, start: int, until: int) -> None:
        first, last = self._split(start), self._split(until)
        for index in range(first, last):
            self.busy[index] = self.busy[index] & ~off | on
        for name, amount in scalars.items():
            if (used := self.used.get(name)) is not None:
                used[first:last] = [load + sign * amount for load in used[first:last]]
        self._join(last)
        self._join(first)

    def _columns(self) -> tuple[list[int], ...]:
        return (self.starts, self.busy, *self.used.values())

    def _segments(self, start: int, until: int) -> slice:
        return slice(bisect_right(self.starts, start) - 1, bisect_left(self.starts, until))

    def _split(self, instant: int) -> int:
        """Index of the segment that starts at `instant`, made if there is none."""
        index = bisect_left(self.starts, instant)
        if index == len(self.starts) or self.starts[index] != instant:
            for column in self._columns():
                column.insert(index, column[index - 1])
            self.starts[index] = instant
        return index

    def _join(self, index: int) -> None:
        """Drop the boundary at `index` if it no longer separates anything."""
        _, *loads = self._columns()
        if index and all(load[index - 1] == load[index] for load in loads):
            for column in self._columns():
                del column[index]


class Entry:
    """A node as the calendar keeps it: its masks by class and by group, its timeline, where it is filed."""

    __slots__ = (
        "bits", "change", "classes", "counts", "groups", "held", "matching", "node", "place", "timeline",
    )  # fmt: skip

    def __init__(self, node: Node) -> None:
        self.node = node
        self.place = ring_position(node.id)
        self.timeline = Timeline(node.scalars)
        self.bits = {atom.id: 1 << index for index, atom in enumerate(node.devices)}
        self.classes: dict[str, int] = {ANY: 0}
        self.groups: dict[str, dict[object, int]] = {"numa": {}, "nvlink": {}, "parent": {}}
        self.matching: dict[str, int] = {}
        """Masks by selector text, kept by placement."""
        self.held: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.change = FOREVER
        for atom in node.devices:
            if atom.bookable:
                self._sort_in(atom, self.bits[atom.id])

    def _sort_in(self, atom: Atom, bit: int) -> None:
        for class_ in (ANY, atom.class_):
            self.classes[class_] = self.classes.get(class_, 0) | bit
        for kind, group in (("numa", atom.numa_node), ("nvlink", atom.nvlink_group), ("parent", atom.parent)):
            if group is not None:
                self.groups[kind][group] = self.groups[kind].get(group, 0) | bit

    def mask(self, atoms: Iterable[str]) -> int:
        """The bits of those atoms that this node has."""
        return reduce(or_, (self.bits.get(atom, 0) for atom in atoms), 0)

    def atoms(self, mask: int) -> tuple[str, ...]:
        return tuple(atom for atom, bit in self.bits.items() if bit & mask)

    def free_counts(self, instant: int) -> dict[str, int]:
        """Bookable devices per class that no booking holds at `instant`."""
        free = ~self.timeline.busy_at(instant)
        return {class_: (mask & free).bit_count() for class_, mask in self.classes.items()}


def ring_position(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


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
        self._clock = ALWAYS
        self._by_node: dict[str, set[str]] = {}
        self._ends: list[tuple[int, str]] = []
        self._homes: dict[str, str] = {}
        self._marks: list[tuple[int, str]] = []
        self._marks_made = 0
        self._read = 0
        self._buckets: dict[str, dict[int, Bucket]] = defaultdict(dict)
        self._changes: Bucket = []

    def put_node(self, node: Node) -> None:
        """Add a node or replace what is known of it; its bookings are found again by atom id."""
        self.remove_node(node.id)
        entry = self.entries[node.id] = Entry(node)
        self._homes |= dict.fromkeys(entry.bits, node.id)
        for key in self._by_node.get(node.id, ()):
            self._occupy(entry, self.bookings[key])
        self._file(entry)

    def remove_node(self, node_id: str) -> None:
        """The node offers nothing any more; its bookings stay known until their own events end them."""
        if (entry := self.entries.pop(node_id, None)) is not None:
            self._shelve(entry, {}, FOREVER)
            for atom in [atom for atom in entry.bits if self._homes.get(atom) == node_id]:
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
    ) -> None:
        """Hold atoms over `[start, until)`, nothing if that is empty; the same allocation again replaces."""
        self.unbook(allocation_id)
        end = FOREVER if until is None else until
        self.restore(Booking(allocation_id, node_id, tuple(atoms), dict(scalars), start, end, ended, spot))

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
        neighbours = self._by_node[booking.node_id]
        neighbours.discard(allocation_id)
        if not neighbours:
            del self._by_node[booking.node_id]
        if (entry := self.entries.get(booking.node_id)) is not None:
            self._vacate(entry, booking)
            self._file(entry)

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
        while self._changes and self._changes[0][0] <= self._clock:
            self._file(self.entries[self._changes[0][1]])
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

    def tightest(self, class_: str, need: int, start: int, seed: str) -> Iterator[Entry]:
        """Schedulable nodes with `need` or more of the class free at `start`, fewest first, ties by hash."""
        buckets, (moved, elsewhere) = self._buckets[class_], self._moved(class_, start)
        origin = ring_position(seed)
        for count in sorted(count for count in {*buckets, *moved} if count >= need):
            found: Iterator[tuple[int, str]] = _around(buckets.get(count, []), origin)
            if elsewhere:
                still = (item for item in found if item[1] not in elsewhere)
                came = _around(moved.get(count, []), origin)
                found = merge(still, came, key=lambda item: (item[0] < origin, item))
            for _, node_id in found:
                yield self.entries[node_id]

    def census(self, class_: str, start: int) -> Counter[int]:
        """How many schedulable nodes have how many devices of the class free at `start`."""
        moved, elsewhere = self._moved(class_, start)
        numbers = Counter({count: len(bucket) for count, bucket in moved.items()})
        for count, bucket in self._buckets[class_].items():
            gone = sum(node_id in elsewhere for _, node_id in bucket) if elsewhere else 0
            numbers[count] += len(bucket) - gone
        return +numbers

    def schedulable(self) -> int:
        """How many nodes take bookings."""
        return sum(len(bucket) for bucket in self._buckets[ANY].values())

    def changes(self) -> list[tuple[int, str]]:
        """The next boundary of each schedulable node that has one, soonest first."""
        return list(self._changes)

    def _moved(self, class_: str, start: int) -> tuple[dict[int, Bucket], set[str]]:
        """The nodes that change between the clock and `start`, in buckets as they will be then, and by id."""
        moved: dict[int, Bucket] = {}
        instant = start - self.gap_ms
        changed = {node_id for _, node_id in self._changes[: bisect_left(self._changes, (instant + 1,))]}
        for entry in (self.entries[node_id] for node_id in changed):
            if class_ in entry.classes:
                insort(moved.setdefault(entry.free_counts(instant)[class_], []), (entry.place, entry.node.id))
        return moved, changed

    def restore(self, booking: Booking) -> None:
        """Hold what a booking says, as `book` does; its key is free."""
        if booking.start >= booking.until:
            return
        self.bookings[booking.key] = booking
        self._list(booking, True)
        self._by_node.setdefault(booking.node_id, set()).add(booking.key)
        if booking.until < FOREVER:
            heappush(self._ends, (booking.until, booking.key))
        if len(self._ends) > 2 * len(self.bookings) + 1024:
            self._ends = [(kept.until, key) for key, kept in self.bookings.items() if kept.until < FOREVER]
            heapify(self._ends)
        if (entry := self.entries.get(booking.node_id)) is not None:
            self._occupy(entry, booking)
            self._file(entry)

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

    def _occupy(self, entry: Entry, booking: Booking) -> None:
        mask = entry.held[booking.key] = entry.mask(booking.atoms)
        if (start := max(booking.start, self._clock)) < booking.until:
            entry.timeline.load(mask, booking.scalars, start, booking.until)

    def _vacate(self, entry: Entry, booking: Booking) -> None:
        """Free what the booking held, except where another (a mark, or log order) holds the same atom."""
        mask = entry.held.pop(booking.key)
        if (start := max(booking.start, self._clock)) >= booking.until:
            return
        entry.timeline.unload(mask, booking.scalars, start, booking.until)
        for key in [key for key, held in entry.held.items() if held & mask]:
            other = self.bookings[key]
            if (since := max(other.start, start)) < (end := min(other.until, booking.until)):
                entry.timeline.load(entry.held[key] & mask, {}, since, end)

    def _file(self, entry: Entry) -> None:
        """Put the node where its timeline says, after any change of it or of the clock."""
        entry.timeline.trim(self._clock)
        if entry.node.schedulable:
            self._shelve(entry, entry.free_counts(self._clock), entry.timeline.next_change(self._clock))
        else:
            self._shelve(entry, {}, FOREVER)

    def _shelve(self, entry: Entry, counts: dict[str, int], change: int) -> None:
        """Move the node to these buckets and to this place among the changes; FOREVER is no place."""
        for class_, before in entry.counts.items():
            if counts.get(class_) != before:
                _remove(self._buckets[class_][before], (entry.place, entry.node.id))
                if not self._buckets[class_][before]:
                    del self._buckets[class_][before]
        for class_, after in counts.items():
            if entry.counts.get(class_) != after:
                insort(self._buckets[class_].setdefault(after, []), (entry.place, entry.node.id))
        if change != entry.change:
            if entry.change < FOREVER:
                _remove(self._changes, (entry.change, entry.node.id))
            if change < FOREVER:
                insort(self._changes, (change, entry.node.id))
        entry.counts, entry.change = counts, change


def _remove(bucket: Bucket, item: tuple[int, str]) -> None:
    del bucket[bisect_left(bucket, item)]


def _around(bucket: Bucket, origin: int) -> Iterator[tuple[int, str]]:
    """The whole ring, beginning at `origin`."""
    first = bisect_left(bucket, (origin,))
    return map(bucket.__getitem__, chain(range(first, len(bucket)), range(first)))
