"""What stands in a claim's way, as far as the caller may see it (domain.md §5, §10).

Reservations that the caller may see are named; of others it is told only how long something is busy.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, LiteralString

from msgspec import Struct

from domain import budget, errors, reservation, reservation_terms, waiting
from domain.access import Foresight
from projections import bookings
from queries.past import over
from queries.quota_peaks import Peak
from queries.reading import Reader
from queries.sight import may_get

MOST: Final = 20
"""Bookings named; those that end first come first."""

_LOOKED_AT: Final = 200
_NEVER: Final = 2**63 - 1

Kind = Literal["decision", "budget", "quota", "queue", "capacity", "reservation", "busy", "maintenance"]


class Obstacle(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One thing in the way. `limit`, `peak` and `at` are a quota's.

    `devices` on `nodes` are taken `from` then `until` then, which is absent for what has no end yet; both are epoch ms.
    """

    kind: Kind
    message: str
    resource: str | None = None
    limit: int | None = None
    peak: int | None = None
    at: int | None = None
    reservation_id: str | None = None
    tenant_id: str | None = None
    devices: int | None = None
    nodes: int | None = None
    from_: int | None = None
    until: int | None = None


class _Taken(Struct, frozen=True):
    """Devices of the claim's classes, or for one of scalars alone any scalars, that one reservation, or a plan of
    maintenance, has in its window."""

    reservation_id: str | None
    tenant_id: str
    from_: int
    until: int
    devices: int
    nodes: int


def _within(sql: LiteralString) -> LiteralString:
    overlapping = bookings.overlapping("%(from)s", "%(until)s")
    return over(sql.replace("{}", overlapping), device_bookings=bookings.DEVICES, scalar_bookings=bookings.SCALARS)


TAKEN: Final = _within("""
SELECT b.reservation_id, b.tenant_id, min(lower(b.during)), max(coalesce(upper(b.during), %(never)s)),
       count(*)::int, count(DISTINCT b.node_id)::int
FROM device_bookings AS b
JOIN devices AS d ON d.node_id = b.node_id AND d.id = b.device_id AND d.bookable
JOIN nodes AS n ON n.id = b.node_id AND n.schedulable
WHERE b.pool_id = %(pool)s AND {}
  AND d.class = ANY(%(classes)s) AND b.node_id <> ALL(%(without)s)
GROUP BY b.reservation_id, b.tenant_id, CASE WHEN b.reservation_id IS NULL THEN b.allocation_id END
ORDER BY 4, 3, 1 LIMIT %(most)s
""")
SCALARS_TAKEN: Final = _within("""
SELECT b.reservation_id, whose.tenant_id, min(lower(b.during)), max(coalesce(upper(b.during), %(never)s)),
       0, count(DISTINCT b.node_id)::int
FROM scalar_bookings AS b
JOIN nodes AS n ON n.id = b.node_id AND n.schedulable AND n.pool_id = %(pool)s
JOIN LATERAL (
    SELECT d.tenant_id FROM device_bookings AS d WHERE d.allocation_id = b.allocation_id LIMIT 1
) AS whose ON true
WHERE {} AND b.node_id <> ALL(%(without)s)
GROUP BY b.reservation_id, whose.tenant_id
ORDER BY 4, 3, 1 LIMIT %(most)s
""")


def of_decision(foreseen: Foresight, action: str) -> list[Obstacle]:
    if foreseen.verdict != "denied":
        return []
    return [Obstacle(kind="decision", message=f"{action} of this claim is not allowed to you")]


def of_budget(over: budget.Exceeded | None) -> list[Obstacle]:
    if over is None:
        return []
    return [
        Obstacle(
            kind="budget",
            message=errors.BudgetExceeded(over.kind, over.budget, over.needed, over.left, endless=over.endless).detail,
        )
    ]


def of_quota(peaks: Sequence[Peak]) -> list[Obstacle]:
    return [
        Obstacle(
            kind="quota",
            message=f"the {peak.kind}'s quota of {peak.resource} is {peak.limit}; its use would peak at {peak.after}",
            resource=peak.resource,
            limit=peak.limit,
            peak=peak.after,
            at=peak.at,
        )
        for peak in peaks
        if peak.over
    ]


def of_queue(ahead: int) -> list[Obstacle]:
    if not ahead:
        return []
    many = f"more than {waiting.AHEAD}" if ahead > waiting.AHEAD else ahead
    return [Obstacle(kind="queue", message=f"of the pool's queue, {many} come before it")]


def of_capacity(
    read: Reader,
    draft: reservation.Drafted,
    window: tuple[int, int],
    said: str,
    without: Sequence[str],
    *,
    owner: bool,
) -> list[Obstacle]:
    """The engine's sentence, and what takes devices of the claim's classes, or scalars, within the window."""
    wanted: dict[str, Any] = {
        "never": _NEVER,
        "pool": draft.pool_id,
        "from": window[0],
        "until": window[1],
        "classes": [line.class_ for line in draft.claim.devices if line.count],
        "without": list(without),
        "most": _LOOKED_AT,
    }
    sql = TAKEN if wanted["classes"] else SCALARS_TAKEN
    taken = [_Taken(*row) for row in read.connection.execute(sql, wanted).fetchall()]
    named = _named(read, taken, owner=owner)
    hidden = [one for one in taken if one.reservation_id is not None and one.reservation_id not in named]
    shown = [(one.until, _shown(one, owner=owner)) for one in taken if one not in hidden]
    shown += [(until, _busy(until)) for until in {one.until for one in hidden}]
    shown.sort(key=lambda pair: pair[0])
    return [Obstacle(kind="capacity", message=said), *(obstacle for _, obstacle in shown[:MOST])]


def _named(read: Reader, taken: Sequence[_Taken], *, owner: bool) -> frozenset[str]:
    """The pool's owner sees all that is booked there; a tenant what it may get of its own."""
    if owner:
        return frozenset(one.reservation_id for one in taken if one.reservation_id is not None)
    mine = [one.reservation_id for one in taken if one.reservation_id and one.tenant_id == read.session.tenant_id]
    return may_get(read, "compute-reservation", mine)


def _shown(one: _Taken, *, owner: bool) -> Obstacle:
    maintenance = one.reservation_id is None
    return Obstacle(
        kind="maintenance" if maintenance else "reservation",
        message="planned maintenance" if maintenance else f"booked by {one.reservation_id}",
        reservation_id=one.reservation_id,
        tenant_id=one.tenant_id if owner and not maintenance else None,
        devices=one.devices or None,
        nodes=one.nodes,
        from_=one.from_,
        until=_end(one.until),
    )


def _busy(until: int) -> Obstacle:
    """Others' bookings that end together are one: how many there are, how large, and whose, is not told."""
    end = _end(until)
    return Obstacle(
        kind="busy",
        message="busy, not known until when" if end is None else f"busy until {end}",
        until=end,
    )


def _end(until: int) -> int | None:
    return reservation_terms.shown_end(until)
