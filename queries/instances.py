"""Instances of the caller's tenant: list, get (domain.md §6)."""

from domain import errors, instance, instance_view
from domain.operation import Answer, Known, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters, one


class List(KnownListing, frozen=True, kw_only=True):
    """Drafts are shown only when asked for by their state."""

    instance_id: str | None = None
    pool_id: str | None = None
    state: instance.Status | None = None
    project_id: str | None = None
    node_id: str | None = None
    image_id: str | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


ROWS = past.rows(
    "instances",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)",
    wanted="""
    (%(instance_id)s::text IS NULL OR instances.id = %(instance_id)s)
    AND (%(pool_id)s::text IS NULL OR pool_id = %(pool_id)s)
    AND (%(project_id)s::text IS NULL OR project_id = %(project_id)s)
    AND (%(node_id)s::text IS NULL OR node_id = %(node_id)s)
    AND (%(image_id)s::text IS NULL OR image_id = %(image_id)s)
    AND (%(state)s::text IS NULL OR state_name = %(state)s) AND (%(state)s::text IS NOT NULL OR state_name <> 'draft')
    """,
)


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), instance_view.view, "compute-instance")


def get(query: Get, read: Reader) -> Answer:
    return one(read, query.id, instance_view.view)


OPERATIONS = (
    Operation(
        name="instances.list",
        verb="GET",
        path="/v1/instances",
        request=List,
        response=Page[instance_view.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List your tenant's instances",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "name", "state", "stateReason", "flavorName", "imageName", "nodeName", "addresses"),
    ),
    Operation(
        name="instances.get",
        verb="GET",
        path="/v1/instances/{id}",
        request=Get,
        response=instance_view.View,
        on=("compute-instance/{id}",),
        handle=get,
        summary="Show an instance",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
