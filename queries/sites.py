"""Sites: list, get. A site without a live site agent is listed as not served (domain.md §2)."""

from functools import partial
from typing import Any, LiteralString

from msgspec.structs import replace

from domain import errors, site
from domain.operation import Answer, Known, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters, one


class List(KnownListing, frozen=True, kw_only=True):
    kind: site.Kind | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


ROWS = past.rows(
    "sites",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)",
    wanted="(%(kind)s::text IS NULL OR kind = %(kind)s)",
)
SERVED: LiteralString = """
SELECT 1 FROM nodes WHERE site_id = %(site)s AND role = 'site' AND connectivity = 'connected' LIMIT 1
"""
WAS_SERVED: LiteralString = """
SELECT 1 FROM nodes_history WHERE site_id = %(site)s AND role = 'site' AND connectivity = 'connected'
    AND from_position <= %(as_of)s AND (to_position IS NULL OR to_position > %(as_of)s) LIMIT 1
"""


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), partial(_view, read), "compute-site")


def get(query: Get, read: Reader) -> Answer:
    return replace(one(read, query.id, partial(_view, read)), version=None)


def _view(read: Reader, id: str, state: Any, version: int) -> site.Shown:
    sql = SERVED if read.as_of is None else WAS_SERVED
    served = read.connection.execute(sql, {"site": id, "as_of": read.as_of}).fetchone() is not None
    return site.shown(id, state, version, served)


OPERATIONS = (
    Operation(
        name="sites.list",
        verb="GET",
        path="/v1/sites",
        request=List,
        response=Page[site.Shown],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List sites",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "name", "kind", "iamRegion", "served"),
    ),
    Operation(
        name="sites.get",
        verb="GET",
        path="/v1/sites/{id}",
        request=Get,
        response=site.Shown,
        on=("compute-site/{id}",),
        handle=get,
        summary="Show a site",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
