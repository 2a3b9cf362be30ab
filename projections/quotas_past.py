"""What was claimed of quotas when: the versions of each reservation's claim, which its own stream makes (domain.md §5).

As `projections.quotas` has them now; limits are read from the streams of quotas and offerings.
"""

from collections.abc import Sequence, Set
from typing import Any, Final, LiteralString

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from domain import reservation
from domain.event import Event, Recorded
from projections import history, versions
from projections.documents import encode
from projections.projection import Async, Steps
from projections.versions import Versions

FACETS = ("scopes text", "resources text", "from_at bigint", "until_at bigint")
"""It holds each of `resources`, amounts by name, in each of `scopes`, over [from_at, until_at) in epoch ms; as JSON."""

TABLES = f"""
{history.tables_of("quota_claims", FACETS)}
CREATE INDEX quota_claims_history_open ON quota_claims_history (id) WHERE to_position IS NULL;
"""

_KNOWN: Final = versions.known("quota_claims", FACETS, "id = ANY(%s)")
_SCOPES: Final = msgspec.json.Decoder(tuple[str, ...])
_AMOUNTS: Final = msgspec.json.Decoder(dict[str, int])
_ENDS: Final[Set[type[Event]]] = {
    reservation.Released,
    reservation.Failed,
    reservation.Cancelled,
    reservation.Expired,
    reservation.Denied,
}
_TOLD: Final[Set[type[Event]]] = _ENDS | {
    reservation.Admitted,
    reservation.Placed,
    reservation.Extended,
    reservation.Preempted,
    reservation.ReleaseStarted,
}

CLAIMS: Final[LiteralString] = f"""(
    SELECT h.id AS reservation_id, scopes.scope, of.key AS resource, of.value::bigint AS amount,
           int8range(h.from_at, h.until_at) AS during
    FROM quota_claims_history AS h CROSS JOIN LATERAL jsonb_array_elements_text(h.scopes::jsonb) AS scopes (scope)
    CROSS JOIN LATERAL jsonb_each_text(h.resources::jsonb) AS of WHERE {versions.CURRENT}
)"""
"""The rows of `quota_claims` as they were at `_as_of`."""


class Claim(Struct, frozen=True):
    scopes: tuple[str, ...]
    resources: dict[str, int]
    from_: int
    until: int | None


def apply(batch: Sequence[Recorded]) -> Steps:
    told = [one for one in batch if type(one.event) in _TOLD]
    if not told:
        return ()
    claims: Versions[Claim] = Versions()
    for id, since, scopes, resources, *during in (yield _KNOWN, (list({one.stream for one in told}),)):
        claims.know(id, since, Claim(_SCOPES.decode(scopes), _AMOUNTS.decode(resources), *during))
    for one in told:
        claims.put(one.stream, _after(claims.get(one.stream), one.event), one.position)
    return claims.writes("quota_claims", FACETS, _columns)


def _after(claim: Claim | None, event: Any) -> Claim | None:
    if type(event) in _ENDS:
        return None
    if isinstance(event, reservation.Admitted):
        of = event.claimed
        return Claim(of.scopes, of.resources, of.from_, of.until) if of.scopes and of.resources else None
    if claim is None:
        return None
    match event:
        case reservation.Placed(claimed=claimed, queued=True) | reservation.Extended(claimed=claimed):
            return replace(claim, from_=claimed.from_, until=claimed.until)
        case reservation.Preempted(ends_at=ends_at) if claim.until is not None and claim.until > ends_at:
            return replace(claim, until=max(claim.from_ + 1, ends_at))
        case reservation.ReleaseStarted():
            return replace(claim, until=None)
        case _:
            return claim


def _columns(claim: Claim) -> tuple[Any, ...]:
    return encode(claim.scopes).decode(), encode(claim.resources).decode(), claim.from_, claim.until


PROJECTION = Async("quotas_past", TABLES, apply)
