"""Calendar: what is booked when, of a pool, a node or a tenant, and what is free to reserve."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from adapters.console import calendar_lines, calendar_view, gantt, seen, ways
from adapters.console.ask import Ask
from adapters.console.calendar_lines import Maker, Node
from adapters.console.calendar_view import View
from adapters.console.gantt import Booking, Span
from adapters.console.page import Page
from domain import asking

NODES: Final = 20
"""Nodes of one page."""

OPEN: Final = 32
"""As many devices are shown one by one; of more, each node is one row that can be unfolded."""

PAGES_READ: Final = 5
"""Of a thousand bookings or devices each; a chart of more is told to be cut."""

MOST: Final = 1000
"""Allocations whose nodes' names are looked up."""

LISTED: Final = 200
"""Rows of the table below the chart."""

HERE: Final = "/calendar"
EVERY: Final = "all"
"""For a pool's id: no pool in particular."""

GPUS: Final = ("gpu", "gpu.mig", "gpu.slot", "node")
CLASSES: Final = (("", "GPUs"), ("nic.vf", "Virtual functions"), ("disk", "Disks"), ("all", "All devices"))


class Wanted(Struct, frozen=True):
    """What the address asks for; `scope` is the widest that the caller has."""

    pool_id: str
    node_id: str
    tenant_id: str
    class_: str
    open: str
    cursor: str
    scope: str


class Found(Struct, frozen=True):
    """`cut` is whether there are more bookings than are shown, `following` the cursor of the next page of nodes."""

    nodes: tuple[Node, ...]
    cut: bool = False
    following: str = ""
    hardware: bool = False


def build(ask: Ask) -> dict[str, Any]:
    now = ask.now
    view = calendar_view.chosen(ask.query, now)
    pools = ask("pools.list", scope=ask.widest("pools.list"), limit=1000)["items"]
    wanted = _wanted(ask, pools)
    node = ask.if_may("nodes.get", id=wanted.node_id) if _may_resolve(ask, wanted.node_id) else None
    pool_id = wanted.pool_id or (node or {}).get("poolId") or ""
    found = _hardware(ask, view, wanted, node, _gap_ms(pools, pool_id)) if not wanted.tenant_id else None
    found = found or _booked(ask, view, wanted)
    reserving = _Reserving(pool_id, now, bool(pool_id and ask.offered("reservations.create", poolId=pool_id)))
    whose = found.hardware or wanted.scope == "fleet"
    rows = [booking for one in found.nodes for booking in one.bookings]
    maker = Maker(view, now, reserving.address, tenants=whose, linked=_linked(ask, found, rows))
    for one in found.nodes:
        maker.node(one)
    return {
        "view": view,
        "today": now,
        "line": view.window.x(now) if view.window.from_ <= now < view.window.until else None,
        "pools": pools,
        "wanted": wanted,
        "classes": CLASSES,
        "node": node,
        "found": found,
        "lines": maker.lines,
        "height": maker.height,
        "whose": whose,
        "reserving": reserving,
        "strips": _strips(ask, view, pool_id, now, reserving),
        "table": _table(rows, found.nodes)[:LISTED],
        "allocations": len({booking.allocation_id for booking in rows}),
        "tenants": sorted({booking.tenant_id for booking in rows if booking.reservation_id}) if whose else [],
        "times": calendar_lines.times,
        "states": calendar_lines.STATES,
    }


def _linked(ask: Ask, found: Found, rows: Iterable[Booking]) -> Container[str]:
    """What the chart leads to: nodes of one's own and reservations that one may see."""
    nodes = {one.id for one in found.nodes} if found.hardware else set()
    return ways.of(ask, nodes | {one.reservation_id for one in rows if one.reservation_id}).things


def _wanted(ask: Ask, pools: Sequence[Mapping[str, Any]]) -> Wanted:
    """Of an address that names nothing, the first pool."""
    query = ask.query
    named = any(name in query for name in ("poolId", "nodeId", "tenantId"))
    first = next((pool["id"] for pool in pools if not pool["retired"]), "")
    return Wanted(
        pool_id=query.get("poolId", "").removeprefix(EVERY) if named else first,
        node_id=query.get("nodeId", "").strip(),
        tenant_id=query.get("tenantId", "").strip(),
        class_=query.get("class", ""),
        open=query.get("open", ""),
        cursor=query.get("cursor", ""),
        scope=ask.widest("bookings.list"),
    )


def _may_resolve(ask: Ask, node_id: str) -> bool:
    """A tenant names nodes that it has devices on, and does not see them."""
    return bool(node_id) and ask.may("nodes.get", id=node_id)


