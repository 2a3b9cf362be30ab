"""Quota: limits of offerings, and the claims that admission writes over time (domain.md §5)."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from domain import offering, reservation
from domain.event import Recorded
from projections.projection import Inline, Phase, Statement

TABLES = """
CREATE TABLE quota_scopes (
    scope text PRIMARY KEY,
    kind text NOT NULL,
    withdrawn boolean NOT NULL DEFAULT false
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


def _lock(scope: str) -> Statement:
    sql = "SELECT 1 FROM quota_scopes WHERE scope = %s FOR NO KEY UPDATE"
    return Statement(Phase.QUOTA_LOCK, scope, sql, (scope,), True, 1)


def _peak_within_limit(stream: str, scope: str, claimed: reservation.Claimed) -> Statement:
    """Refuses when, at any instant of the claim, all overlapping claims and this one pass the limit.

    At one instant ends come before starts, so claims that touch do not add up. The peak over time is looked for only
    where the plain sum of all that overlap would pass the limit.
    """
    sql = """
    SELECT refuse('QUOTA_EXCEEDED', jsonb_build_object(
        'kind', scopes.kind, 'resource', wanted.resource,
        'limit', coalesce(limits.amount, 0), 'peak', wanted.amount + coalesce(peak.amount, 0)))
    FROM unnest(%s::text[], %s::bigint[]) AS wanted (resource, amount)
    JOIN quota_scopes AS scopes ON scopes.scope = %s
    LEFT JOIN quota_limits AS limits ON limits.scope = scopes.scope AND limits.resource = wanted.resource
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(amount), 0) AS amount FROM quota_claims
        WHERE hashtextextended(scope, 0) = hashtextextended(scopes.scope, 0)
          AND scope = scopes.scope AND resource = wanted.resource
          AND during && int8range(%s, %s) AND reservation_id <> %s
    ) AS whole
    LEFT JOIN LATERAL (
        SELECT max(used) AS amount FROM (
            SELECT sum(delta) OVER (ORDER BY instant, delta ROWS UNBOUNDED PRECEDING) AS used
            FROM (
                SELECT greatest(lower(during), %s) AS instant, amount AS delta FROM quota_claims
                WHERE wanted.amount + whole.amount > coalesce(limits.amount, 0)
                  AND hashtextextended(scope, 0) = hashtextextended(scopes.scope, 0)
                  AND scope = scopes.scope AND resource = wanted.resource
                  AND during && int8range(%s, %s) AND reservation_id <> %s
                UNION ALL
                SELECT upper(during), -amount FROM quota_claims
                WHERE wanted.amount + whole.amount > coalesce(limits.amount, 0)
                  AND hashtextextended(scope, 0) = hashtextextended(scopes.scope, 0)
                  AND scope = scopes.scope AND resource = wanted.resource
                  AND during && int8range(%s, %s) AND reservation_id <> %s AND NOT upper_inf(during)
            ) AS steps
        ) AS running
    ) AS peak ON true
    WHERE wanted.amount + coalesce(peak.amount, 0) > coalesce(limits.amount, 0)
    ORDER BY wanted.resource LIMIT 1
    """
    window = (claimed.from_, claimed.until, stream)
    amounts = (list(claimed.resources), list(claimed.resources.values()))
    params = (*amounts, scope, *window, claimed.from_, *window, *window)
    return Statement(Phase.QUOTA_CHECK, scope, sql, params, True)


def _still_offered(scope: str) -> Statement:
    sql = """
    SELECT refuse('RACE', '{}'::jsonb) WHERE EXISTS (SELECT 1 FROM quota_scopes WHERE scope = %s AND withdrawn)
    """
    return Statement(Phase.QUOTA_CHECK, scope, sql, (scope,), True)


def _admit(stream: str, claimed: reservation.Claimed) -> Iterator[Statement]:
    for scope in claimed.scopes:
        yield _lock(scope)
        yield _still_offered(scope)
        yield _peak_within_limit(stream, scope, claimed)
        sql = """
        INSERT INTO quota_claims (reservation_id, scope, resource, amount, during)
        SELECT %s, %s, resource, amount, int8range(%s, %s)
        FROM unnest(%s::text[], %s::bigint[]) AS wanted (resource, amount)
        """
        amounts = (list(claimed.resources), list(claimed.resources.values()))
        params = (stream, scope, claimed.from_, claimed.until, *amounts)
        yield Statement(Phase.QUOTA, scope, sql, params)


def _move_end(stream: str, event: reservation.Extended) -> Iterator[Statement]:
    """Checked is what an extension adds; what a shortening leaves is there for others at once."""
    claimed = event.claimed
    for scope in claimed.scopes:
        yield _lock(scope)
        if event.ends_at > event.former_ends_at:
            yield _still_offered(scope)
            added = replace(claimed, from_=event.former_ends_at, until=event.ends_at)
            yield _peak_within_limit(stream, scope, added)
    sql = "UPDATE quota_claims SET during = int8range(%s, %s) WHERE reservation_id = %s"
    yield Statement(Phase.QUOTA, stream, sql, (claimed.from_, claimed.until, stream))


def _set_limits(stream: str, quota: Mapping[offering.Resource, int]) -> Iterator[Statement]:
    yield _lock(stream)
    clearing = "DELETE FROM quota_limits WHERE scope = %s"
    yield Statement(Phase.QUOTA, stream, clearing, (stream,))
    filling = """
    INSERT INTO quota_limits (scope, resource, amount)
    SELECT %s, resource, amount FROM unnest(%s::text[], %s::bigint[]) AS given (resource, amount)
    """
    yield Statement(Phase.QUOTA, stream, filling, (stream, list(quota), list(quota.values())))


def _of_offering(stream: str, event: offering.Events) -> Iterator[Statement]:
    match event:
        case offering.Offered(quota=quota):
            sql = "INSERT INTO quota_scopes (scope, kind) VALUES (%s, 'offering')"
            yield Statement(Phase.QUOTA, stream, sql, (stream,))
            yield from _set_limits(stream, quota)
        case offering.Changed(quota=quota):
            yield from _set_limits(stream, quota)
        case _:
            yield from _set_limits(stream, {})
            sql = "UPDATE quota_scopes SET withdrawn = true WHERE scope = %s"
            yield Statement(Phase.QUOTA, stream, sql, (stream,))


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream = recorded.stream
    match recorded.event:
        case offering.Offered() | offering.Changed() | offering.Withdrawn() as event:
            yield from _of_offering(stream, event)
        case reservation.Admitted(claimed=claimed):
            yield from _admit(stream, claimed)
        case reservation.Placed(claimed=claimed, queued=True):
            for scope in claimed.scopes:
                yield _lock(scope)
                yield _still_offered(scope)
            sql = "UPDATE quota_claims SET during = int8range(%s, %s) WHERE reservation_id = %s"
            yield Statement(Phase.QUOTA, stream, sql, (claimed.from_, claimed.until, stream))
        case reservation.Extended() as event:
            yield from _move_end(stream, event)
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
