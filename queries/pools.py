"""Pools as the caller sees them: its own whole, offered ones without their policy (domain.md §10)."""

from typing import Any

from domain import errors, offering, pool
from domain.operation import Answer, Listing, Operation, Page, Paged, Request
from queries.reading import Reader, listed, one, tenants


class List(Listing, frozen=True, kw_only=True):
    site_id: str | None = None
    gpu_model: str | None = None
    retired: bool | None = None


class Get(Request, frozen=True, kw_only=True):
    id: str


class Offers(Paged, frozen=True, kw_only=True):
    id: str


def list_(query: List, read: Reader) -> Answer:
    sql = """
    SELECT created_at, id, CASE WHEN %s::text IS NULL OR tenant_id = %s THEN view ELSE tenant_view END
    FROM pools
    WHERE (%s::text IS NULL OR tenant_id = %s OR EXISTS (
            SELECT 1 FROM catalog_offers AS o JOIN tenant_line(%s) AS line ON line.id = o.tenant_id
            WHERE o.pool_id = pools.id AND (line.depth = 0 OR o.include_descendants)))
      AND (%s::text IS NULL OR site_id = %s) AND (%s::text IS NULL OR gpu_model = %s)
      AND (%s::boolean IS NULL OR retired = %s)
    """
    tenant = tenants(query, read)
    own = (tenant, tenant, tenant, tenant, tenant)
    wanted = (query.site_id, query.site_id, query.gpu_model, query.gpu_model, query.retired, query.retired)
    return listed(read, query, sql, (*own, *wanted), "compute-pool")


def get(query: Get, read: Reader) -> Answer:
    def view(id: str, state: Any, version: int) -> pool.View:
        mine = state.owner_tenant_id == read.session.tenant_id
        return (pool.view if mine else pool.tenant_view)(id, state, version)

    return one(read, query.id, view)


def offers(query: Offers, read: Reader) -> Answer:
    """The owner sees every offer of its pool, anybody else the one that it has itself."""
    sql = """
    SELECT created_at, id, view FROM offerings
    WHERE pool_id = %s AND NOT withdrawn AND (%s OR tenant_id = %s)
    """
    tenant = read.session.tenant_id
    mine = read.load(query.id).state.owner_tenant_id == tenant
    return listed(read, query, sql, (query.id, mine, tenant))


OPERATIONS = (
    Operation(
        name="pools.list",
        verb="GET",
        path="/v1/pools",
        request=List,
        response=Page[pool.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List the pools that you own or that are offered to you",
        refusals=(errors.AccessDenied, errors.ProjectionBehind),
        columns=("id", "name", "gpuModel", "gpuMemoryGb", "sharing", "class", "region"),
    ),
    Operation(
        name="pools.get",
        verb="GET",
        path="/v1/pools/{id}",
        request=Get,
        response=pool.View,
        on=("compute-pool/{id}",),
        handle=get,
        summary="Show a pool",
        refusals=(errors.AccessDenied, errors.NotFound),
    ),
    Operation(
        name="pools.offers",
        verb="GET",
        path="/v1/pools/{id}/offers",
        request=Offers,
        response=Page[offering.View],
        on=("compute-pool/{id}",),
        handle=offers,
        summary="List a pool's offers",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind),
        columns=("id", "tenantId", "quota", "priority", "includeDescendants"),
    ),
)