def _gap_ms(pools: Iterable[Mapping[str, Any]], pool_id: str) -> int:
    """Its cleaning gap is told to the pool's owner alone; nobody else is shown gaps between bookings."""
    return next((1000 * int(pool["policy"]["cleaningSeconds"]) for pool in pools if pool["id"] == pool_id), 0)


def _hardware(ask: Ask, view: View, wanted: Wanted, node: Any, gap_ms: int) -> Found | None:
    """Every node of the owner's with its devices, booked or not, by name and in the past by id.

    None where the caller owns none of them.
    """
    if node is not None:
        nodes, following = [node], ""
    elif wanted.pool_id and not wanted.node_id:
        asked = {"poolId": wanted.pool_id, "scope": wanted.scope, "limit": NODES, "cursor": wanted.cursor}
        in_order = {"sort": "name", "order": "asc"} if ask.as_of is None else {}
        listed = ask.if_may("nodes.list", **asked, **in_order)
        nodes, following = (listed["items"], listed.get("nextCursor") or "") if listed else ([], "")
    else:
        nodes, following = [], ""
    if not nodes:
        return None
    ids = [one["id"] for one in nodes]
    by_node = _devices(ask, ids, wanted)
    devices = {id: calendar_lines.labels(by_node[id]) for id in ids}
    few = sum(map(len, devices.values())) <= OPEN or node is not None
    opened = _opened(wanted.open, ids, few=few)
    booked, known_until = _bookings(ask, view, wanted, ids)
    bookings = _by_node(booked)
    made = [
        Node(
            id=one["id"],
            name=one["name"],
            devices=devices[one["id"]],
            bookings=_of_class(bookings[one["id"]], devices[one["id"]], wanted),
            known_until=known_until,
            blocked=_blocked(one),
            gap_ms=gap_ms,
            open=one["id"] in opened,
            toggle=",".join(sorted(opened ^ {one["id"]})) or "none",
        )
        for one in nodes
    ]
    return Found(tuple(made), known_until is not None, following, hardware=True)


