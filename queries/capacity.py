"""Capacity per pool and resource at an instant (domain.md §4).

total = allocatable + unschedulable; allocatable = allocated + reserved + available, counted on nodes that are
schedulable now. Another tenant sees its own use and what its quotas leave of what is free.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from domain import errors, quota
from domain.operation import Answer, Operation, Reading
from queries.reading import Reader, may_get

PAST_MS: Final = 5_000
"""How far back `at` may lie, for callers whose clock is behind: what is in the fleet is known of today alone."""


class List(Reading, frozen=True, kw_only=True):
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


class _Count(Struct):
    total: int = 0
    allocatable: int = 0
    allocated: int = 0
    reserved: int = 0
    idle_use: int = 0
    own_allocated: int = 0
    own_reserved: int = 0


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

_DEVICES = """
SELECT devices.pool_id, devices.class, count(*), count(*) FILTER (WHERE nodes.schedulable)
FROM devices JOIN nodes ON nodes.id = devices.node_id
WHERE devices.bookable AND devices.pool_id = ANY(%s) GROUP BY 1, 2
"""

_BOOKED = """
SELECT b.pool_id, d.class, b.tenant_id, b.bound, n.schedulable, count(*)
FROM device_bookings AS b
JOIN devices AS d ON d.node_id = b.node_id AND d.id = b.device_id AND d.bookable
JOIN nodes AS n ON n.id = b.node_id
WHERE b.pool_id = ANY(%s) AND b.during @> %s::bigint AND b.reservation_id IS NOT NULL GROUP BY 1, 2, 3, 4, 5
"""

_IN_MAINTENANCE = """
SELECT b.pool_id, d.class, count(*)
FROM device_bookings AS b
JOIN devices AS d ON d.node_id = b.node_id AND d.id = b.device_id AND d.bookable
JOIN nodes AS n ON n.id = b.node_id AND n.schedulable
WHERE b.pool_id = ANY(%s) AND b.during @> %s::bigint AND b.reservation_id IS NULL GROUP BY 1, 2
"""

_SCALARS = """
SELECT n.pool_id, s.key, sum(s.value::bigint)::bigint,
       coalesce(sum(s.value::bigint) FILTER (WHERE n.schedulable), 0)::bigint
FROM nodes AS n, jsonb_each_text(n.scalars) AS s
WHERE n.pool_id = ANY(%s) GROUP BY 1, 2
"""

_SCALARS_BOOKED = """
SELECT n.pool_id, b.resource, d.tenant_id, d.bound, n.schedulable, sum(b.amount)::bigint
FROM scalar_bookings AS b JOIN nodes AS n ON n.id = b.node_id
JOIN LATERAL (
    SELECT tenant_id, bound FROM device_bookings WHERE allocation_id = b.allocation_id LIMIT 1
) AS d ON true
WHERE n.pool_id = ANY(%s) AND b.during @> %s::bigint GROUP BY 1, 2, 3, 4, 5
"""

_LIMITS = """
SELECT scope, resource, amount FROM quota_limits WHERE scope = ANY(%s)
"""

_USED = """
SELECT held.scope, held.resource, sum(held.amount)::bigint
FROM unnest(%s::text[]) AS wanted (scope)
JOIN quota_claims AS held
  ON hashtextextended(held.scope, 0) = hashtextextended(wanted.scope, 0) AND held.scope = wanted.scope
