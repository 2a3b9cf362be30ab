"""Bookings as the database holds them: the pool's owner sees all, a tenant its own (domain.md §10)."""

from typing import Annotated

from msgspec import Meta, Struct

from domain import errors
from domain.operation import Answer, Listing, Operation, Page
from queries.reading import Reader, listed, tenants


class List(Listing, frozen=True, kw_only=True):
    """`from` and `until` choose bookings that overlap `[from, until)` in epoch ms."""

    pool_id: str | None = None
    node_id: str | None = None
    reservation_id: str | None = None
    from_: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    until: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class Booking(Struct, frozen=True, kw_only=True, rename="camel"):
    """One atom held over `[from, until)`; without `until` it is held until its node proves it free."""

    device_id: str
    node_id: str
    pool_id: str
    reservation_id: str
    allocation_id: str
    tenant_id: str
    bound: bool
    from_: int
    until: int | None


def list_(query: List, read: Reader) -> Answer:
    if query.from_ is not None and query.until is not None and query.from_ >= query.until:
        raise errors.Invalid("until", "lies at or before from")
    sql = """
    SELECT lower(b.during), b.device_id || '|' || b.allocation_id, convert_to(json_build_object(
        'deviceId', b.device_id, 'nodeId', b.node_id, 'poolId', b.pool_id, 'reservationId', b.reservation_id,
        'allocationId', b.allocation_id, 'tenantId', b.tenant_id, 'bound', b.bound,
        'from', lower(b.during), 'until', upper(b.during))::text, 'UTF8')
    FROM device_bookings AS b JOIN pools ON pools.id = b.pool_id
    WHERE (%s::text IS NULL OR b.tenant_id = %s OR pools.tenant_id = %s)
      AND (%s::text IS NULL OR b.pool_id = %s) AND (%s::text IS NULL OR b.node_id = %s)
      AND (%s::text IS NULL OR b.reservation_id = %s) AND b.during && int8range(%s, %s)
    """
    tenant = tenants(query, read)
    wanted = (query.pool_id, query.node_id, query.reservation_id)
    pairs = [value for value in wanted for _ in range(2)]
    return listed(read, query, sql, (tenant, tenant, tenant, *pairs, query.from_, query.until))


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
        refusals=(errors.AccessDenied, errors.ProjectionBehind),
        columns=("deviceId", "from", "until", "reservationId", "tenantId", "bound"),
    ),
)
