"""Quota: limits of offerings, tenants and projects, and the claims that admission writes over time (domain.md §5).

An offering grants nothing that it does not name; of a tenant or project what is not named is unlimited.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from domain import offering, project, quota, reservation, tenant
from domain.event import Recorded
from projections.projection import Inline, Phase, Statement

TABLES = """
CREATE TABLE quota_scopes (
    scope text PRIMARY KEY,
    kind text NOT NULL,
    closed boolean NOT NULL DEFAULT false
);
CREATE TABLE quota_limits (
    scope text NOT NULL,
    resource text NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (scope, resource)
);
CREATE TABLE quota_claims (
    reservation_id text NOT NULL,
    scope text NOT NULL,
    resource text NOT NULL,
    amount bigint NOT NULL,
    during int8range NOT NULL CHECK (NOT isempty(during)),
    PRIMARY KEY (reservation_id, scope, resource)
);
CREATE INDEX quota_claims_scope ON quota_claims USING gist (hashtextextended(scope, 0), during);
"""


_ORDER = {"poff_": "1", "tenant": "2", "prj_": "3"}


def _key(scope: str) -> str:
    """Offerings come first, then tenants, then projects (architecture.md §2)."""
    return next((place for prefix, place in _ORDER.items() if scope.startswith(prefix)), "1") + scope


_LOCK = """
SELECT 1 FROM quota_scopes WHERE scope = ANY(%s)
ORDER BY array_position(ARRAY['offering', 'tenant', 'project'], kind), scope FOR NO KEY UPDATE
"""


def _lock(scope: str) -> Statement:
    """All of an append are one statement, in the order of `_key`."""
    return Statement(Phase.QUOTA_LOCK, "", _LOCK, ([scope],), only_live=True, rank=1, union=True)


def _peak_within_limit(stream: str, scope: str, claimed: reservation.Claimed) -> Statement:
    """Refuses when, at any instant of the claim, all overlapping claims and this one pass the limit.

    At one instant ends come before starts, so claims that touch do not add up. The peak over time is looked for only
    where the plain sum of all that overlap would pass the limit.
    """
    sql = """
    SELECT refuse('QUOTA_EXCEEDED', jsonb_build_object(
        'kind', wanted.kind, 'resource', wanted.resource,
        'limit', wanted.most, 'peak', wanted.amount + coalesce(peak.amount, 0)))
    FROM (
        SELECT scopes.scope, scopes.kind, asked.resource, asked.amount,
               coalesce(limits.amount, CASE scopes.kind WHEN 'offering' THEN 0 END) AS most
        FROM unnest(%s::text[], %s::bigint[]) AS asked (resource, amount)
        JOIN quota_scopes AS scopes ON scopes.scope = %s
        LEFT JOIN quota_limits AS limits ON limits.scope = scopes.scope AND limits.resource = asked.resource
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(amount), 0) AS amount FROM quota_claims
        WHERE wanted.most IS NOT NULL AND wanted.amount > 0
          AND hashtextextended(scope, 0) = hashtextextended(wanted.scope, 0)
          AND scope = wanted.scope AND resource = wanted.resource
          AND during && int8range(%s, %s) AND reservation_id <> %s
    ) AS whole
    LEFT JOIN LATERAL (
        SELECT max(used) AS amount FROM (
            SELECT sum(delta) OVER (ORDER BY instant, delta ROWS UNBOUNDED PRECEDING) AS used
            FROM (
                SELECT greatest(lower(during), %s) AS instant, amount AS delta FROM quota_claims
                WHERE wanted.amount + whole.amount > wanted.most
                  AND hashtextextended(scope, 0) = hashtextextended(wanted.scope, 0)
                  AND scope = wanted.scope AND resource = wanted.resource
                  AND during && int8range(%s, %s) AND reservation_id <> %s
                UNION ALL
                SELECT upper(during), -amount FROM quota_claims
                WHERE wanted.amount + whole.amount > wanted.most
                  AND hashtextextended(scope, 0) = hashtextextended(wanted.scope, 0)
                  AND scope = wanted.scope AND resource = wanted.resource
                  AND during && int8range(%s, %s) AND reservation_id <> %s AND NOT upper_inf(during)
            ) AS steps
        ) AS running
    ) AS peak ON true
    WHERE wanted.amount > 0 AND wanted.amount + coalesce(peak.amount, 0) > wanted.most
    ORDER BY wanted.resource LIMIT 1
    """
    window = (claimed.from_, claimed.until, stream)
    amounts = (list(claimed.resources), list(claimed.resources.values()))
    params = (*amounts, scope, *window, claimed.from_, *window, *window)
    return Statement(Phase.QUOTA_CHECK, _key(scope), sql, params, True)


def _still_open(scope: str) -> Statement:
    """A project that was archived takes nothing more; where an offer was withdrawn the handler decides anew."""
    sql = """
    SELECT refuse(CASE kind WHEN 'project' THEN 'PROJECT_ARCHIVED' ELSE 'RACE' END, '{}'::jsonb)
    FROM quota_scopes WHERE scope = %s AND closed
    """
    return Statement(Phase.QUOTA_CHECK, _key(scope), sql, (scope,), True)


def _admit(stream: str, claimed: reservation.Claimed) -> Iterator[Statement]:
    for scope in claimed.scopes:
        yield _lock(scope)
        if not scope.startswith("tenant:"):
            yield _still_open(scope)
        yield _peak_within_limit(stream, scope, claimed)
    sql = """
    INSERT INTO quota_claims (reservation_id, scope, resource, amount, during)
    SELECT %s, scope, resource, amount, int8range(%s, %s)
    FROM unnest(%s::text[]) AS scopes (scope)
    CROSS JOIN unnest(%s::text[], %s::bigint[]) AS wanted (resource, amount)
    """
    amounts = (list(claimed.resources), list(claimed.resources.values()))
    params = (stream, claimed.from_, claimed.until, list(claimed.scopes), *amounts)
    yield Statement(Phase.QUOTA, stream, sql, params)


def _move_end(stream: str, event: reservation.Extended) -> Iterator[Statement]:
    """Checked is what an extension adds; what a shortening leaves is there for others at once."""
    claimed = event.claimed
    for scope in claimed.scopes:
        yield _lock(scope)
        if event.ends_at > event.former_ends_at:
            if quota.is_offering(scope):
                yield _still_open(scope)
            added = replace(claimed, from_=event.former_ends_at, until=event.ends_at)
            yield _peak_within_limit(stream, scope, added)
    sql = "UPDATE quota_claims SET during = int8range(%s, %s) WHERE reservation_id = %s"
    yield Statement(Phase.QUOTA, stream, sql, (claimed.from_, claimed.until, stream))


def _open(scope: str, kind: str) -> Statement:
    sql = "INSERT INTO quota_scopes (scope, kind) VALUES (%s, %s) ON CONFLICT (scope) DO NOTHING"
    return Statement(Phase.QUOTA, _key(scope), sql, (scope, kind))


def _close(scope: str) -> Iterator[Statement]:
    yield _lock(scope)
    sql = "UPDATE quota_scopes SET closed = true WHERE scope = %s"
    yield Statement(Phase.QUOTA, _key(scope), sql, (scope,))


def _set_limits(scope: str, limits: Mapping[offering.Resource, int]) -> Iterator[Statement]:
    yield _lock(scope)
    clearing = "DELETE FROM quota_limits WHERE scope = %s"
    yield Statement(Phase.QUOTA, _key(scope), clearing, (scope,))
    filling = """
    INSERT INTO quota_limits (scope, resource, amount)
    SELECT %s, resource, amount FROM unnest(%s::text[], %s::bigint[]) AS given (resource, amount)
    """
    yield Statement(Phase.QUOTA, _key(scope), filling, (scope, list(limits), list(limits.values())))


def _of_offering(stream: str, event: offering.Events) -> Iterator[Statement]:
    match event:
        case offering.Offered(quota=granted):
            yield _open(stream, "offering")
            yield from _set_limits(stream, granted)
        case offering.Changed(quota=granted):
            yield from _set_limits(stream, granted)
        case _:
            yield from _set_limits(stream, {})
            yield from _close(stream)


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream = recorded.stream
    match recorded.event:
        case offering.Offered() | offering.Changed() | offering.Withdrawn() as event:
            yield from _of_offering(stream, event)
        case tenant.Recorded(tenant_id=tenant_id):
            yield _open(quota.scope("tenant", tenant_id), "tenant")
        case project.Created():
            yield _open(stream, "project")
        case project.Archived():
            yield from _close(stream)
        case quota.Set(kind=kind, id=id, limits=limits):
            yield from _set_limits(quota.scope(kind, id), limits)
        case reservation.Admitted(claimed=claimed):
            yield from _admit(stream, claimed)
        case reservation.Placed(claimed=claimed, queued=True):
            for scope in filter(quota.is_offering, claimed.scopes):
                yield _lock(scope)
                yield _still_open(scope)
            sql = "UPDATE quota_claims SET during = int8range(%s, %s) WHERE reservation_id = %s"
            yield Statement(Phase.QUOTA, stream, sql, (claimed.from_, claimed.until, stream))
        case reservation.Extended() as event:
            yield from _move_end(stream, event)
        case reservation.Preempted(ends_at=ends_at):
            sql = """
            UPDATE quota_claims SET during = int8range(lower(during), greatest(lower(during) + 1, %s))
            WHERE reservation_id = %s AND upper(during) > %s
            """
            yield Statement(Phase.QUOTA, stream, sql, (ends_at, stream, ends_at))
        case reservation.ReleaseStarted():
            sql = "UPDATE quota_claims SET during = int8range(lower(during), NULL) WHERE reservation_id = %s"
            yield Statement(Phase.QUOTA, stream, sql, (stream,))
        case (
            reservation.Released()
            | reservation.Failed()
            | reservation.Cancelled()
            | reservation.Expired()
            | reservation.Denied()
        ):
            sql = "DELETE FROM quota_claims WHERE reservation_id = %s"
            yield Statement(Phase.QUOTA, stream, sql, (stream,))
        case _:
            pass


PROJECTION = Inline("quotas", TABLES, fold)
