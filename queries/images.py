"""Images: the caller's own and the public ones: list, get (domain.md §6)."""

from msgspec.structs import replace

from domain import catalog, errors, image
from domain.operation import Answer, Known, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters, one


class List(KnownListing, frozen=True, kw_only=True):
    name: str | None = None
    image_version: str | None = None
    sha256: str | None = None
    purpose: image.Purpose | None = None
    visibility: image.Visibility | None = None
    state: image.Status | None = None
    verified: bool | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


ROWS = past.rows(
    "images",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s OR visibility = 'public')",
    wanted="""
    (%(name)s::text IS NULL OR name = %(name)s)
    AND (%(image_version)s::text IS NULL OR image_version = %(image_version)s)
    AND (%(sha256)s::text IS NULL OR sha256 = %(sha256)s)
    AND (%(purpose)s::text IS NULL OR purpose = %(purpose)s)
    AND (%(visibility)s::text IS NULL OR visibility = %(visibility)s)
    AND (%(state)s::text IS NULL OR state_name = %(state)s)
    AND (%(verified)s::boolean IS NULL OR verified = %(verified)s)
    """,
)


def list_(query: List, read: Reader) -> Answer:
    if query.sha256 is not None:
        query = replace(query, sha256=image.digest(query.sha256))
    return past.listed(read, query, ROWS, filters(query, read), image.view, catalog.IMAGE)


def get(query: Get, read: Reader) -> Answer:
    return one(read, query.id, image.view)


OPERATIONS = (
    Operation(
        name="images.list",
        verb="GET",
        path="/v1/images",
        request=List,
        response=Page[image.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List the images that you own and the public ones",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "name", "imageVersion", "state", "verified", "format", "visibility", "sizeBytes"),
    ),
    Operation(
        name="images.get",
        verb="GET",
        path="/v1/images/{id}",
        request=Get,
        response=image.View,
        on=("compute-image/{id}",),
        handle=get,
        summary="Show an image",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
