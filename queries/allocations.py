"""Allocations: what a reservation has on each of its nodes (domain.md §5, §10).

A pool's owner sees those on its nodes, a tenant its own. One that never began leaves none when it is cancelled.
"""

from typing import Annotated, Final, Literal, LiteralString

from msgspec import Meta, Struct

from domain import errors
from domain.operation import Answer, KnownListing, Operation, Page
from projections import bookings, bookings_past, versions
from queries import past
from queries.past import over
from queries.reading import Reader, filters
from queries.sight import Through

State = Literal["placed", "binding", "active", "releasing", "released"]


class List(KnownListing, frozen=True, kw_only=True):
    pool_id: str | None = None
    node_id: str | None = None
    reservation_id: str | None = None
    state: Annotated[State, Meta(description="releasing: its devices are not proved free yet")] | None = None
    released: Annotated[bool, Meta(description="false: those that hold their devices, or will")] | None = None


class Allocation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Devices and scalars of one node for one reservation, over `[from, until)` in epoch ms.

    `until` is absent where it has no end, and while nobody knows when its node will have proved the last of them free.
    """

    id: str
    reservation_id: str
    tenant_id: str
    pool_id: str
    node_id: str
    node_name: str
    atoms: tuple[str, ...]
    scalars: dict[str, int]
    state: State
    from_: int
    until: int | None = None


_SHOWN: Final[LiteralString] = """
convert_to(json_strip_nulls(json_build_object(
    'id', placed.id, 'reservationId', placed.reservation_id, 'tenantId', placed.tenant_id,
    'poolId', placed.pool_id, 'nodeId', placed.node_id, 'nodeName', nodes.name, 'atoms', placed.atoms,
    'scalars', (
        SELECT coalesce(json_object_agg(s.resource, s.amount ORDER BY s.resource), '{}'::json)
        FROM scalars AS s WHERE s.allocation_id = placed.id
    ),
    'state', placed.state, 'from', placed.from_at, 'until', placed.until))::text, 'UTF8')
FROM (
    SELECT b.allocation_id AS id, b.reservation_id, b.tenant_id, b.pool_id, b.node_id,
           coalesce(json_agg(b.device_id ORDER BY b.device_id) FILTER (WHERE b.device_id <> b.allocation_id),
                    '[]'::json) AS atoms, min(lower(b.during)) AS from_at,
           CASE WHEN NOT bool_or(upper_inf(b.during)) THEN nullif(max(upper(b.during)), 253402300799000) END AS until,
           CASE WHEN bool_and(b.freed) THEN 'released' WHEN bool_or(b.ended) THEN 'releasing'
                WHEN NOT bool_or(b.bound) THEN 'placed'
                WHEN r.state_name = 'active' THEN 'active' ELSE 'binding' END AS state
    FROM devices AS b
    JOIN pools ON pools.id = b.pool_id
    LEFT JOIN states AS r ON r.id = b.reservation_id
    WHERE b.reservation_id IS NOT NULL
      AND (%(tenant)s::text IS NULL OR b.tenant_id = %(tenant)s OR pools.tenant_id = %(tenant)s)
      AND (%(pool_id)s::text IS NULL OR b.pool_id = %(pool_id)s)
      AND (%(node_id)s::text IS NULL OR b.node_id = %(node_id)s)
      AND (%(reservation_id)s::text IS NULL OR b.reservation_id = %(reservation_id)s)
      AND (%(released)s::boolean IS NULL OR b.freed = %(released)s)
      AND (%(released)s::boolean IS DISTINCT FROM false OR b.matters_until = 9223372036854775807)
    GROUP BY b.allocation_id, b.reservation_id, b.tenant_id, b.pool_id, b.node_id, r.state_name
) AS placed
JOIN nodes ON nodes.id = placed.node_id
WHERE %(state)s::text IS NULL OR placed.state = %(state)s
"""
_WAS: Final[LiteralString] = "(SELECT h.id, h.state_name FROM reservations_history AS h WHERE " + versions.CURRENT + ")"
_ROWS = past.Rows(
    "SELECT placed.from_at, placed.id, 0::bigint, "
    + over(_SHOWN, devices=bookings.DEVICES, scalars="scalar_bookings", states="reservations"),
    "SELECT placed.id, " + over(_SHOWN, devices=bookings_past.DEVICES, scalars=bookings_past.SCALARS, states=_WAS),
)


def seen(allocation: LiteralString, devices: LiteralString) -> Through:
    """Of its own pools the caller sees all, elsewhere what belongs to reservations that it may get.

    `allocation` is the id of a listed row's allocation, `devices` what was booked: now, or as it was.
    """
    whose: LiteralString = (
        "LEFT JOIN LATERAL (SELECT b.reservation_id, pools.tenant_id = %(tenant)s AS own "
        "FROM devices AS b JOIN pools ON pools.id = b.pool_id WHERE b.allocation_id = "
        + allocation
        + " LIMIT 1) AS whose ON true"
    )
    joined = over(whose, devices=devices)
    return Through("compute-reservation", thing="whose.reservation_id", joined=joined, own="coalesce(whose.own, false)")


SEEN = seen("listed.id", "device_bookings")
WAS_SEEN = seen("listed.id", bookings_past.DEVICES)


def list_(query: List, read: Reader) -> Answer:
    wanted = filters(query, read)
    if query.state not in (None, "released") and query.released is None:
        wanted["released"] = False
    return past.listed(read, query, _ROWS, wanted, type=SEEN if read.as_of is None else WAS_SEEN)


OPERATIONS = (
    Operation(
        name="allocations.list",
        verb="GET",
        path="/v1/allocations",
        request=List,
        response=Page[Allocation],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List the allocations of your pools and of your tenant: what reservations have on each node",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "nodeName", "state", "from", "until", "reservationId", "tenantId", "atoms"),
    ),
)