def _devices(ask: Ask, node_ids: Sequence[str], wanted: Wanted) -> Mapping[str, list[Mapping[str, Any]]]:
    """Those of the class that is shown, by their nodes."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    if not ask.may("devices.list", scope=wanted.scope):
        return found
    class_ = "" if wanted.class_ == "all" else wanted.class_
    fields = {"nodeId": list(node_ids), "class": class_, "bookable": "true", "scope": wanted.scope}
    rows, _ = seen.whole(ask, "devices.list", PAGES_READ, **fields)
    for one in rows:
        if wanted.class_ or one["class"] in GPUS:
            found[one["nodeId"]].append(one)
    return found


def _by_node(bookings: Iterable[Booking]) -> dict[str, list[Booking]]:
    found: dict[str, list[Booking]] = defaultdict(list)
    for one in bookings:
        found[one.node_id].append(one)
    return found


def _of_class(bookings: Sequence[Booking], devices: Mapping[str, str], wanted: Wanted) -> tuple[Booking, ...]:
    """Of devices that are gone the class is not known: they are shown with the GPUs."""
    if wanted.class_ in ("", "all"):
        return tuple(bookings) if wanted.class_ else tuple(one for one in bookings if _is_gpu(one, devices))
    return tuple(one for one in bookings if one.device_id in devices)


def _is_gpu(one: Booking, devices: Mapping[str, str]) -> bool:
    return one.device_id is None or one.device_id in devices or one.device_id.startswith(("GPU-", "MIG-"))


def _opened(text: str, ids: Sequence[str], *, few: bool) -> set[str]:
    if text == "all" or (not text and few):
        return set(ids)
    return set(text.split(",")) & set(ids)


def _blocked(node: Mapping[str, Any]) -> tuple[str, int] | None:
    reasons = node["unschedulableReasons"]
    if not reasons:
        return None
    return ", ".join(one["reason"] for one in reasons), min(one["since"] for one in reasons)


def _bookings(ask: Ask, view: View, wanted: Wanted, node_ids: Sequence[str] = ()) -> tuple[list[Booking], int | None]:
    """Those of the window, and up to when they are all of them where there are more than are shown."""
    rows, more = seen.whole(
        ask,
        "bookings.list",
        PAGES_READ,
        scope=wanted.scope,
        poolId="" if node_ids else wanted.pool_id,
        nodeId=list(node_ids) or ([wanted.node_id] if wanted.node_id else None),
        tenantId=wanted.tenant_id,
        **{"from": view.window.from_, "until": view.window.until},
    )
    found = msgspec.convert(rows, list[Booking])
    if not more:
        return found, None
    in_order = ask.as_of is None and found
    return found, max(found[-1].from_, view.window.from_) if in_order else view.window.from_


def _booked(ask: Ask, view: View, wanted: Wanted) -> Found:
    """Nodes on which the caller has something, by what it has there."""
    bookings, known_until = _bookings(ask, view, wanted)
    by_node = _by_node(bookings)
    names = {one.node_id: one.node_name for one in bookings}
    ids = sorted(by_node, key=lambda id: (names[id], id))
    nodes = (Node(id=id, name=names[id], bookings=by_node[id], known_until=known_until) for id in ids)
    return Found(tuple(nodes), cut=known_until is not None)


class _Reserving(Struct, frozen=True):
    """Where a click on what is free leads; nowhere for who may not reserve."""

    pool_id: str
    now: int
    may: bool

    def address(self, free: Span) -> str:
        """Begins and ends on a minute; what is free now begins when it is asked for."""
        from_ = -(-free[0] // 60_000) * 60_000
        seconds = (free[1] - (from_ if free[0] > self.now else self.now)) // 60_000 * 60
        if not self.may or seconds < 60 or from_ > self.now + asking.AHEAD_MS:
            return ""
        asked = {"poolId": self.pool_id, "durationSeconds": str(seconds)}
        if free[0] > self.now:
            asked["startsAt"] = str(from_)
        return f"/reserve?{urlencode(asked)}"


class Strip(Struct, frozen=True):
    """What a pool has left of one resource; `most` is what the picture ends at."""

    resource: str
    main: bool
    most: int
    bars: tuple[calendar_lines.Bar, ...]
    cells: tuple[tuple[Span, int, str], ...]
    outline: str


def _strips(ask: Ask, view: View, pool_id: str, now: int, reserving: _Reserving) -> list[Strip]:
    """Told of now and later alone, so that a day that is over has none."""
    if not pool_id or view.window.until <= now or not ask.may("capacity.timeline", poolId=pool_id):
        return []
    span = {"from": max(view.window.from_, now), "until": view.window.until}
    rows = ask("capacity.timeline", poolId=pool_id, **span, step=view.scale.sample_s)["items"]
    by_resource: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_resource.setdefault(row["resource"], []).append(row)
    return [
        _strip(view, resource, points, now, reserving)
        for resource, points in sorted(by_resource.items(), key=lambda pair: (pair[0] not in GPUS, pair[0]))
    ]


def _strip(view: View, resource: str, points: Sequence[Mapping[str, Any]], now: int, reserving: _Reserving) -> Strip:
    free = [(row["at"], row["available"]) for row in points]
    most = max(max(row.get("total") or row.get("limit") or 0, row["available"]) for row in points)
    bars, cells = [], []
    for cell, left in zip(view.cells, gantt.least(free, view.cells), strict=True):
        if left is None or cell[1] <= now:
            continue
        span = (max(cell[0], now), cell[1])
        href = reserving.address(span) if left else ""
        said = f"{left} {resource} free, {calendar_lines.times(*span)}{'; reserve' if href else ''}"
        kind = "full" if not left else "free"
        x, width = view.window.x(cell[0]), view.window.width(*cell)
        bars.append(calendar_lines.Bar(f"c-{resource}-{cell[0]}", x, width, kind, str(left), said, href))
        cells.append((span, left, href))
    return Strip(resource, resource in GPUS, most, tuple(bars), tuple(cells), _outline(view, free, most))


def _outline(view: View, free: Sequence[tuple[int, int]], most: int) -> str:
    """Steps, in a square of 100 by 100, from the bottom."""
    if not free or not most:
        return ""
    made: list[tuple[float, float, float]] = []
    for index, (at, left) in enumerate(free):
        y = 100 - 100 * left / most
        x = view.window.x(at)
        end = view.window.x(free[index + 1][0]) if index + 1 < len(free) else 100.0
        if made and made[-1][2] == y:
            made[-1] = (made[-1][0], end, y)
        else:
            made.append((x, end, y))
    steps = " ".join(f"{x:.3f},{y:.2f} {end:.3f},{y:.2f}" for x, end, y in made)
    return f"{made[0][0]:.3f},100 {steps} {made[-1][1]:.3f},100"


def _table(bookings: Iterable[Booking], nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """One row of each allocation and time, soonest first."""
    names = {one.id: one.name for one in nodes}
    rows: dict[tuple[str, int, int | None], dict[str, Any]] = {}
    for one in sorted(bookings, key=lambda one: (one.from_, one.allocation_id)):
        key = (one.allocation_id, one.from_, one.until)
        row = rows.setdefault(key, {"booking": one, "node": names[one.node_id], "devices": 0})
        row["devices"] += one.device_id is not None
    return list(rows.values())


PAGES: Final = (
    Page(
        path=HERE,
        name="console.calendar",
        template="calendar.html",
        build=build,
        title="Calendar",
        nav="Calendar",
        needs="bookings.list",
        live=("rsv", "node", "pool"),
    ),
)
