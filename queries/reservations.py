"""Reservations of the caller's tenant: list, get (domain.md §5)."""

from typing import LiteralString

from msgspec.structs import replace

from domain import errors, reservation, reservation_view
from domain.operation import Answer, Known, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters, one


class List(KnownListing, frozen=True, kw_only=True):
    """Drafts are shown only when asked for by their state."""

    reservation_id: str | None = None
    pool_id: str | None = None
    state: reservation.Status | None = None
    project_id: str | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


ROWS = past.rows(
    "reservations",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)",
    wanted="""
    (%(reservation_id)s::text IS NULL OR reservations.id = %(reservation_id)s)
    AND (%(pool_id)s::text IS NULL OR pool_id = %(pool_id)s)
    AND (%(project_id)s::text IS NULL OR project_id = %(project_id)s)
    AND (%(state)s::text IS NULL OR state_name = %(state)s) AND (%(state)s::text IS NOT NULL OR state_name <> 'draft')
    """,
)


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), reservation_view.view, "compute-reservation")


_POSITION: LiteralString = """
SELECT count(*) FROM pool_queue AS other JOIN pool_queue AS own USING (pool_id)
WHERE own.reservation_id = %s
  AND (other.spot, -other.priority, other.since, other.reservation_id)
   <= (own.spot, -own.priority, own.since, own.reservation_id)
"""


def get(query: Get, read: Reader) -> Answer:
    """Its place in the queue is that of the moment: an earlier position of the log does not tell it."""
    answer = one(read, query.id, reservation_view.view)
    if answer.body.state != "pending" or read.as_of is not None:
        return answer
    row = read.connection.execute(_POSITION, (query.id,), prepare=True).fetchone()
    place = row[0] if row else 0
    return replace(answer, body=replace(answer.body, queue_position=place or None), of_the_moment=True)


OPERATIONS = (
    Operation(
        name="reservations.list",
        verb="GET",
        path="/v1/reservations",
        request=List,
        response=Page[reservation_view.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List your tenant's reservations",
        example={"state": "pending"},
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "state", "gpuCount", "gpuModel", "startsAt", "endsAt", "stateReason", "tenantId"),
    ),
    Operation(
        name="reservations.get",
        verb="GET",
        path="/v1/reservations/{id}",
        request=Get,
        response=reservation_view.View,
        on=("compute-reservation/{id}",),
        handle=get,
        summary="Show a reservation",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
