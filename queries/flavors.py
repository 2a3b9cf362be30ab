"""Flavors: the caller's own and the platform's: list, get (domain.md §6)."""

from domain import errors, flavor, ids
from domain.operation import Answer, Known, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters, one


class List(KnownListing, frozen=True, kw_only=True):
    name: str | None = None
    public: bool | None = None
    retired: bool | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


ROWS = past.rows(
    "flavors",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s OR public)",
    wanted="""
    (%(name)s::text IS NULL OR name = %(name)s) AND (%(public)s::boolean IS NULL OR public = %(public)s)
    AND (%(retired)s::boolean IS NULL OR retired = %(retired)s)
    """,
)


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), flavor.view)


def get(query: Get, read: Reader) -> Answer:
    loaded = read.load(ids.parse("flv", query.id))
    if not loaded.version or not loaded.state.visible(read.session.tenant_id):
        raise read.unseen("compute-flavor", query.id, "id")
    return one(read, query.id, flavor.view)


OPERATIONS = (
    Operation(
        name="flavors.list",
        verb="GET",
        path="/v1/flavors",
        request=List,
        response=Page[flavor.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List the flavors that you own and those of the platform",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "name", "vcpu", "memoryGiB", "diskGiB", "gpus", "public", "retiredAt"),
    ),
    Operation(
        name="flavors.get",
        verb="GET",
        path="/v1/flavors/{id}",
        request=Get,
        response=flavor.View,
        on=("compute-tenant/{acting}",),
        handle=get,
        summary="Show a flavor",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
