"""Bookings as the database holds them: the pool's owner sees all, a tenant its own (domain.md §10)."""

from typing import Annotated, Final, LiteralString

from msgspec import Meta, Struct

from domain import errors
from domain.operation import Answer, KnownListing, Operation, Page
from projections import bookings, bookings_past
from queries import allocations, past
from queries.past import over
from queries.reading import Ids, Reader, filters


class List(KnownListing, frozen=True, kw_only=True):
    """`from` and `until` choose bookings that overlap `[from, until)` in epoch ms."""

    pool_id: str | None = None
    node_id: Ids | None = None
    reservation_id: str | None = None
    tenant_id: Annotated[str | None, Meta(description="whose bookings, of those that you see")] = None
    from_: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    until: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class Booking(Struct, frozen=True, kw_only=True, rename="camel"):
    """One atom held over `[from, until)`; without `until` it has no end, or is held until its node proves it free.

    Without a reservation it is held for planned maintenance. Without a device it is an allocation of scalars alone.
    """

    device_id: str | None
    node_id: str
    node_name: str
    pool_id: str
    reservation_id: str | None
    allocation_id: str
    tenant_id: str
    bound: bool
    from_: int
    until: int | None


_SHOWN: Final[LiteralString] = """
    convert_to(json_build_object(
        'deviceId', nullif(b.device_id, b.allocation_id), 'nodeId', b.node_id,
        'nodeName', coalesce((SELECT name FROM nodes WHERE nodes.id = b.node_id), b.node_id),
        'poolId', b.pool_id, 'reservationId', b.reservation_id, 'allocationId', b.allocation_id,
        'tenantId', b.tenant_id, 'bound', b.bound,
        'from', lower(b.during), 'until', nullif(upper(b.during), 253402300799000))::text, 'UTF8')
    FROM devices AS b JOIN pools ON pools.id = b.pool_id
    WHERE (%(tenant)s::text IS NULL OR b.tenant_id = %(tenant)s OR pools.tenant_id = %(tenant)s)
      AND (%(pool_id)s::text IS NULL OR b.pool_id = %(pool_id)s)
      AND (%(node_id)s::text[] IS NULL OR b.node_id = ANY(%(node_id)s))
      AND (%(reservation_id)s::text IS NULL OR b.reservation_id = %(reservation_id)s)
      AND (%(tenant_id)s::text IS NULL OR b.tenant_id = %(tenant_id)s)
      AND (%(until)s::bigint IS NULL OR lower(b.during) < %(until)s)
      AND (%(from_)s::bigint IS NULL
           OR (b.matters_until > %(from_)s AND (upper_inf(b.during) OR upper(b.during) > %(from_)s)))
"""
_ID: Final[LiteralString] = "b.device_id || '|' || b.allocation_id"
_ROWS = past.Rows(
    "SELECT lower(b.during), " + _ID + ", 0::bigint, " + over(_SHOWN, devices=bookings.DEVICES),
    "SELECT " + _ID + ", " + over(_SHOWN, devices=bookings_past.DEVICES),
)
_ALLOCATION: Final[LiteralString] = "split_part(listed.id, '|', 2)"
SEEN = allocations.seen(_ALLOCATION, "device_bookings")
WAS_SEEN = allocations.seen(_ALLOCATION, bookings_past.DEVICES)


def list_(query: List, read: Reader) -> Answer:
    if query.from_ is not None and query.until is not None and query.from_ >= query.until:
        raise errors.Invalid("until", "lies at or before from")
    return past.listed(read, query, _ROWS, filters(query, read), type=SEEN if read.as_of is None else WAS_SEEN)


OPERATIONS = (
    Operation(
        name="bookings.list",
        verb="GET",
        path="/v1/bookings",
        request=List,
        response=Page[Booking],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List bookings of your pools and of your tenant",
        example={"nodeId": "node_…"},
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("deviceId", "from", "until", "reservationId", "tenantId", "bound", "nodeId"),
    ),
)
