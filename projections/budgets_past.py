"""What was committed and spent of budgets when (domain.md §5): as `projections.budgets` has it now.

A claim is made by its reservation's own stream. What was spent of a scope on a day has a version for each sum; what a
budget was is read from its stream.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Any, Final, LiteralString

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from domain import budget, reservation
from domain.event import Event, Recorded
from projections import history, versions
from projections.documents import encode
from projections.projection import Async, Steps
from projections.versions import Versions

CLAIM = (
    "scopes jsonb",
    "gpus bigint",
    "gpu_ms bigint",
    "placed boolean",
    "members bigint",
    "each bigint",
    "from_at bigint",
    "until_at bigint",
    "active_at bigint",
)
"""It commits `gpus` over [from_at, until_at) once it is placed, before that `gpu_ms`; both null: not known yet."""

SPENT = ("scope text", "day bigint", "gpu_ms bigint")

TABLES = f"""
{history.tables_of("budget_claims", CLAIM)}
CREATE INDEX budget_claims_history_open ON budget_claims_history (id) WHERE to_position IS NULL;
{history.tables_of("budget_spent", SPENT)}
CREATE INDEX budget_spent_history_scope ON budget_spent_history (scope, day, from_position);
CREATE INDEX budget_spent_history_open ON budget_spent_history (id) WHERE to_position IS NULL;
"""

_CLAIMS: Final = versions.known("budget_claims", CLAIM, "id = ANY(%s)")
_SPENT: Final = versions.known("budget_spent", SPENT, "id = ANY(%s)")

_SCOPES: Final = msgspec.json.Decoder(tuple[str, ...])
_ENDS: Final[Set[type[Event]]] = {
    reservation.ReleaseStarted,
    reservation.Failed,
    reservation.Cancelled,
    reservation.Expired,
}
_TOLD: Final[Set[type[Event]]] = _ENDS | {
    reservation.Budgeted,
    reservation.Admitted,
    reservation.Placed,
    reservation.Extended,
    reservation.Preempted,
    reservation.MemberLost,
    reservation.MemberPlaced,
    reservation.Activated,
}

STOOD: Final[LiteralString] = f"""
SELECT (
    SELECT coalesce(sum(h.gpu_ms), 0)::bigint FROM budget_spent_history AS h
    WHERE h.scope = %(scope)s AND {versions.CURRENT}
      AND h.day >= coalesce(%(from)s::bigint / 86400000, h.day)
      AND h.day < coalesce(%(until)s::bigint / 86400000, h.day + 1)
), (
    SELECT least(coalesce(sum(CASE
        WHEN h.placed OR upper(claimed.during) >= 253402300799000 THEN
            h.gpus * (upper(claimed.during * int8range(%(from)s, %(until)s))
                      - lower(claimed.during * int8range(%(from)s, %(until)s)))
        WHEN claimed.during && int8range(%(from)s, %(until)s) THEN h.gpu_ms
    END), 0), 4611686018427387904)::bigint
    FROM budget_claims_history AS h
    CROSS JOIN LATERAL (SELECT CASE WHEN h.from_at <= h.until_at THEN int8range(h.from_at, h.until_at) END AS during)
        AS claimed
    WHERE h.scopes ? %(scope)s AND {versions.CURRENT}
)
"""
"""What was spent of the budget of `scope` over [from, until) at `_as_of`, and what was committed."""

Use = tuple[str, int, int, int]
"""What was spent: scope, day, GPU-milliseconds, and the position from which it counts."""


class Claim(Struct, frozen=True):
    scopes: tuple[str, ...]
    gpus: int
    gpu_ms: int
    placed: bool = False
    members: int | None = None
    each: int | None = None
    from_: int | None = None
    until: int | None = None
    active_at: int | None = None

    @property
    def empty(self) -> bool:
        return self.from_ is None or self.until is None or self.from_ >= self.until


def apply(batch: Sequence[Recorded]) -> Steps:
    told = [one for one in batch if type(one.event) in _TOLD]
    if not told:
        return ()
    claims: Versions[Claim] = Versions()
    for id, since, scopes, *held in (yield _CLAIMS, (list({one.stream for one in told}),)):
        claims.know(id, since, Claim(_SCOPES.decode(scopes), *held))
    used: list[Use] = []
    for one in told:
        claim = claims.get(one.stream)
        if claim is not None:
            used += [(scope, day, ms, one.position) for scope, day, ms in _used(claim, one.event)]
        claims.put(one.stream, _after(claim, one.event), one.position)
    writes = claims.writes("budget_claims", CLAIM, _columns)
    return [*writes, *(yield from _spent(used))] if used else writes


def _after(claim: Claim | None, event: Any) -> Claim | None:
    if isinstance(event, reservation.Budgeted):
        return Claim(event.scopes, event.gpus, event.gpu_ms) if event.scopes else None
    if claim is None or type(event) in _ENDS:
        return None
    match event:
        case reservation.Admitted(claimed=claimed):
            return replace(claim, from_=claimed.from_, until=claimed.until)
        case reservation.Placed(starts_at=starts_at, ends_at=ends_at, allocations=allocations):
            members = len(allocations)
            each = claim.gpus // members
            return replace(claim, from_=starts_at, until=ends_at, placed=True, members=members, each=each)
        case reservation.Extended(claimed=claimed, ends_at=ends_at):
            start = max(claimed.from_, claim.active_at or claimed.from_)
            return replace(claim, from_=min(start, ends_at), until=ends_at)
        case reservation.Preempted(ends_at=ends_at):
            return _cut(claim, ends_at)
        case reservation.MemberLost(at=at):
            return _with_members(claim, -1, at)
        case reservation.MemberPlaced(starts_at=at):
            return _with_members(claim, 1, at)
        case reservation.Activated(at=at):
            return replace(claim, active_at=at)
        case _:
            return claim


def _cut(claim: Claim, ends_at: int) -> Claim:
    if claim.empty or claim.from_ is None or claim.until is None or claim.until <= ends_at:
        return claim
    return replace(claim, until=max(claim.from_, ends_at))


def _with_members(claim: Claim, by: int, at: int) -> Claim:
    """A gang goes on with one member less, or again with one more: from here on it spends by their number."""
    if claim.members is None or claim.each is None:
        return claim
    members = claim.members + by
    after = replace(claim, members=members, gpus=claim.each * members)
    if claim.active_at is None or claim.active_at >= at:
        return after
    if not claim.empty and claim.until is not None:
        after = replace(after, from_=min(at, claim.until))
    return replace(after, active_at=at)


def _used(claim: Claim, event: Any) -> Iterator[tuple[str, int, int]]:
    """What the claim ran up to the event, by scope and day, in GPU-milliseconds."""
    match event:
        case (
            reservation.ReleaseStarted(at=at)
            | reservation.Failed(at=at)
            | reservation.Cancelled(at=at)
            | reservation.Expired(at=at)
            | reservation.MemberLost(at=at)
            | reservation.MemberPlaced(starts_at=at)
        ):
            since = claim.active_at
            if since is None or since >= at or claim.gpus <= 0:
                return
            for day in range(since // budget.DAY_MS, (at - 1) // budget.DAY_MS + 1):
                ran = min(at, (day + 1) * budget.DAY_MS) - max(since, day * budget.DAY_MS)
                for scope in claim.scopes:
                    yield scope, day, claim.gpus * ran
        case _:
            return


def _spent(used: Sequence[Use]) -> Steps:
    sums: Versions[tuple[str, int, int]] = Versions()
    ids = list({f"{scope}|{day}" for scope, day, _, _ in used})
    for id, since, *held in (yield _SPENT, (ids,)):
        sums.know(id, since, tuple(held))
    for scope, day, ms, position in used:
        before = sums.get(f"{scope}|{day}")
        sums.put(f"{scope}|{day}", (scope, day, ms + (before[2] if before else 0)), position)
    return sums.writes("budget_spent", SPENT, lambda row: row)


def _columns(claim: Claim) -> tuple[Any, ...]:
    return (encode(claim.scopes).decode(), *(getattr(claim, of) for of in claim.__struct_fields__[1:]))


PROJECTION = Async("budgets_past", TABLES, apply)
