"""Counting what pools have, hold and have left, at one instant or at many: each table is read once (domain.md §4)."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, LiteralString

from msgspec import Struct

from projections import bookings, bookings_past, device_counts, quotas_past, versions
from queries.past import over
from queries.reading import Reader


class Points(Struct, frozen=True):
    """`count` instants from `first` on (epoch ms), `step` ms apart."""

    first: int
    step: int = 1
    count: int = 1

    def at(self, index: int) -> int:
        return self.first + index * self.step

    @property
    def wanted(self) -> dict[str, int]:
        """As SQL takes them; `_end` is behind the last point."""
        return {"_first": self.first, "_step": self.step, "_end": self.at(self.count - 1) + 1}


class Count(Struct):
    """One resource of one pool at one instant. `idle_use` is what is used of nodes that are not schedulable."""

    total: int = 0
    allocatable: int = 0
    allocated: int = 0
    reserved: int = 0
    idle_use: int = 0
    own_allocated: int = 0
    own_reserved: int = 0

    @property
    def free(self) -> int:
        return max(0, self.allocatable - self.allocated - self.reserved)


Counts = dict[str, dict[str, Count]]
"""By pool and resource."""

_WITHIN: LiteralString = "during && int8range(%(_first)s, %(_end)s)"
_OVERLAPPING: LiteralString = bookings.overlapping("%(_first)s", "%(_end)s")
_COVERED: LiteralString = """
    (greatest(lower(during), %(_first)s) - %(_first)s + %(_step)s - 1) / %(_step)s,
    (least(coalesce(upper(during), %(_end)s), %(_end)s) - %(_first)s + %(_step)s - 1) / %(_step)s
"""
"""The first point that an interval covers, and the first behind it: points at which it is over are not its own."""

_DEVICES: Final[LiteralString] = """
SELECT counted.pool_id, counted.class, sum(counted.devices)::bigint,
       coalesce(sum(counted.devices) FILTER (WHERE nodes.schedulable), 0)::bigint
FROM device_counts AS counted JOIN nodes AS nodes ON nodes.id = counted.node_id
WHERE counted.pool_id = ANY(%(pools)s) GROUP BY 1, 2
"""
_SCALARS: Final[LiteralString] = """
SELECT n.pool_id, s.key, sum(s.value::bigint)::bigint,
       coalesce(sum(s.value::bigint) FILTER (WHERE n.schedulable), 0)::bigint
FROM nodes AS n, jsonb_each_text(n.scalars) AS s
WHERE n.pool_id = ANY(%(pools)s) GROUP BY 1, 2
"""
_BOOKED: LiteralString = (
    """SELECT first, behind, taken.pool_id, class, mine, bound, n.schedulable, planned, sum(many)::bigint
FROM (
    SELECT """
    + _COVERED
    + """, b.pool_id, d.class, b.tenant_id = %(me)s, b.bound, b.reservation_id IS NULL, b.node_id, count(*)
    FROM device_bookings AS b CROSS JOIN LATERAL devices AS d
    WHERE b.pool_id = ANY(%(pools)s) AND """
    + _OVERLAPPING
    + """
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
) AS taken (first, behind, pool_id, class, mine, bound, planned, node_id, many)
JOIN nodes AS n ON n.id = taken.node_id
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
"""
)
"""Each device is looked up by itself, and each node once for all that are booked of it: a plan that joins them thinks
that it finds hardly any, as what a node's id and a device's say of each other is nothing that the server knows.
"""
_SCALARS_BOOKED: LiteralString = (
    "SELECT "
    + _COVERED.replace("during", "b.during")
    + """, n.pool_id, b.resource, d.tenant_id = %(me)s, d.bound, n.schedulable, false, sum(b.amount)::bigint
FROM scalar_bookings AS b JOIN nodes AS n ON n.id = b.node_id
JOIN LATERAL (
    SELECT tenant_id, bound FROM device_bookings AS booked WHERE booked.allocation_id = b.allocation_id LIMIT 1
) AS d ON true
WHERE n.pool_id = ANY(%(pools)s) AND """
    + _OVERLAPPING
    + " GROUP BY 1, 2, 3, 4, 5, 6, 7, 8"
)
_SCALARS_PLANNED: LiteralString = (
    "SELECT "
    + _COVERED
    + """, b.pool_id, s.key, false, false, n.schedulable, true, sum(s.value::bigint)::bigint
FROM (
    SELECT DISTINCT b.allocation_id, b.node_id, b.pool_id, b.during FROM device_bookings AS b
    WHERE b.reservation_id IS NULL AND b.pool_id = ANY(%(pools)s) AND """
    + _OVERLAPPING
    + """
) AS b
JOIN nodes AS n ON n.id = b.node_id CROSS JOIN LATERAL jsonb_each_text(n.scalars) AS s
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
"""
)
"""Planned maintenance is of the whole node."""
_CLAIMED: LiteralString = (
    "SELECT "
    + _COVERED
    + """, held.scope, held.resource, sum(held.amount)::bigint
