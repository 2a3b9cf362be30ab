"""Sites: list, get. A site without a live site agent is listed as not served (domain.md §2)."""

from typing import Any

from msgspec.structs import replace

from domain import errors, site
from domain.operation import Answer, Listing, Operation, Page, Request
from queries.reading import Reader, listed, one, tenants


class List(Listing, frozen=True, kw_only=True):
    kind: site.Kind | None = None


class Get(Request, frozen=True, kw_only=True):
    id: str


def list_(query: List, read: Reader) -> Answer:
    sql = """
    SELECT created_at, id, convert_to((convert_from(view, 'UTF8')::jsonb || jsonb_build_object('served', EXISTS (
        SELECT 1 FROM nodes WHERE site_id = sites.id AND role = 'site' AND connectivity = 'connected'
    )))::text, 'UTF8')
    FROM sites
    WHERE (%s::text IS NULL OR tenant_id = %s) AND (%s::text IS NULL OR kind = %s)
    """
    tenant = tenants(query, read)
    return listed(read, query, sql, (tenant, tenant, query.kind, query.kind), "compute-site")


def get(query: Get, read: Reader) -> Answer:
    sql = "SELECT 1 FROM nodes WHERE site_id = %s AND role = 'site' AND connectivity = 'connected' LIMIT 1"
    served = read.connection.execute(sql, (query.id,)).fetchone() is not None

    def view(id: str, state: Any, version: int) -> site.Shown:
        return site.shown(id, state, version, served)

    return replace(one(read, query.id, view), version=None)


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
        refusals=(errors.AccessDenied, errors.ProjectionBehind),
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
        refusals=(errors.AccessDenied, errors.NotFound),
    ),
)
