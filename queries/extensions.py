"""Extensions of the caller's reservations: what was asked, and what became of it (domain.md §5)."""

from domain import errors, extension, ids
from domain.operation import Answer, Known, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters, one
from queries.sight import Through


class List(KnownListing, frozen=True, kw_only=True):
    """Drafts are shown only when asked for by their state."""

    reservation_id: str | None = None
    state: extension.Status | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


ROWS = past.rows(
    "extensions",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)",
    wanted="""
    (%(reservation_id)s::text IS NULL OR reservation_id = %(reservation_id)s)
    AND state_name = coalesce(%(state)s::text, state_name) AND (%(state)s::text IS NOT NULL OR state_name <> 'draft')
    """,
)


SEEN = Through(
    "compute-reservation",
    thing="asked.reservation_id",
    joined="LEFT JOIN extensions AS asked ON asked.id = listed.id",
)
"""Whoever sees a reservation sees its extensions."""


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), extension.view, SEEN)


def get(query: Get, read: Reader) -> Answer:
    """An extension is seen by whoever may see its reservation."""
    known = read.load(ids.parse("ext", query.id))
    draft = known.state.draft
    of = read.resolve("compute-reservation", draft.reservation_id) if draft else None
    if of is None:
        raise read.unseen("extension", query.id, "id")
    read.decide(of)
    return one(read, query.id, extension.view)


OPERATIONS = (
    Operation(
        name="extensions.list",
        verb="GET",
        path="/v1/extensions",
        request=List,
        response=Page[extension.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List the extensions of your tenant's reservations, including refused ones",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "reservationId", "state", "stateReason", "formerEndsAt", "endsAt"),
    ),
    Operation(
        name="extensions.get",
        verb="GET",
        path="/v1/extensions/{id}",
        request=Get,
        response=extension.View,
        on=("compute-reservation/{reservationId}",),
        decided_inside=True,
        handle=get,
        summary="Show an extension, applied or refused",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
