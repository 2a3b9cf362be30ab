"""What a tenant or a project may hold, holds now, and will hold at most (domain.md §2)."""

from collections.abc import Mapping
from typing import Annotated, Final, LiteralString

from msgspec import Meta, Struct

from domain import errors, ids, offering, quota
from domain.operation import Answer, Known, Operation
from projections import quotas_past
from queries.past import over
from queries.reading import Reader, known


class Get(Known, frozen=True, kw_only=True):
    kind: quota.Kind
    id: Annotated[str, Meta(max_length=128)]


class Use(Struct, frozen=True, kw_only=True, rename="camel"):
    """`limit` null: unlimited. `peak` is the most that is claimed at one instant from now on, first at `peakAt`."""

    resource: str
    limit: int | None
    used: int
    peak: int
    peak_at: int | None


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """A quota and its use at the instant `at`, epoch ms; `setAt` null: none was ever set."""

    kind: quota.Kind
    id: str
    set_at: int | None
    at: int
    resources: tuple[Use, ...]


_USE: LiteralString = """
WITH claims AS (
    SELECT resource, amount, greatest(lower(during), %(now)s) AS since, upper(during) AS until
    FROM quota_claims AS claimed
    WHERE hashtextextended(scope, 0) = hashtextextended(%(scope)s, 0) AND scope = %(scope)s
      AND during && int8range(%(now)s, NULL)
), running AS (
    SELECT resource, instant, sum(delta) OVER (
        PARTITION BY resource ORDER BY instant, delta ROWS UNBOUNDED PRECEDING
    ) AS used
    FROM (
        SELECT resource, since, amount FROM claims
        UNION ALL
        SELECT resource, until, -amount FROM claims WHERE until IS NOT NULL
    ) AS steps (resource, instant, delta)
)
SELECT DISTINCT ON (resource) resource,
       (SELECT coalesce(sum(amount), 0)::bigint FROM claims WHERE claims.resource = running.resource
        AND since = %(now)s),
       used::bigint, instant
FROM running ORDER BY resource, used DESC, instant
"""
_USED: Final[LiteralString] = over(_USE, quota_claims=quotas_past.CLAIMS)


def get(query: Get, read: Reader) -> Answer:
    may_read(query.kind, query.id, read)
    loaded = known(read, quota.stream(query.kind, query.id))
    state: quota.State = loaded.state
    resources = uses(read, quota.scope(query.kind, query.id), state.limits)
    set_at = state.set_at if loaded.version else None
    body = View(kind=query.kind, id=query.id, set_at=set_at, at=read.now, resources=resources)
    return Answer(body=body, position=read.position, version=loaded.version, of_the_moment=True)


def uses(
    read: Reader, scope: str, limits: Mapping[offering.Resource, int], unnamed: int | None = None
) -> tuple[Use, ...]:
    """Of each resource that is limited or claimed; `unnamed` is the limit of one that the limits do not name."""
    params = {"scope": scope, "now": read.now, "_as_of": read.as_of}
    sql = _USE if read.as_of is None else _USED
    used = {row[0]: row[1:] for row in read.connection.execute(sql, params).fetchall()}
    return tuple(
        _use(resource, limits.get(resource, unnamed), used.get(resource, (0, 0, None)))
        for resource in sorted({*limits, *used})
    )


def _use(resource: str, limit: int | None, used: tuple[int, int, int | None]) -> Use:
    now, peak, peak_at = used
    return Use(resource=resource, limit=limit, used=now, peak=peak, peak_at=peak_at if peak else None)


def may_read(kind: quota.Kind, id: str, read: Reader) -> None:
    """A tenant reads its own and its projects', the platform every tenant's; else it is 404."""
    scope = read.resolve("compute-tenant", read.session.tenant_id)
    if kind == "project":
        if read.resolve("compute-project", ids.parse("prj", id)) is None:
            raise read.unseen("compute-project", id, "id")
    elif ids.opaque(id, "id") != read.session.tenant_id:
        known = read.connection.execute("SELECT 1 FROM catalog_tenants WHERE id = %s", (id,)).fetchone()
        scope = read.resolve("compute-fleet", "global") if known else None
    if scope is None:
        raise read.unseen("compute-tenant", id, "id")
    read.decide(scope)


OPERATIONS = (
    Operation(
        name="quotas.get",
        verb="GET",
        path="/v1/quotas/{kind}/{id}",
        request=Get,
        response=View,
        on=("compute-fleet/global", "compute-tenant/{acting}"),
        decided_inside=True,
        handle=get,
        summary="Show a quota: limits, what is used now, and the peak from now on",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
