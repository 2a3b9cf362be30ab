"""The lines of a calendar's chart: nodes with what their devices are booked for, and the gaps to reserve in."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from . import gantt, render
from .calendar_view import View
from .gantt import Booking, Span

HEAD: Final = 26
ROW: Final = 20
LEAST_MS: Final = 60_000
"""The shortest gap that is offered: what a reservation lasts at least."""

MOST_LANES: Final = 8

Reserve = Callable[[Span], str]
"""The address of the form for a span, empty where there is none to offer."""


class Bar(Struct, frozen=True):
    """`said` is all of it in words; what leads nowhere has no `href`."""

    id: str
    x: float
    width: float
    kind: str
    label: str
    said: str
    href: str = ""
    open: bool = False


class Line(Struct, frozen=True):
    """A row of the chart: a node's head, its devices one by one, or how full it is. `toggle` folds or unfolds it."""

    kind: str
    label: str
    title: str
    y: int
    height: int
    bars: tuple[Bar, ...] = ()
    href: str = ""
    toggle: str = ""
    shade: Bar | None = None


class Node(Struct, frozen=True, kw_only=True):
    """What the lines of one node are made from.

    `devices` are those that can be booked, label by id. Bookings are all known up to `known_until`; behind it no gap is
    told. `blocked` says why nothing new goes there, since when.
    """

    id: str
    name: str
    devices: Mapping[str, str] = {}
    bookings: Sequence[Booking] = ()
    known_until: int | None = None
    blocked: tuple[str, int] | None = None
    gap_ms: int = 0
    open: bool = True
    toggle: str = ""


class Maker:
    """Stacks lines. `tenants` is whether bars say whose they are, `now` where gaps begin at the earliest.

    `linked` are the nodes and reservations that whoever looks may look at by themselves.
    """

    def __init__(self, view: View, now: int, reserve: Reserve, *, tenants: bool, linked: Container[str]) -> None:
        self._view = view
        self._window = view.window
        self._now = now
        self._reserve = reserve
        self._tenants = tenants
        self._linked = linked
        self.height = 0
        self.lines: list[Line] = []

    def node(self, one: Node) -> None:
        by_device: dict[str, list[Booking]] = {}
        for booking in one.bookings:
            if booking.device_id is not None:
                by_device.setdefault(booking.device_id, []).append(booking)
        if not one.open:
            self._add("heat", one.name, one.id, self._heat(one, by_device), node=one)
            return
        self._add("head", one.name, one.id, (), node=one)
        for device in [*one.devices, *sorted(by_device.keys() - one.devices.keys())]:
            taken = by_device.get(device, [])
            bars = [self._bar(booking) for booking in taken]
            if device in one.devices:
                bars = [*self._gaps(one, device, taken), *bars]
            self._add("row", one.devices.get(device) or _of_device(device), device, bars)
        loose = gantt.lanes(booking for booking in one.bookings if booking.device_id is None)
        for lane in loose[:MOST_LANES]:
            self._add("row", "no device", "scalars, or a node without devices", map(self._bar, lane))
        if len(loose) > MOST_LANES:
            self._add("row", f"and {len(loose) - MOST_LANES} rows more", "in the table below", ())

    def _add(self, kind: str, label: str, title: str, bars: Iterable[Bar], node: Node | None = None) -> None:
        height = ROW if kind == "row" else HEAD
        shade = self._shade(node) if node else None
        link = self._href(node.id) if node else ""
        toggle = node.toggle if node else ""
        self.lines.append(Line(kind, label, title, self.height, height, tuple(bars), link, toggle, shade))
        self.height += height

    def _shade(self, one: Node) -> Bar | None:
        if one.blocked is None or one.blocked[1] >= self._window.until:
            return None
        why, since = one.blocked
        x, width = self._window.x(since), self._window.width(since, None)
        return Bar(f"s-{one.id}", x, width, "blocked", why, f"{one.name} takes nothing new: {why}")

    def _bar(self, one: Booking) -> Bar:
        kind = "maintenance" if one.reservation_id is None else "allocated" if one.bound else "reserved"
        whose = f"{one.tenant_id}, " if self._tenants and one.reservation_id else ""
        what = render.short(one.reservation_id) if one.reservation_id else "maintenance"
        return Bar(
            id=f"b-{one.allocation_id}-{one.device_id}",
            x=self._window.x(one.from_),
            width=self._window.width(one.from_, one.until),
            kind=kind,
            label=one.tenant_id if whose else what,
            said=f"{whose}{what}, {STATES[kind]}, {times(one.from_, one.until)}",
            href=self._href(one.reservation_id or one.node_id),
            open=one.until is None or one.until > self._window.until,
        )

    def _href(self, id: str) -> str:
        return f"{render.PAGES[id.partition('_')[0]]}{id}" if id in self._linked else ""

    def _gaps(self, one: Node, device: str, taken: Sequence[Booking]) -> list[Bar]:
        window = self._window.cut(max(self._now, self._window.from_), one.known_until)
        if one.blocked is not None or window[0] >= window[1]:
            return []
        made: list[Bar] = []
        for free in gantt.gaps(taken, window, one.gap_ms, LEAST_MS):
            said = f"{one.name} {one.devices[device]} is free, {times(*free)}"
            x, width = self._window.x(free[0]), self._window.width(*free)
            made.append(self._offered(Bar(f"g-{device}-{free[1]}", x, width, "gap", "", said), free))
        return made

    def _heat(self, one: Node, by_device: Mapping[str, Sequence[Booking]]) -> list[Bar]:
        made: list[Bar] = []
        pieces = [self._left(cell) for cell in self._view.cells]
        for index, load in enumerate(gantt.load(one.devices, by_device, pieces)):
            known = one.known_until is None or load.cell[1] <= one.known_until
            touching = gantt.touching(one.bookings, load.cell)
            planned = bool(touching) and all(booking.reservation_id is None for booking in touching)
            held = f"{load.booked} of {load.of} {'in planned maintenance' if planned else 'booked'}"
            said = f"{one.name}: {'' if known else 'at least '}{held}, {times(*load.cell)}"
            ahead = " ahead" if load.booked and not any(booking.bound for booking in touching) else ""
            kind = "maintenance" if planned else f"heat-{_quarter(load.booked, load.of)}{ahead}"
            free = known and one.blocked is None and load.booked < load.of and load.cell[1] > self._now
            label = f"{load.booked}/{load.of}" if load.booked else ""
            x, width = self._window.x(self._view.cells[index][0]), self._window.width(*self._view.cells[index])
            bar = Bar(f"h-{one.id}-{index}", x, width, kind, label, said)
            made.append(self._offered(bar, load.cell) if free else bar)
        return made

    def _left(self, cell: Span) -> Span:
        """The cell, without what is over of it when it is the one around now."""
        return (self._now, cell[1]) if cell[0] < self._now < cell[1] else cell

    def _offered(self, bar: Bar, free: Span) -> Bar:
        href = self._reserve(free)
        return replace(bar, said=f"{bar.said}; reserve", href=href) if href else bar


