"""The peaks of quota use over a window: what `projections.quotas` guards at an admission, to look at (domain.md §5)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from domain import offering
from queries.reading import Reader


class Peak(Struct, frozen=True, kw_only=True, rename="camel"):
    """A quota's highest use over the claim's window, without the claim and with it; `at` is when (epoch ms).

    `limit` is null where the resource is unlimited.
    """

    kind: str
    resource: str
    limit: int | None
    before: int
    after: int
    at: int

    @property
    def over(self) -> bool:
        return self.limit is not None and self.after > self.limit


_PEAKS = """
SELECT scopes.kind, asked.resource, coalesce(limits.amount, CASE scopes.kind WHEN 'offering' THEN 0 END),
       coalesce(peak.used, 0)::bigint, coalesce(peak.instant, %(from)s::bigint)
FROM unnest(%(scopes)s::text[]) WITH ORDINALITY AS wanted (scope, place)
JOIN quota_scopes AS scopes ON scopes.scope = wanted.scope
CROSS JOIN unnest(%(resources)s::text[]) AS asked (resource)
LEFT JOIN quota_limits AS limits ON limits.scope = scopes.scope AND limits.resource = asked.resource
LEFT JOIN LATERAL (
    SELECT used, instant FROM (
        SELECT instant, sum(delta) OVER (ORDER BY instant, delta ROWS UNBOUNDED PRECEDING) AS used
        FROM (
            SELECT greatest(lower(during), %(from)s) AS instant, amount AS delta FROM quota_claims
            WHERE hashtextextended(scope, 0) = hashtextextended(scopes.scope, 0) AND scope = scopes.scope
              AND resource = asked.resource AND during && int8range(%(from)s, %(until)s)
            UNION ALL
            SELECT upper(during), -amount FROM quota_claims
            WHERE hashtextextended(scope, 0) = hashtextextended(scopes.scope, 0) AND scope = scopes.scope
              AND resource = asked.resource AND during && int8range(%(from)s, %(until)s) AND NOT upper_inf(during)
        ) AS steps
    ) AS running
    ORDER BY used DESC, instant LIMIT 1
) AS peak ON true
ORDER BY wanted.place, asked.resource
"""


def peaks(
    read: Reader,
    scopes: Sequence[str],
    resources: Mapping[str, int],
    window: tuple[int, int],
    instead: Mapping[offering.Resource, int],
) -> tuple[Peak, ...]:
    """One of each quota and resource; limits of `instead` stand for a quota's own."""
    wanted = {"scopes": list(scopes), "resources": list(resources), "from": window[0], "until": window[1]}
    return tuple(
        Peak(
            kind=kind,
            resource=resource,
            limit=instead.get(resource, limit),
            before=used,
            after=used + resources[resource],
            at=at,
        )
        for kind, resource, limit, used, at in read.connection.execute(_PEAKS, wanted).fetchall()
    )