WHERE held.during @> %s::bigint GROUP BY 1, 2
"""


def list_(query: List, read: Reader) -> Answer:
    if query.at is not None and query.at < read.now - PAST_MS:
        raise errors.Invalid("at", "lies in the past: capacity is told of now and later, no history is kept")
    at = read.now if query.at is None else query.at
    me = read.session.tenant_id
    if query.pool_id is not None and read.resolve("compute-pool", query.pool_id) is None:
        raise read.unseen("compute-pool", query.pool_id, "poolId")
    if query.project_id is not None and read.resolve("compute-project", query.project_id) is None:
        raise read.unseen("compute-project", query.project_id, "projectId")
    pools = read.connection.execute(_POOLS, (me, query.pool_id, query.pool_id, me)).fetchall()
    visible = may_get(read, "compute-pool", [pool[0] for pool in pools])
    pools = [pool for pool in pools if pool[0] in visible]
    counts = _count(read, [pool[0] for pool in pools], at, me)
    own = quota.scopes(me, query.project_id)
    scopes = [*(pool[4] for pool in pools if pool[3] != me), *own]
    limits = _amounts(read.connection.execute(_LIMITS, (scopes,)).fetchall())
    used = _amounts(read.connection.execute(_USED, (scopes, at)).fetchall())
    rows: list[Row] = []
    for pool in pools:
        known = counts[pool[0]]
        if pool[3] == me:
            rows += [_owners(pool, resource, at, known[resource]) for resource in sorted({pool[5], *known})]
        else:
            offered = {resource: limit for (offer, resource), limit in limits.items() if offer == pool[4]}
            for resource in sorted({*offered, *_in_use(known)}):
                bounds = {pool[4]: offered.get(resource, 0)}
                bounds |= {scope: limits[scope, resource] for scope in own if (scope, resource) in limits}
                left = min(limit - used.get((scope, resource), 0) for scope, limit in bounds.items())
                rows.append(_tenants(pool, resource, at, known[resource], min(bounds.values()), max(0, left)))
    return Answer(body=Rows(tuple(rows)), position=read.position)


def _in_use(counts: Mapping[str, _Count]) -> list[str]:
    """What a tenant uses although its offer grants none of it (any more)."""
    return [resource for resource, count in counts.items() if count.own_allocated or count.own_reserved]


def _amounts(rows: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    return {(scope, resource): amount for scope, resource, amount in rows}


def _count(read: Reader, pools: list[str], at: int, me: str) -> dict[str, dict[str, _Count]]:
    counts: dict[str, dict[str, _Count]] = defaultdict(lambda: defaultdict(_Count))
    for sql in (_DEVICES, _SCALARS):
        for pool, resource, total, allocatable in read.connection.execute(sql, (pools,)).fetchall():
            counts[pool][resource].total = total
            counts[pool][resource].allocatable = allocatable
    for pool, resource, planned in read.connection.execute(_IN_MAINTENANCE, (pools, at)).fetchall():
        counts[pool][resource].allocatable -= planned
    for sql in (_BOOKED, _SCALARS_BOOKED):
        for pool, resource, tenant, bound, schedulable, n in read.connection.execute(
            sql,
            (pools, at),
        ).fetchall():
            _add(counts[pool][resource], n, bound=bound, schedulable=schedulable, mine=tenant == me)
    return counts


def _add(count: _Count, n: int, *, bound: bool, schedulable: bool, mine: bool) -> None:
    if not schedulable:
        count.idle_use += n
    elif bound:
        count.allocated += n
    else:
        count.reserved += n
    if mine and bound:
        count.own_allocated += n
    elif mine:
        count.own_reserved += n


def _free(count: _Count) -> int:
    return max(0, count.allocatable - count.allocated - count.reserved)


def _owners(pool: tuple[Any, ...], resource: str, at: int, count: _Count) -> Row:
    return Row(
        pool_id=pool[0],
        pool_name=pool[1],
        gpu_model=pool[2],
        resource=resource,
        at=at,
        allocated=count.allocated,
        reserved=count.reserved,
        available=_free(count),
        total=count.total,
        allocatable=count.allocatable,
        unschedulable=count.total - count.allocatable,
        unschedulable_allocated=count.idle_use,
    )


def _tenants(pool: tuple[Any, ...], resource: str, at: int, count: _Count, limit: int, left: int) -> Row:
    return Row(
        pool_id=pool[0],
        pool_name=pool[1],
        gpu_model=pool[2],
        resource=resource,
        at=at,
        allocated=count.own_allocated,
        reserved=count.own_reserved,
        available=min(_free(count), left),
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
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind),
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
