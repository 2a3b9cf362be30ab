"""Choosing the nodes and devices of a claim, and the first instant at which one could be had (domain.md §5).

Pure: it reads a calendar and answers. Best fit: nodes with the fewest free devices at the window's start
come first, so that whole nodes stay free for gangs; equal nodes are ordered by a hash of seed and node.
Within a node, devices come from the tightest NUMA node or, for slices and slots, the tightest GPU that
suffices. Whether the lines of a claim get distinct devices is decided exactly (augmenting paths); which NUMA
or NVLink group each line takes is tried tightest line first, at most TRIES times per node. A gang fills the
first value of its `pack` label that suffices, in the same order of nodes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import reduce
from heapq import heappop, heapreplace
from operator import or_
from typing import Literal

from msgspec import Struct

from domain import calendar, claim, selector

TRIES = 256
SAID_COUNTS = 3
REMEMBERED_SELECTORS = 8
NONE: frozenset[str] = frozenset()

Window = tuple[int, int | None]
Cause = Literal["few", "devices", "later", "selector", "topology", "scalars", "label", "excluded", "unschedulable"]
SAID: Mapping[Cause, str] = {
    "devices": "with too few of another class",
    "later": "with too few free all through the window",
    "selector": "with too few that match",
    "topology": "with too few in one group",
    "scalars": "with too little vcpu or memory",
    "label": "without the label",
    "excluded": "left out",
    "unschedulable": "not schedulable",
}


class Member(Struct, frozen=True):
    """One node's part of a gang; `layout` is the generation of slices that the atoms belong to."""

    node_id: str
    atoms: tuple[str, ...]
    scalars: Mapping[str, int]
    layout: int


class Placement(Struct, frozen=True):
    """A whole gang, on distinct nodes."""

    members: tuple[Member, ...]


class Refusal(Struct, frozen=True):
    """Nothing was found: how many nodes fall short by which cause. Counts alone: it names no other tenant."""

    message: str
    causes: Mapping[Cause, int]
    reason: Literal["NoCapacity"] = "NoCapacity"


class Line(Struct, frozen=True):
    """A line of the claim with its selector compiled."""

    class_: str
    count: int
    text: str
    selector: selector.Selector | None
    colocate: str | None


class Ask(Struct, frozen=True):
    """A claim made ready; only nodes with `need` free devices of the class `leading` are looked at."""

    lines: tuple[Line, ...]
    nodes: int
    label: str | None
    spread: bool
    scalars: Mapping[str, int]
    leading: str
    need: int


Held = list[tuple[int, int]]
"""Per line that has its devices: the mask it may choose from, the mask it took."""


class Seat(Struct, frozen=True):
    """What a line may take: `count` bits of one of `masks`, out of as few of `groups` as possible."""

    count: int
    masks: tuple[int, ...]
    groups: tuple[int, ...]


def place(
    calendar: calendar.Calendar,
    claim: claim.Claim,
    window: Window,
    seed: str,
    selectors: selector.Selectors,
    exclude_nodes: Set[str] = NONE,
) -> Placement | Refusal:
    """Place the whole claim over `[start, until)` or nothing of it; `seed` is the reservation's id.

    Raises errors.Invalid for a selector that does not compile.
    """
    start, until = _bounds(window)
    ask = _prepare(claim, selectors)
    team = Team(ask)
    causes: Counter[Cause] = Counter()
    for entry in calendar.tightest(ask.leading, ask.need, start, seed):
        taken = _fit(calendar, ask, entry, start, until, exclude_nodes)
        if isinstance(taken, str):
            causes[taken] += 1
        elif (whole := team.join(entry, taken)) is not None:
            return Placement(tuple(Member(e.node.id, e.atoms(mask), ask.scalars, e.node.layout) for e, mask in whole))
    return _refuse(calendar, ask, start, causes)


def earliest_start(
    calendar: calendar.Calendar,
    claim: claim.Claim,
    duration_ms: int | None,
    not_before: int,
    not_after: int | None,
    selectors: selector.Selectors,
    exclude_nodes: Set[str] = NONE,
    ends_at: int = calendar.FOREVER,
) -> int | None:
    """The first instant from `not_before` to `not_after`, itself included, at which the claim fits.

    It needs the devices for `duration_ms`, None meaning for ever, and not beyond `ends_at`. A node that did not fit
    can only begin to where one of its bookings ends, so those instants are walked in order, each looking at its own
    node alone.
    """
    ask = _prepare(claim, selectors)
    hopes = Hopes(calendar, ask, duration_ms, exclude_nodes, ends_at)
    for entry in calendar.tightest(ask.leading, ask.need, not_before, ""):
        if hopes.fits(entry, not_before) and hopes.suffice(entry, not_before):
            return not_before
    for instant, entry in _changes(calendar, not_before):
        if instant >= ends_at or (not_after is not None and instant > not_after):
            return None
        if hopes.fits(entry, instant) and hopes.suffice(entry, instant):
            return instant
    return None


def _bounds(window: Window) -> tuple[int, int]:
    start, until = window[0], calendar.FOREVER if window[1] is None else window[1]
    if start >= until:
        raise ValueError(f"empty window [{start}, {until})")
    return start, until


