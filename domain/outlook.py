"""How many devices every node of a pool will have free, at any instant (decision 16).

Time from now on is cut into stretches, each with a few hundred changes of nodes. A stretch keeps what is true at its
start: for every class and every number of free devices, the nodes that have so many, as one integer with a bit a node.
What is true at an instant is that, put right for the nodes that change between. Stretches are bound in chapters: what a
booking changes all through a chapter is noted once, on the chapter.

The bits stand in the order of a ring of hashes, so that searches that begin at different places meet different nodes.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain
from operator import or_

from domain.timeline import ANY, FOREVER, Entry, Picture

CHANGES = 128
"""Most changes of a stretch; more means fewer stretches to keep right, and more nodes to look at in a search."""
STRETCHES = 32
"""Most stretches of a chapter."""
SAMPLES = 32
"""Most stretches whose starts are asked whether a node stays free all through a window."""

Levels = dict[str, dict[int, int]]
"""By class and by number of free devices: the nodes that have so many."""
Counts = set[tuple[str, int]]
"""Of classes of devices, how many are free."""
EVERY = -1
"""The bits of all nodes."""


class Stretch:
    """`levels` are true at `start`; `changes` are after it, up to and including the start of the next one."""

    __slots__ = ("changes", "levels", "start")

    def __init__(self, start: int, levels: Levels, changes: list[tuple[int, str]]) -> None:
        self.start = start
        self.levels = levels
        self.changes = changes


class Chapter:
    """Stretches that follow each other; `common` are bits that are the other way round in all of them."""

    __slots__ = ("common", "starts", "stretches")

    def __init__(self, stretches: list[Stretch], common: Levels) -> None:
        self.stretches = stretches
        self.starts = [stretch.start for stretch in stretches]
        self.common = common

    def level(self, stretch: Stretch, class_: str, need: int) -> dict[int, int]:
        """The nodes by how many of the class they have free at the start of a stretch, from `need` on."""
        own, common = stretch.levels.get(class_, {}), self.common.get(class_)
        if not common:
            return {count: bits for count, bits in own.items() if count >= need}
        both = {count: own.get(count, 0) ^ common.get(count, 0) for count in {*own, *common} if count >= need}
        return {count: bits for count, bits in both.items() if bits}


class Outlook:
    """Made of the calendar's `entries` as they are; from then on it is told what becomes of them.

    A node that is not schedulable stands on the ring and is offered nowhere.
    """

    def __init__(self, entries: Mapping[str, Entry], clock: int) -> None:
        self._entries = entries
        self._places: list[int] = []
        self._ids: list[str] = []
        for entry in sorted(entries.values(), key=lambda entry: (entry.place, entry.node.id)):
            entry.place = max(entry.place, self._places[-1] + 1 if self._places else 0)
            self._places.append(entry.place)
            self._ids.append(entry.node.id)
        stretches = list(self._cut(clock))
        half = STRETCHES // 2
        self._chapters = [Chapter(stretches[at : at + half], {}) for at in range(0, len(stretches), half)]
        self._firsts = [chapter.starts[0] for chapter in self._chapters]

    def _cut(self, clock: int) -> Iterator[Stretch]:
        """All time from `clock` on, in stretches half as full as they may become."""
        offered = [entry for entry in self._entries.values() if entry.node.schedulable]
        coming = ((entry.timeline.boundaries(clock + 1, FOREVER - 1), entry.node.id) for entry in offered)
        changes = sorted((instant, node_id) for instants, node_id in coming for instant in instants)
        levels: Levels = {}
        for entry in offered:
            _flip(levels, _counts(entry.sold(), entry.timeline.busy_at(clock)), 1 << self._rank(entry))
        start, first = clock, 0
        while first < len(changes):
            middle = changes[min(first + CHANGES // 2, len(changes) - 1)][0]
            last = bisect_left(changes, (middle + 1,), first)
            yield Stretch(start, _copy(levels), changes[first:last])
            self._carry(levels, {node_id for _, node_id in changes[first:last]}, start, middle)
            start, first = middle, last
        yield Stretch(start, levels, [])

    def enter(self, entry: Entry) -> None:
        """Give a new node its place on the ring."""
        rank = bisect_left(self._places, entry.place)
        while rank < len(self._places) and self._places[rank] == entry.place:
            rank, entry.place = rank + 1, entry.place + 1
        self._places.insert(rank, entry.place)
        self._ids.insert(rank, entry.node.id)
        self._reshape(rank, rank + 1, rank)

    def leave(self, entry: Entry) -> None:
        """Take a node that is withdrawn off the ring."""
        rank = self._rank(entry)
        del self._places[rank], self._ids[rank]
        self._reshape(rank, rank, rank + 1)

    def offer(self, entry: Entry) -> None:
        now, bit = self._firsts[0], 1 << self._rank(entry)
        for start, until, busy in entry.timeline.segments(now, FOREVER):
            self._turn(bit, start, until, _counts(entry.sold(), busy))
        self._note(entry, entry.timeline.boundaries(now + 1, FOREVER - 1))

    def withdraw(self, entry: Entry) -> None:
        now, bit = self._firsts[0], 1 << self._rank(entry)
        self._strike(entry, entry.timeline.boundaries(now + 1, FOREVER - 1))
        for start, until, busy in entry.timeline.segments(now, FOREVER):
            self._turn(bit, start, until, _counts(entry.sold(), busy))

    def changed(self, entry: Entry, among: int, before: Picture, after: Picture) -> None:
        """A timeline was written to; only the devices `among` these may be more or less busy than before."""
        now, bit, sold = self._firsts[0], 1 << self._rank(entry), entry.sold(among)
        (was, pieces), (is_, others) = before, after
        self._strike(entry, (instant for instant in {*was} - {*is_} if instant > now))
        if [piece[:2] for piece in pieces] == [piece[:2] for piece in others]:
            for (start, until, busy), (_, _, since) in zip(pieces, others, strict=True):
                self._turn(bit, start, until, _counts(sold, busy) ^ _counts(sold, since))
        else:
            for start, until, busy in chain(pieces, others):
                self._turn(bit, start, until, _counts(sold, busy))
        self._note(entry, (instant for instant in {*is_} - {*was} if instant > now))

    def advance(self, clock: int) -> set[str]:
        """Forget what was before `clock`; the nodes that changed until then."""
        passed: set[str] = set()
        while (following := self._next_start(0, 0)) <= clock:
            passed.update(node_id for _, node_id in self._chapters[0].stretches[0].changes)
            self._drop_first()
            assert self._firsts[0] == following
        chapter = self._chapters[0]
        first = chapter.stretches[0]
        upto = bisect_left(first.changes, (clock + 1,))
        recently = {node_id for _, node_id in first.changes[:upto]}
        self._carry(first.levels, recently, first.start, clock)
        del first.changes[:upto]
        self._firsts[0] = chapter.starts[0] = first.start = max(first.start, clock)
        return passed | recently

    def levels(self, class_: str, need: int, instant: int) -> Iterator[tuple[int, int]]:
        """By number of free devices at `instant`, the fewest first and from `need` on: the nodes that have so many."""
        if class_ == ANY:
            yield from self._of_any_class(instant)
            return
        chapter, stretch = self._find(instant)
        upto = bisect_left(stretch.changes, (instant + 1,))
        base = chapter.level(stretch, class_, need)
        if not upto:
            yield from sorted(base.items())
            return
        elsewhere, came = self._moved({node_id for _, node_id in stretch.changes[:upto]}, class_, instant)
        for count in sorted({*base, *(count for count in came if count >= need)}):
            bits = base.get(count, 0)
            if bits := bits ^ (bits & elsewhere) | came.get(count, 0):
                yield count, bits

    def _of_any_class(self, instant: int) -> list[tuple[int, int]]:
        """Nothing is kept of it: claims of scalars alone look at every node, also at those that have no device."""
        offered = [id for id, entry in self._entries.items() if entry.node.schedulable]
        bare = [self._rank(self._entries[id]) for id in offered if not self._entries[id].classes[ANY]]
        came = self._moved(offered, ANY, instant)[1]
        if bare:
            came[0] = came.get(0, 0) | _bits(bare, len(self._ids))
        return sorted(came.items())

    def steady(self, class_: str, need: int, start: int, until: int) -> int:
        """All nodes but some that do not have `need` free devices all through the window: a stretch's start tells."""
        within = list(self._between(start, until)) if need else []
        bits = EVERY
        for chapter, stretch in within[:: -(-len(within) // SAMPLES) or 1]:
            bits &= reduce(or_, chapter.level(stretch, class_, need).values(), 0)
        return bits

    def around(self, nodes: int, origin: int) -> Iterator[tuple[int, str]]:
        """The bit and the id of each of the nodes, all around the ring from the place `origin` on."""
        rank = bisect_left(self._places, origin)
        low = nodes & ((1 << rank) - 1)
        for rest in (nodes ^ low, low):
            while rest:
                bit = rest & -rest
                yield bit, self._ids[bit.bit_length() - 1]
                rest ^= bit

    def openings(self, class_: str, need: int, after: int, length: int, end: int) -> Iterator[tuple[int, str]]:
        """In order, the changes after `after` from which on a node may have `need` free devices.

        It has them for `length` ms, and not beyond `end`.

        Left out are nodes that have fewer at the start of a later stretch that any window from here would reach into.
        """
        for _, stretch in self._from(after):
            upto = bisect_left(stretch.changes, (after + 1,))
            changes = stretch.changes[upto:]
            if not changes:
                continue
            reach = min(changes[0][0] + length, end)
            if reach > changes[-1][0]:
                able = self.steady(class_, need, changes[-1][0] - 1, reach)
                if able != EVERY:
                    fit = {node_id for _, node_id in self.around(able, 0)}
                    changes = [change for change in changes if change[1] in fit]
            for instant, node_id in changes:
                if self._entries[node_id].count(class_, instant) >= need:
                    yield instant, node_id

    def _rank(self, entry: Entry) -> int:
        return bisect_left(self._places, entry.place)

    def _find(self, instant: int) -> tuple[Chapter, Stretch]:
        """The last stretch that starts at `instant` or before, the first if none does."""
        chapter = self._chapters[max(bisect_right(self._firsts, instant) - 1, 0)]
        return chapter, chapter.stretches[max(bisect_right(chapter.starts, instant) - 1, 0)]

    def _from(self, instant: int) -> Iterator[tuple[Chapter, Stretch]]:
        """The stretch that holds what comes after `instant`, and all later ones."""
        first = max(bisect_right(self._firsts, instant) - 1, 0)
        for chapter in self._chapters[first:]:
            begin = max(bisect_right(chapter.starts, instant) - 1, 0)
            for stretch in chapter.stretches[begin:]:
                yield chapter, stretch

    def _between(self, after: int, before: int) -> Iterator[tuple[Chapter, Stretch]]:
        """The stretches that start after one instant and before another."""
        for chapter, stretch in self._from(after):
            if stretch.start >= before:
                return
            if stretch.start > after:
                yield chapter, stretch

    def _next_start(self, number: int, index: int) -> int:
        """Where the stretch ends that is the `index`th of a chapter."""
        if index + 1 < len(self._chapters[number].starts):
            return self._chapters[number].starts[index + 1]
        return self._firsts[number + 1] if number + 1 < len(self._firsts) else FOREVER

    def _moved(self, nodes: Iterable[str], class_: str, instant: int) -> tuple[int, dict[int, int]]:
        """These nodes, and the same by how many of the class they have free at `instant`."""
        ranks: dict[int, list[int]] = defaultdict(list)
        for entry in map(self._entries.__getitem__, nodes):
            if mask := entry.classes.get(class_, 0):
                line = entry.timeline
                busy = line.busy[bisect_right(line.starts, instant) - 1]
                ranks[(mask & ~busy).bit_count()].append(bisect_left(self._places, entry.place))
        came = {count: _bits(of, len(self._ids)) for count, of in ranks.items()}
        return reduce(or_, came.values(), 0), came

    def _carry(self, levels: Levels, nodes: Iterable[str], start: int, until: int) -> None:
        """Make levels that are true at `start` true at `until`, between which only these nodes change."""
        for entry in map(self._entries.__getitem__, nodes):
            sold, line = entry.sold(), entry.timeline
            flips = _counts(sold, line.busy_at(start)) ^ _counts(sold, line.busy_at(until))
            _flip(levels, flips, 1 << self._rank(entry))

    def _turn(self, bit: int, start: int, until: int, flips: Counts) -> None:
        """Note, or strike out where it is noted, that a node has these numbers of devices free in `[start, until)`."""
        if not flips:
            return
        for chapter in self._chapters[max(bisect_right(self._firsts, start) - 1, 0) :]:
            starts = chapter.starts
            if starts[0] >= until:
                return
            if starts[0] >= start and starts[-1] < until:
                _flip(chapter.common, flips, bit)
            else:
                for stretch in chapter.stretches[bisect_left(starts, start) : bisect_left(starts, until)]:
                    _flip(stretch.levels, flips, bit)

    def _note(self, entry: Entry, instants: Iterable[int]) -> None:
        for instant in instants:
            number = max(bisect_left(self._firsts, instant) - 1, 0)
            chapter = self._chapters[number]
            index = max(bisect_left(chapter.starts, instant) - 1, 0)
            insort(chapter.stretches[index].changes, (instant, entry.node.id))
            if len(chapter.stretches[index].changes) > CHANGES:
                self._split(number, index)

    def _strike(self, entry: Entry, instants: Iterable[int]) -> None:
        for instant in instants:
            number = max(bisect_left(self._firsts, instant) - 1, 0)
            chapter = self._chapters[number]
            index = max(bisect_left(chapter.starts, instant) - 1, 0)
            changes = chapter.stretches[index].changes
            del changes[bisect_left(changes, (instant, entry.node.id))]
            if index + 1 < len(chapter.stretches):
                following = chapter.stretches[index + 1].changes
                if len(changes) + len(following) <= CHANGES // 2:
                    changes += following
                    del chapter.stretches[index + 1], chapter.starts[index + 1]

    def _split(self, number: int, index: int) -> None:
        """Halve a stretch, unless all that is too much for it happens at the instant at which it ends."""
        chapter = self._chapters[number]
        stretch = chapter.stretches[index]
        inside = bisect_left(stretch.changes, (self._next_start(number, index),))
        if inside <= CHANGES:
            return
        middle = stretch.changes[inside // 2][0]
        cut = bisect_left(stretch.changes, (middle + 1,))
        levels = _copy(stretch.levels)
        self._carry(levels, {node_id for _, node_id in stretch.changes[:cut]}, stretch.start, middle)
        chapter.stretches.insert(index + 1, Stretch(middle, levels, stretch.changes[cut:]))
        chapter.starts.insert(index + 1, middle)
        del stretch.changes[cut:]
        if len(chapter.stretches) > STRETCHES:
            self._begin_chapter(number)

    def _begin_chapter(self, number: int) -> None:
        chapter = self._chapters[number]
        later = Chapter(chapter.stretches[STRETCHES // 2 :], _copy(chapter.common))
        del chapter.stretches[STRETCHES // 2 :], chapter.starts[STRETCHES // 2 :]
        self._chapters.insert(number + 1, later)
        self._firsts.insert(number + 1, later.starts[0])

    def _drop_first(self) -> None:
        chapter = self._chapters[0]
        del chapter.stretches[0], chapter.starts[0]
        if not chapter.stretches:
            del self._chapters[0], self._firsts[0]
        self._firsts[0] = self._chapters[0].starts[0]

    def _reshape(self, rank: int, skip: int, keep: int) -> None:
        """Make room for a bit at `rank` (skip to rank + 1), or close its gap (keep from rank + 1 on)."""
        low = (1 << rank) - 1
        for chapter in self._chapters:
            for levels in (chapter.common, *(stretch.levels for stretch in chapter.stretches)):
                for of in levels.values():
                    for count, bits in of.items():
                        of[count] = bits & low | bits >> keep << skip


def _counts(sold: Iterable[tuple[str, int]], busy: int) -> Counts:
    return {(class_, (mask & ~busy).bit_count()) for class_, mask in sold}


def _flip(levels: Levels, flips: Counts, bit: int) -> None:
    for class_, count in flips:
        if (of := levels.get(class_)) is None:
            of = levels[class_] = {}
        if bits := of.get(count, 0) ^ bit:
            of[count] = bits
        else:
            del of[count]


def _copy(levels: Levels) -> Levels:
    return {class_: dict(of) for class_, of in levels.items()}


def _bits(ranks: Iterable[int], size: int) -> int:
    made = bytearray(size // 8 + 1)
    for rank in ranks:
        made[rank >> 3] |= 1 << (rank & 7)
    return int.from_bytes(made, "little")