FROM unnest(%(scopes)s::text[]) AS wanted (scope)
JOIN quota_claims AS held
  ON hashtextextended(held.scope, 0) = hashtextextended(wanted.scope, 0) AND held.scope = wanted.scope
WHERE """
    + _WITHIN
    + " GROUP BY 1, 2, 3, 4"
)
_DEVICE: LiteralString = """
(SELECT d.class FROM devices AS d WHERE d.node_id = b.node_id AND d.id = b.device_id AND d.bookable LIMIT 1)
"""
_DEVICE_THEN: LiteralString = (
    "(SELECT h.class FROM devices_history AS h WHERE h.id = b.node_id || '|' || b.device_id AND h.bookable AND "
    + versions.CURRENT
    + " LIMIT 1)"
)
_NODES_THEN: LiteralString = (
    "(SELECT h.id, h.pool_id, h.schedulable, kept.scalars FROM nodes_history AS h LEFT JOIN "
    "(SELECT h.id, h.scalars::jsonb AS scalars FROM node_scalars_history AS h WHERE "
    + versions.CURRENT
    + ") AS kept USING (id) WHERE "
    + versions.CURRENT
    + ")"
)


def _both(sql: LiteralString) -> tuple[LiteralString, LiteralString]:
    """A question as of now, and as of a position."""
    now = over(
        sql,
        device_counts=device_counts.NOW,
        devices=_DEVICE,
        device_bookings=bookings.DEVICES,
        scalar_bookings=bookings.SCALARS,
    )
    return now, over(
        sql,
        device_counts=device_counts.THEN,
        devices=_DEVICE_THEN,
        nodes=_NODES_THEN,
        device_bookings=bookings_past.DEVICES,
        scalar_bookings=bookings_past.SCALARS,
        quota_claims=quotas_past.CLAIMS,
    )


_FLEET: Final = (_both(_DEVICES), _both(_SCALARS))
BOOKED: Final = _both(_BOOKED)
SCALARS_BOOKED: Final = _both(_SCALARS_BOOKED)
_TAKEN: Final = (BOOKED, SCALARS_BOOKED, _both(_SCALARS_PLANNED))
_HELD: Final = _both(_CLAIMED)


class _Steps:
    """Amounts over ranges of points, summed up to what holds at each point."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._changes: dict[Any, list[int]] = {}

    def add(self, key: Any, first: int, behind: int, amount: int) -> None:
        changes = self._changes.setdefault(key, [0] * (self._count + 1))
        changes[first] += amount
        changes[behind] -= amount

    def sums(self) -> Iterator[tuple[Any, list[int]]]:
        for key, changes in self._changes.items():
            yield key, list(accumulate(changes[:-1]))


def count(read: Reader, pools: list[str], points: Points, me: str) -> list[Counts]:
    """For each point what the pools have and hold, and what of that is of the tenant `me`."""
    wanted = {"pools": pools, "me": me, "_as_of": read.as_of, **points.wanted}
    then = read.as_of is not None
    found: list[Counts] = [defaultdict(lambda: defaultdict(Count)) for _ in range(points.count)]
    for sql in _FLEET:
        for pool, resource, total, allocatable in read.connection.execute(sql[then], wanted).fetchall():
            for counts in found:
                counts[pool][resource] = Count(total, allocatable)
    steps = _Steps(points.count)
    for sql in _TAKEN:
        for first, behind, pool, resource, mine, bound, schedulable, planned, n in read.connection.execute(
            sql[then], wanted
        ).fetchall():
            for field, amount in _told(n, mine=mine, bound=bound, schedulable=schedulable, planned=planned):
                steps.add((pool, resource, field), first, behind, amount)
    for (pool, resource, field), sums in steps.sums():
        for counts, amount in zip(found, sums, strict=True):
            one = counts[pool][resource]
            setattr(one, field, getattr(one, field) + amount)
    return found


def claimed(read: Reader, scopes: list[str], points: Points) -> dict[tuple[str, str], list[int]]:
    """What quotas' claims add up to at each point, by scope and resource."""
    steps = _Steps(points.count)
    wanted = {"scopes": scopes, "_as_of": read.as_of, **points.wanted}
    rows = read.connection.execute(_HELD[read.as_of is not None], wanted).fetchall()
    for first, behind, scope, resource, amount in rows:
        steps.add((scope, resource), first, behind, amount)
    return dict(steps.sums())


def _told(n: int, *, mine: bool, bound: bool, schedulable: bool, planned: bool) -> Iterator[tuple[str, int]]:
    """What `n` devices that are booked say: planned maintenance of a schedulable node takes from what it can give."""
    if planned:
        if schedulable:
            yield "allocatable", -n
        return
    yield ("allocated" if bound else "reserved") if schedulable else "idle_use", n
    if mine:
        yield "own_allocated" if bound else "own_reserved", n
