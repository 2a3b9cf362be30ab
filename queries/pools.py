"""Pools as the caller sees them: its own whole, offered ones without their policy (domain.md §10)."""

from typing import Any

from domain import errors, offering, pool
from domain.operation import Answer, AsOf, Known, KnownListing, Operation, Page, Paged
from queries import past
from queries.reading import Reader, filters, one


class List(KnownListing, frozen=True, kw_only=True):
    pool_id: str | None = None
    site_id: str | None = None
    gpu_model: str | None = None
    retired: bool | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


class Offers(Paged, frozen=True, kw_only=True):
    id: str
    as_of: AsOf | None = None


ROWS = past.rows(
    "pools",
    mine="""
    (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s OR EXISTS (
        SELECT 1 FROM catalog_offers AS o JOIN tenant_line(%(tenant)s) AS line ON line.id = o.tenant_id
        WHERE o.pool_id = pools.id AND (line.depth = 0 OR o.include_descendants)))
    """,
    wanted="""
    (%(pool_id)s::text IS NULL OR pools.id = %(pool_id)s)
    AND (%(site_id)s::text IS NULL OR site_id = %(site_id)s)
    AND (%(gpu_model)s::text IS NULL OR gpu_model = %(gpu_model)s)
    AND (%(retired)s::boolean IS NULL OR retired = %(retired)s)
    """,
)
OFFERS = past.rows(
    "offerings",
    mine="pool_id = %(pool)s AND (%(owner)s OR tenant_id = %(tenant)s)",
    wanted="NOT withdrawn",
)


def list_(query: List, read: Reader) -> Answer:
    def view(id: str, state: Any, version: int) -> pool.View:
        whole = query.scope == "fleet" or state.owner_tenant_id == read.session.tenant_id
        return (pool.view if whole else pool.tenant_view)(id, state, version)

    return past.listed(read, query, ROWS, filters(query, read), view, "compute-pool")


def get(query: Get, read: Reader) -> Answer:
    def view(id: str, state: Any, version: int) -> pool.View:
        mine = state.owner_tenant_id == read.session.tenant_id
        return (pool.view if mine else pool.tenant_view)(id, state, version)

    return one(read, query.id, view)


def offers(query: Offers, read: Reader) -> Answer:
    """The owner sees every offer of its pool, anybody else the one that it has itself."""
    tenant = read.session.tenant_id
    owner = read.load(query.id).state.owner_tenant_id == tenant
    return past.listed(read, query, OFFERS, {"pool": query.id, "owner": owner, "tenant": tenant}, offering.view)


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
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
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
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
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
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "tenantId", "quota", "priority", "includeDescendants"),
    ),
)