def _prepare(wanted: claim.Claim, selectors: selector.Selectors) -> Ask:
    lines: list[Line] = []
    counts: Counter[str] = Counter()
    for index, line in enumerate(wanted.devices):
        text = line.selector or ""
        compiled = selectors.compile(text, f"devices[{index}].selector") if text else None
        if line.count:
            colocate = line.topology.colocate if line.topology else None
            lines.append(Line(line.class_, line.count, text, compiled, colocate))
            counts[line.class_] += line.count
    leading = max(counts, key=lambda name: (name in claim.GPU_CLASSES, counts[name]), default=calendar.ANY)
    return Ask(
        lines=tuple(lines),
        nodes=wanted.nodes,
        label=(wanted.topology.pack or wanted.topology.spread) if wanted.topology else None,
        spread=wanted.topology is not None and wanted.topology.spread is not None,
        scalars={name: amount for name, amount in wanted.scalars.items() if amount},
        leading=leading,
        need=counts[leading],
    )


class Team:
    """Nodes that fit, gathered until a gang is whole."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._by_value: dict[str, list[tuple[calendar.Entry, int]]] = {}

    def join(self, entry: calendar.Entry, taken: int) -> list[tuple[calendar.Entry, int]] | None:
        """The members, once there are enough: on one value of the label, or each on another."""
        value = _value(self._ask, entry)
        members = self._by_value.setdefault(value, [])
        members.append((entry, taken))
        if self._ask.spread:
            members = [first for first, *_ in self._by_value.values()]
        return members if len(members) == self._ask.nodes else None


class Hopes:
    """Nodes that fit at the instant reached, each known to until its next booking comes into the window."""

    def __init__(
        self, pool: calendar.Calendar, ask: Ask, duration_ms: int | None, exclude_nodes: Set[str], ends_at: int
    ) -> None:
        self._pool = pool
        self._ask = ask
        self._duration = calendar.FOREVER if duration_ms is None else duration_ms
        self._exclude = exclude_nodes
        self._ends_at = ends_at
        self._valid: dict[str, int] = {}
        self._values: Counter[str] = Counter()

    def fits(self, entry: calendar.Entry, start: int) -> bool:
        """Look at the node again; whether it fits from `start` on."""
        self._drop(entry)
        until = min(start + self._duration, self._ends_at)
        if isinstance(_fit(self._pool, self._ask, entry, start, until, self._exclude), str):
            return False
        self._values[_value(self._ask, entry)] += 1
        self._valid[entry.node.id] = entry.timeline.next_change(until + self._pool.gap_ms - 1)
        return True

    def suffice(self, entry: calendar.Entry, start: int) -> bool:
        """Whether the newly fitting node makes a gang whole, without those that lapsed in the meantime."""
        if not self._enough(entry):
            return False
        reach = min(min(start + self._duration, self._ends_at) + self._pool.gap_ms, calendar.FOREVER)
        for node_id in [node_id for node_id, valid in self._valid.items() if valid < reach]:
            self.fits(self._pool.entries[node_id], start)
        return self._enough(entry)

    def _enough(self, entry: calendar.Entry) -> bool:
        found = len(self._values) if self._ask.spread else self._values[_value(self._ask, entry)]
        return found >= self._ask.nodes

    def _drop(self, entry: calendar.Entry) -> None:
        if self._valid.pop(entry.node.id, None) is not None:
            value = _value(self._ask, entry)
            self._values[value] -= 1
            if not self._values[value]:
                del self._values[value]


def _changes(pool: calendar.Calendar, after: int) -> Iterator[tuple[int, calendar.Entry]]:
    """Instants after `after` at which a node's bookings, with their cleaning gap, begin or end, in order."""
    upcoming = pool.changes()
    while upcoming:
        boundary, node_id = upcoming[0]
        entry = pool.entries[node_id]
        following = entry.timeline.next_change(max(boundary, after - pool.gap_ms))
        if following < calendar.FOREVER:
            heapreplace(upcoming, (following, node_id))
        else:
            heappop(upcoming)
        if boundary + pool.gap_ms > after:
            yield boundary + pool.gap_ms, entry


def _value(ask: Ask, entry: calendar.Entry) -> str:
    return entry.node.labels[ask.label] if ask.label is not None else ""


def _fit(
    pool: calendar.Calendar, ask: Ask, entry: calendar.Entry, start: int, until: int, exclude: Set[str]
) -> int | Cause:
    """The mask of devices that the node would give, or why it cannot."""
    if entry.node.id in exclude:
        return "excluded"
    if ask.label is not None and ask.label not in entry.node.labels:
        return "label"
    for scalar, amount in ask.scalars.items():
        if amount > pool.spare(entry, scalar, start, until):
            return "scalars"
    free = pool.free(entry, start, until)
    seats = []
    for line in ask.lines:
        mask = free & entry.classes.get(line.class_, 0)
        if mask.bit_count() < line.count:
            return "later" if line.class_ == ask.leading else "devices"
        if line.selector is not None:
            mask &= _matching(entry, line, line.selector)
            if mask.bit_count() < line.count:
                return "selector"
        seat = _seat(entry, line, mask)
        if not seat.masks:
            return "topology"
        seats.append(seat)
    seats.sort(key=lambda seat: max(mask.bit_count() for mask in seat.masks) - seat.count)
    taken = _arrange(seats, [], iter(range(TRIES)))
    if taken is None:
        return "topology" if any(line.colocate for line in ask.lines) else "selector"
    return taken


