"""Projects of the caller's tenant: list, get (domain.md §9)."""

from domain import errors, project
from domain.operation import Answer, Known, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters, one


class List(KnownListing, frozen=True, kw_only=True):
    project_id: str | None = None
    archived: bool | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


ROWS = past.rows(
    "projects",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)",
    wanted="""
    (%(project_id)s::text IS NULL OR projects.id = %(project_id)s)
    AND (%(archived)s::boolean IS NULL OR archived = %(archived)s)
    """,
)


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), project.view, "compute-project")


def get(query: Get, read: Reader) -> Answer:
    return one(read, query.id, project.view)


OPERATIONS = (
    Operation(
        name="projects.list",
        verb="GET",
        path="/v1/projects",
        request=List,
        response=Page[project.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List projects",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "name", "createdAt", "archivedAt"),
    ),
    Operation(
        name="projects.get",
        verb="GET",
        path="/v1/projects/{id}",
        request=Get,
        response=project.View,
        on=("compute-project/{id}",),
        handle=get,
        summary="Show a project",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
