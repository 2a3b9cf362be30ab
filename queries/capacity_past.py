"""The pools that capacity was told of, and what limited their tenants then: of the pools that the caller sees today."""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

from domain import quota
from projections import versions
from queries.reading import Reader

_POOLS: Final[LiteralString] = f"""
SELECT pools.id, pools.tenant_id,
       CASE WHEN pools.class = 'metal-dedicated' THEN 'node' WHEN pools.sharing = 'exclusive' THEN 'gpu'
            WHEN pools.sharing = 'mig' THEN 'gpu.mig' ELSE 'gpu.slot' END
FROM pools JOIN pools_history AS h ON h.id = pools.id AND NOT h.retired AND {versions.CURRENT}
WHERE (%(pool)s::text IS NULL OR pools.id = %(pool)s) AND (pools.tenant_id = %(me)s OR EXISTS (
    SELECT 1 FROM catalog_offers AS o JOIN tenant_line(%(me)s) AS line ON line.id = o.tenant_id
    WHERE o.pool_id = pools.id AND (line.depth = 0 OR o.include_descendants)))
ORDER BY pools.created_at, pools.id
"""
_OFFERS: Final[LiteralString] = """
SELECT offerings.id, line.depth FROM offerings JOIN tenant_line(%(me)s) AS line ON line.id = offerings.tenant_id
WHERE offerings.pool_id = ANY(%(pools)s) ORDER BY line.depth, offerings.id
"""


def pools(read: Reader, pool_id: str | None, position: int) -> list[tuple[Any, ...]]:
    """As (id, name, GPU model, owner, offer, resource); the offer is that under which the caller had it then."""
    me = read.session.tenant_id
    asked = {"me": me, "pool": pool_id, "_as_of": position}
    found = read.connection.execute(_POOLS, asked).fetchall()
    states = read.load_all_as_of([row[0] for row in found], position)
    offers = _offers(read, [id for id, owner, _ in found if owner != me], position)
    return [
        (id, then.state.name, then.state.gpu_model, owner, offers.get(id), resource)
        for (id, owner, resource), then in zip(found, states, strict=True)
    ]


def _offers(read: Reader, pools: Sequence[str], position: int) -> dict[str, str]:
    """By pool; of several that of the nearest tenant in the line counts, as with a create."""
    rows = read.connection.execute(_OFFERS, {"me": read.session.tenant_id, "pools": list(pools)}).fetchall()
    then = read.load_all_as_of([id for id, _ in rows], position)
    found: dict[str, str] = {}
    for (id, depth), offer in zip(rows, then, strict=True):
        state = offer.state
        if offer.version and not state.withdrawn and (depth == 0 or state.include_descendants):
            found.setdefault(state.pool_id, id)
    return found


def limits(read: Reader, scopes: Sequence[str], position: int) -> dict[tuple[str, str], int]:
    """Of offers, tenants and projects, by scope and resource."""
    streams = [scope if quota.is_offering(scope) else f"quota:{scope}" for scope in scopes]
    amounts: dict[tuple[str, str], int] = {}
    for scope, then in zip(scopes, read.load_all_as_of(streams, position), strict=True):
        held = then.state.quota if quota.is_offering(scope) else then.state.limits
        amounts |= {(scope, resource): most for resource, most in held.items()}
    return amounts
