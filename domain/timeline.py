"""One node of a pool over time: what it is, what of it is busy when (architecture.md §4).

Instants are integer epoch milliseconds, intervals half-open. Bit i of a node's mask is the i-th device of its
inventory.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_

from msgspec import Struct

FOREVER = 2**63 - 1
ALWAYS = -FOREVER
ANY = ""  # all classes together, for a claim of scalars alone

Segment = tuple[int, int, int]
"""From, until, the mask of what is busy meanwhile."""
Picture = tuple[list[int], list[Segment]]
"""Of a part of a timeline: at which instants it changes, and what is busy."""


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

    def picture(self, start: int, until: int) -> Picture:
        """What is seen of `[start, until)`, both ends included where something changes there."""
        return self.boundaries(start, min(until, FOREVER - 1)), self.segments(start, until)

    def segments(self, start: int, until: int) -> list[Segment]:
        """What is busy over `[start, until)`, in order and without a hole."""
        inside = self._segments(start, until)
        starts = self.starts[inside]
        return list(zip([start, *starts[1:]], [*starts[1:], until], self.busy[inside], strict=True))

    def boundaries(self, first: int, last: int) -> list[int]:
        """The instants from `first` to `last`, both included, at which something changes."""
        return self.starts[bisect_left(self.starts, first) : bisect_right(self.starts, last)]

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
    """A node as the calendar keeps it: its masks by class and by group, its timeline, its place on the ring."""

    __slots__ = ("bits", "classes", "groups", "held", "matching", "node", "place", "timeline")

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
        """Masks by booking."""
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
        mask = 0
        for atom in atoms:
            mask |= self.bits.get(atom, 0)
        return mask

    def atoms(self, mask: int) -> tuple[str, ...]:
        return tuple(atom for atom, bit in self.bits.items() if bit & mask)

    def offers_as(self, other: "Entry") -> bool:
        """Whether both have the same bookable devices free at every instant, by class and number."""
        mine, theirs = self.timeline, other.timeline
        alike = (self.classes, mine.starts, mine.busy) == (other.classes, theirs.starts, theirs.busy)
        return alike and self.node.schedulable == other.node.schedulable

    def count(self, class_: str, instant: int) -> int:
        """Bookable devices of a class that no booking holds at `instant`."""
        return (self.classes.get(class_, 0) & ~self.timeline.busy_at(instant)).bit_count()

    def sold(self, among: int = -1) -> list[tuple[str, int]]:
        """The classes that have bookable devices, or bookable devices among these, and their masks."""
        return [(name, mask) for name, mask in self.classes.items() if name != ANY and mask & among]


def ring_position(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