def _matching(entry: calendar.Entry, line: Line, compiled: selector.Selector) -> int:
    """Mask of the line's class that the selector accepts, remembered with the node."""
    key = f"{line.class_} {line.text}"
    if (mask := entry.matching.get(key)) is None:
        devices = (atom for atom in entry.node.devices if atom.class_ == line.class_)
        mask = entry.mask(atom.id for atom in devices if compiled.matches(atom, entry.node))
        if len(entry.matching) >= REMEMBERED_SELECTORS:
            del entry.matching[next(iter(entry.matching))]
        entry.matching[key] = mask
    return mask


def _seat(entry: calendar.Entry, line: Line, mask: int) -> Seat:
    masks: tuple[int, ...] = (mask,)
    if line.colocate is not None:
        inside = (group & mask for group in entry.groups[line.colocate].values())
        masks = tuple(sorted((part for part in inside if part.bit_count() >= line.count), key=int.bit_count))
    kind = "parent" if line.class_ in ("gpu.mig", "gpu.slot") else "numa"
    return Seat(line.count, masks, tuple(entry.groups[kind].values()))


def _arrange(seats: list[Seat], held: Held, tries: Iterator[int]) -> int | None:
    """Distinct devices for every line, going back over the choices of groups until the tries are used up."""
    if not seats:
        return reduce(or_, (taken for _, taken in held), 0)
    for mask in seats[0].masks:
        if next(tries, None) is None:
            return None
        more = _sit(seats[0], mask, held)
        if more is not None and (taken := _arrange(seats[1:], more, tries)) is not None:
            return taken
    return None


def _sit(seat: Seat, mask: int, held: Held) -> Held | None:
    """One more line gets its devices, others moving to devices that suit them as well."""
    others = reduce(or_, (taken for _, taken in held), 0)
    taken = _pick(mask & ~others, seat.count, seat.groups)
    more = [*held, (mask, taken)]
    for _ in range(seat.count - taken.bit_count()):
        if not _augment(more, len(held), {len(held)}):
            return None
    return more


def _augment(held: Held, line: int, visited: set[int]) -> bool:
    """Give the line one more device, along a path of lines of which each hands one on (Kuhn's algorithm)."""
    allowed, taken = held[line]
    spare = allowed & ~reduce(or_, (others for _, others in held))
    if spare:
        held[line] = (allowed, taken | (spare & -spare))
        return True
    for other, (_, theirs) in enumerate(held):
        wanted = theirs & allowed
        if wanted and other not in visited:
            visited.add(other)
            if _augment(held, other, visited):
                handed = wanted & -wanted
                held[other] = (held[other][0], held[other][1] & ~handed)
                held[line] = (allowed, taken | handed)
                return True
    return False


def _pick(mask: int, count: int, groups: tuple[int, ...]) -> int:
    """Up to `count` bits of the mask: from the tightest group that has them, else from the largest ones."""
    if mask.bit_count() <= count:
        return mask
    parts = sorted((group & mask for group in groups), key=int.bit_count)
    enough = next((part for part in parts if part.bit_count() >= count), None)
    sources = [enough] if enough is not None else [*reversed(parts), mask]
    taken = 0
    for source in sources:
        rest = source & ~taken
        while rest and taken.bit_count() < count:
            taken |= rest & -rest
            rest &= rest - 1
    return taken


def _refuse(pool: calendar.Calendar, ask: Ask, start: int, causes: Counter[Cause]) -> Refusal:
    """Say it as in "no node fits: 2 nodes with 3 free" (anchors.md O20)."""
    census = pool.census(ask.leading, start)
    fitting = sum(nodes for count, nodes in census.items() if count >= ask.need) - causes.total()
    schedulable = pool.schedulable()
    census[0] += schedulable - census.total()
    few = sorted(((free, nodes) for free, nodes in census.items() if free < ask.need and nodes), reverse=True)
    parts = [f"{_nodes(nodes)} with {free} free" for free, nodes in few[:SAID_COUNTS]]
    causes["unschedulable"] = len(pool.entries) - schedulable
    parts += [f"{_nodes(causes[cause])} {words}" for cause, words in SAID.items() if causes[cause]]
    causes["few"] = sum(nodes for _, nodes in few)
    return Refusal(": ".join([_headline(ask, fitting), ", ".join(parts)]).removesuffix(": "), dict(+causes))


def _headline(ask: Ask, fitting: int) -> str:
    if not fitting:
        return "no node fits"
    if ask.label is None:
        return f"{ask.nodes} nodes asked, {fitting} fit"
    return f"{_nodes(fitting)} fit, but not {ask.nodes} on {'different' if ask.spread else 'one'} {ask.label}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
