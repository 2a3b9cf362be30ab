"""Capacity per pool and resource at an instant (domain.md §4).

total = allocatable + unschedulable; allocatable = allocated + reserved + available, counted on nodes that are
schedulable now. Another tenant sees its own use and what its quotas leave of what is free.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from domain import errors, quota
from domain.operation import Answer, KnownReading, Operation
from queries import capacity_counts, capacity_past
from queries.capacity_counts import Count, Points
from queries.reading import Reader
from queries.sight import may_get

PAST_MS: Final = 5_000
"""How far back `at` may lie, for callers whose clock is behind; what was before is asked for with asOf."""

LONG_AGO: Final = "lies in the past: capacity is told of now and later; ask with asOf for how it was"


class List(KnownReading, frozen=True, kw_only=True):
    pool_id: str | None = None
    at: Annotated[int, Meta(ge=0, le=2**53, description="instant in epoch ms, default now")] | None = None
    project_id: Annotated[str, Meta(description="what is left for claims of this project")] | None = None


class Row(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One resource of one pool. A tenant that does not own the pool sees its own use, its limit, and no totals.

    `limit` is the lowest of the offering's, the tenant's and the project's, `available` what all three leave.
    """

    pool_id: str
    pool_name: str
    gpu_model: str
    resource: str
    at: int
    allocated: int
    reserved: int
    available: int
    total: int | None = None
    allocatable: int | None = None
    unschedulable: int | None = None
    unschedulable_allocated: int | None = None
    limit: int | None = None


class Rows(Struct, frozen=True):
    items: tuple[Row, ...]


_POOLS = """
SELECT pools.id, pools.name, pools.gpu_model, pools.tenant_id, offer.offer_id,
       CASE WHEN pools.class = 'metal-dedicated' THEN 'node' WHEN pools.sharing = 'exclusive' THEN 'gpu'
            WHEN pools.sharing = 'mig' THEN 'gpu.mig' ELSE 'gpu.slot' END
FROM pools
LEFT JOIN LATERAL (
    SELECT offer_id FROM catalog_offers AS o JOIN tenant_line(%s) AS line ON line.id = o.tenant_id
    WHERE o.pool_id = pools.id AND (line.depth = 0 OR o.include_descendants)
    ORDER BY line.depth LIMIT 1
) AS offer ON true
WHERE NOT pools.retired AND (%s::text IS NULL OR pools.id = %s)
  AND (pools.tenant_id = %s OR offer.offer_id IS NOT NULL)
ORDER BY pools.created_at, pools.id
"""

_LIMITS = """
SELECT scope, resource, amount FROM quota_limits WHERE scope = ANY(%s)
"""

Pool = tuple[Any, ...]
Amounts = Mapping[tuple[str, str], int]
"""By quota scope and resource."""


def list_(query: List, read: Reader) -> Answer:
    if query.at is not None and query.at < read.now - PAST_MS:
        raise errors.Invalid("at", LONG_AGO)
    at = read.now if query.at is None else query.at
    if query.pool_id is not None and read.resolve("compute-pool", query.pool_id) is None:
        raise read.unseen("compute-pool", query.pool_id, "poolId")
    return Answer(body=told(read, query.pool_id, query.project_id, Points(at)), position=read.position)


def told(read: Reader, pool_id: str | None, project_id: str | None, points: Points) -> Rows:
    """A row for each point, pool and resource; one pool's alone, or those of all that the caller sees."""
    me = read.session.tenant_id
    if project_id is not None and read.resolve("compute-project", project_id) is None:
        raise read.unseen("compute-project", project_id, "projectId")
    pools = _pools(read, pool_id)
    visible = may_get(read, "compute-pool", [pool[0] for pool in pools])
    pools = [pool for pool in pools if pool[0] in visible]
    own = quota.scopes(me, project_id)
    scopes = [*(pool[4] for pool in pools if pool[3] != me and pool[4] is not None), *own]
    limits = _limits(read, scopes)
    claimed = capacity_counts.claimed(read, scopes, points)
    rows: list[Row] = []
    for index, counts in enumerate(capacity_counts.count(read, [pool[0] for pool in pools], points, me)):
        used = {key: sums[index] for key, sums in claimed.items()}
        for pool in pools:
            at, known = points.at(index), counts[pool[0]]
            rows += _of_owner(pool, at, known) if pool[3] == me else _of_tenant(pool, at, known, own, limits, used)
    return Rows(tuple(rows))


def _pools(read: Reader, pool_id: str | None) -> list[Pool]:
    if read.as_of is not None:
        return capacity_past.pools(read, pool_id, read.as_of)
    me = read.session.tenant_id
    return read.connection.execute(_POOLS, (me, pool_id, pool_id, me)).fetchall()


def _limits(read: Reader, scopes: Sequence[str]) -> Amounts:
    if read.as_of is not None:
        return capacity_past.limits(read, scopes, read.as_of)
    return {(scope, of): most for scope, of, most in read.connection.execute(_LIMITS, (list(scopes),)).fetchall()}


def _of_owner(pool: Pool, at: int, known: Mapping[str, Count]) -> Iterator[Row]:
    for resource in sorted({pool[5], *known}):
        yield _owners(pool, resource, at, known.get(resource, Count()))


def _of_tenant(
    pool: Pool, at: int, known: Mapping[str, Count], own: Sequence[str], limits: Amounts, used: Amounts
) -> Iterator[Row]:
    offered = {resource: limit for (offer, resource), limit in limits.items() if offer == pool[4]}
    for resource in sorted({*offered, *_in_use(known)}):
        bounds = {pool[4]: offered.get(resource, 0)}
        bounds |= {scope: limits[scope, resource] for scope in own if (scope, resource) in limits}
        left = min(limit - used.get((scope, resource), 0) for scope, limit in bounds.items())
        count = known.get(resource, Count())
        yield _tenants(pool, resource, at, count, min(bounds.values()), max(0, left))


def _in_use(counts: Mapping[str, Count]) -> list[str]:
    """What a tenant uses although its offer grants none of it (any more)."""
    return [resource for resource, count in counts.items() if count.own_allocated or count.own_reserved]


def _owners(pool: Pool, resource: str, at: int, count: Count) -> Row:
    return Row(
        pool_id=pool[0],
        pool_name=pool[1],
        gpu_model=pool[2],
        resource=resource,
        at=at,
        allocated=count.allocated,
        reserved=count.reserved,
        available=count.free,
        total=count.total,
        allocatable=count.allocatable,
        unschedulable=count.total - count.allocatable,
        unschedulable_allocated=count.idle_use,
    )


def _tenants(pool: Pool, resource: str, at: int, count: Count, limit: int, left: int) -> Row:
    return Row(
        pool_id=pool[0],
        pool_name=pool[1],
        gpu_model=pool[2],
        resource=resource,
        at=at,
        allocated=count.own_allocated,
        reserved=count.own_reserved,
        available=min(count.free, left),
        limit=limit,
    )


OPERATIONS = (
    Operation(
        name="capacity.list",
        verb="GET",
        path="/v1/capacity",
        request=List,
        response=Rows,
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="Show what each pool has, holds and has left",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
        columns=(
            "poolName",
            "resource",
            "total",
            "allocatable",
            "allocated",
            "reserved",
            "available",
            "limit",
        ),
    ),
)
