"""Reservations of the caller's tenant: list, get (domain.md §5)."""

from domain import errors, reservation
from domain.operation import Answer, Listing, Operation, Page, Request
from queries.reading import Reader, listed, one, tenants


class List(Listing, frozen=True, kw_only=True):
    """Drafts are shown only when asked for by their state."""

    pool_id: str | None = None
    state: reservation.Status | None = None
    project_id: str | None = None


class Get(Request, frozen=True, kw_only=True):
    id: str


def list_(query: List, read: Reader) -> Answer:
    sql = """
    SELECT created_at, id, view FROM reservations
    WHERE (%s::text IS NULL OR tenant_id = %s) AND (%s::text IS NULL OR pool_id = %s)
      AND (%s::text IS NULL OR project_id = %s) AND state_name = coalesce(%s, state_name)
      AND (%s::text IS NOT NULL OR state_name <> 'draft')
    """
    tenant = tenants(query, read)
    pairs = (tenant, tenant, query.pool_id, query.pool_id, query.project_id, query.project_id)
    return listed(read, query, sql, (*pairs, query.state, query.state), "compute-reservation")


def get(query: Get, read: Reader) -> Answer:
    return one(read, query.id, reservation.view)


OPERATIONS = (
    Operation(
        name="reservations.list",
        verb="GET",
        path="/v1/reservations",
        request=List,
        response=Page[reservation.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List your tenant's reservations",
        refusals=(errors.AccessDenied, errors.ProjectionBehind),
        columns=("id", "state", "stateReason", "gpuModel", "gpuCount", "startsAt", "endsAt"),
    ),
    Operation(
        name="reservations.get",
        verb="GET",
        path="/v1/reservations/{id}",
        request=Get,
        response=reservation.View,
        on=("compute-reservation/{id}",),
        handle=get,
        summary="Show a reservation",
        refusals=(errors.AccessDenied, errors.NotFound),
    ),
)