STATES: Final = {"allocated": "in use", "reserved": "booked", "maintenance": "planned"}


def _quarter(part: int, of: int) -> int:
    """0 is nothing, 4 all, in between what is nearest without being either."""
    if not part or not of:
        return 0
    return 4 if part >= of else 1 + min(2, 3 * part // of)


def _of_device(id: str) -> str:
    return id if len(id) <= 14 else f"{id[:13]}…"


def times(from_: int, until: int | None) -> str:
    end = "no end yet" if until is None else f"until {spoken(until)}"
    return f"from {spoken(from_)} {end}"


def spoken(ms: int) -> str:
    """To the minute, UTC."""
    return render.iso(ms)[:16].replace("T", " ")


def labels(devices: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Devices of one node in the order of their places, each with a short name: gpu 0, gpu 1, disk 0."""
    made: dict[str, str] = {}
    counts: dict[str, int] = {}
    for one in sorted(devices, key=_place):
        number = counts.get(one["class"], 0)
        counts[one["class"]] = number + 1
        profile = one.get("attributes", {}).get("profile")
        made[one["id"]] = f"{one['class']} {number}{f' {profile}' if isinstance(profile, str) else ''}"
    return made


_ORDER: Final = ("node", "gpu", "gpu.mig", "gpu.slot", "nic.vf", "disk")


def _place(one: Mapping[str, Any]) -> tuple[int, int, str, str]:
    bus = str(one.get("attributes", {}).get("pciBusId", ""))
    return _ORDER.index(one["class"]) if one["class"] in _ORDER else 9, one.get("numaNode") or 0, bus, one["id"]
