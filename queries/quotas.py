"""What a tenant or a project may hold, holds now, and will hold at most (domain.md §2)."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, LiteralString

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from domain import errors, ids, offering, quota
from domain.operation import Answer, Known, KnownListing, Operation, Page
from projections import quotas_past
from queries import reading
from queries.past import over
from queries.reading import Reader, filters, known
from queries.sight import Through


class Get(Known, frozen=True, kw_only=True):
    kind: quota.Kind
    id: Annotated[str, Meta(max_length=128)]


class List(KnownListing, frozen=True, kw_only=True):
    """Of the tenants and projects that there are today, archived projects left out."""


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


class Row(View, frozen=True, kw_only=True, rename="camel"):
    tenant_id: str


_SCOPES: Final[LiteralString] = """
SELECT scopes.place, scopes.id, 0::bigint, convert_to(scopes.tenant_id, 'UTF8')
FROM (
    SELECT 0::bigint AS place, 'tenant:' || t.id AS id, t.id AS tenant_id FROM catalog_tenants AS t
    UNION ALL
    SELECT p.created_at, p.id, p.tenant_id FROM projects AS p WHERE NOT p.archived
) AS scopes
WHERE %(tenant)s::text IS NULL OR scopes.tenant_id = %(tenant)s
"""
"""A tenant's scope bears the tenant's id, a project's is its id; tenants come first."""
_SEEN: Final = Through("compute-project", own="left(listed.id, 7) = 'tenant:'")

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
    body = _view(read, query.kind, query.id, loaded)
    return Answer(body=body, position=read.position, version=loaded.version, of_the_moment=True)


def _view(read: Reader, kind: quota.Kind, id: str, loaded: Any) -> View:
    state: quota.State = loaded.state
    set_at = state.set_at if loaded.version else None
    resources = uses(read, quota.scope(kind, id), state.limits)
    return View(kind=kind, id=id, set_at=set_at, at=read.now, resources=resources)


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


def list_(query: List, read: Reader) -> Answer:
    """Each as `get` shows it, with whose it is."""

    def show(row: reading.Row) -> reading.Row:
        place, scope, version, tenant_id = row
        kind: quota.Kind = "tenant" if scope.startswith("tenant:") else "project"
        id = scope.removeprefix("tenant:")
        shown = _view(read, kind, id, known(read, quota.stream(kind, id)))
        whole = Row(tenant_id=tenant_id.decode(), **{name: getattr(shown, name) for name in View.__struct_fields__})
        return place, scope, version, msgspec.json.encode(whole)

    answer = reading.listed(read, query, _SCOPES, filters(query, read), _SEEN, show)
    return replace(answer, of_the_moment=True)


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
        name="quotas.list",
        verb="GET",
        path="/v1/quotas",
        request=List,
        response=Page[Row],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List the quotas of your tenant and its projects",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("kind", "id", "resources", "tenantId", "setAt"),
    ),
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
