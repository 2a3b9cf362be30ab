"""Budgets of tenants and projects: what live claims may take of them, and what ended ones ran (domain.md §5).

A claim counts with its GPUs over its window as soon as that is known, before with all that it may take. When it ends,
its row goes and what it ran from its activation on is added to the days it ran in: periods are whole days, UTC. One
without an end may take all that is left of the period, and of a budget without one so much that sums are cut off.
"""

from collections.abc import Iterator
from typing import Final, LiteralString

from domain import budget, project, quota, reservation, tenant
from domain.event import Recorded
from projections.projection import Inline, Phase, Statement

TABLES = """
CREATE TABLE budgets (
    scope text PRIMARY KEY,
    kind text NOT NULL,
    gpu_ms bigint,
    from_at bigint,
    until_at bigint
);
CREATE TABLE budget_claims (
    reservation_id text NOT NULL,
    scope text NOT NULL,
    gpus bigint NOT NULL,
    gpu_ms bigint NOT NULL,
    enforced boolean NOT NULL,
    placed boolean NOT NULL DEFAULT false,
    members bigint,
    each bigint,
    during int8range,
    active_at bigint,
    PRIMARY KEY (reservation_id, scope)
);
CREATE INDEX budget_claims_scope ON budget_claims (scope);
CREATE TABLE budget_spent (
    scope text NOT NULL,
    day bigint NOT NULL,
    gpu_ms bigint NOT NULL,
    PRIMARY KEY (scope, day)
);
"""

ACCOUNTS: Final[LiteralString] = """
SELECT b.scope, b.kind, b.gpu_ms, b.from_at, b.until_at, spent.gpu_ms AS spent, committed.gpu_ms AS committed
FROM budgets AS b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(s.gpu_ms), 0)::bigint AS gpu_ms FROM budget_spent AS s
    WHERE s.scope = b.scope AND s.day >= coalesce(b.from_at / 86400000, s.day)
      AND s.day < coalesce(b.until_at / 86400000, s.day + 1)
) AS spent
CROSS JOIN LATERAL (
    SELECT least(coalesce(sum(CASE
        WHEN c.placed OR upper(c.during) >= 253402300799000 THEN
            c.gpus * (upper(c.during * int8range(b.from_at, b.until_at))
                      - lower(c.during * int8range(b.from_at, b.until_at)))
        WHEN c.during && int8range(b.from_at, b.until_at) THEN c.gpu_ms
    END), 0), 4611686018427387904)::bigint AS gpu_ms FROM budget_claims AS c WHERE c.scope = b.scope
) AS committed
WHERE b.scope = ANY(%s)
"""
"""How budgets stand, by scope. A window that overlaps no part of the period gives null, which adds nothing."""

_LOCK: Final = """
SELECT 1 FROM budgets
WHERE scope = ANY(ARRAY(
    SELECT unnest(%s::text[]) UNION SELECT scope FROM budget_claims WHERE reservation_id = ANY(%s::text[])
))
ORDER BY scope FOR NO KEY UPDATE
"""


def _lock(scopes: list[str], reservations: list[str]) -> Statement:
    """Behind the quotas' rows: their keys begin with a smaller digit."""
    return Statement(Phase.QUOTA_LOCK, "4", _LOCK, (scopes, reservations), True, 1, True)


def _open(scope: str, kind: quota.Kind) -> Statement:
    sql = "INSERT INTO budgets (scope, kind) VALUES (%s, %s) ON CONFLICT (scope) DO NOTHING"
    return Statement(Phase.QUOTA, f"4{scope}", sql, (scope, kind))


def _set(event: budget.Set) -> Iterator[Statement]:
    scope = quota.scope(event.kind, event.id)
    yield _lock([scope], [])
    sql = "UPDATE budgets SET gpu_ms = %s, from_at = %s, until_at = %s WHERE scope = %s"
    yield Statement(Phase.QUOTA, f"4{scope}", sql, (event.gpu_ms, event.from_, event.until, scope))


def _claim(stream: str, event: reservation.Budgeted) -> Iterator[Statement]:
    scopes = list(event.scopes)
    yield _lock(scopes, [])
    sql = """
    INSERT INTO budget_claims (reservation_id, scope, gpus, gpu_ms, enforced)
    SELECT %s, scope, %s, %s, %s FROM unnest(%s::text[]) AS given (scope)
    """
    params = (stream, event.gpus, event.gpu_ms, event.enforced, scopes)
    yield Statement(Phase.QUOTA, f"4{stream}", sql, params)
    if event.enforced:
        yield _left(stream)


def _left(stream: str) -> Statement:
    """Refuses an enforced claim that takes anything of a budget that does not hold all that is committed with it."""
    sql = (
        """
    SELECT refuse('BUDGET_EXCEEDED', jsonb_build_object(
        'kind', account.kind, 'budget', account.gpu_ms, 'needed', mine.gpu_ms,
        'left', account.gpu_ms - account.spent - account.committed + mine.gpu_ms,
        'endless', account.until_at IS NULL AND upper(c.during) >= 253402300799000))
    FROM budget_claims AS c
    JOIN LATERAL ("""
        + ACCOUNTS.replace("ANY(%s)", "c.scope")
        + """) AS account ON true
    CROSS JOIN LATERAL (
        SELECT CASE WHEN c.placed OR upper(c.during) >= 253402300799000 THEN
            c.gpus * (upper(c.during * int8range(account.from_at, account.until_at))
                      - lower(c.during * int8range(account.from_at, account.until_at)))
        WHEN c.during && int8range(account.from_at, account.until_at) THEN c.gpu_ms END AS gpu_ms
    ) AS mine
    WHERE c.reservation_id = %s AND c.enforced AND mine.gpu_ms > 0
      AND account.spent + account.committed > account.gpu_ms
    ORDER BY c.scope DESC LIMIT 1
    """
    )
    return Statement(Phase.BUDGET_CHECK, stream, sql, (stream,), True)


def _window(stream: str, claimed: reservation.Claimed) -> Statement:
    sql = "UPDATE budget_claims SET during = int8range(%s, %s) WHERE reservation_id = %s"
    return Statement(Phase.QUOTA, f"5{stream}", sql, (claimed.from_, claimed.until, stream))


def _place(stream: str, event: reservation.Placed) -> Statement:
    """A place says for how long as well, also where a late start keeps its end."""
    sql = """
    UPDATE budget_claims SET during = int8range(%s, %s), placed = true, members = %s, each = gpus / %s
    WHERE reservation_id = %s
    """
    members = len(event.allocations)
    params = (event.starts_at, event.ends_at, members, members, stream)
    return Statement(Phase.QUOTA, f"5{stream}", sql, params)


def _extend(stream: str, event: reservation.Extended) -> Iterator[Statement]:
    yield _lock([], [stream])
    sql = """
    UPDATE budget_claims SET during = int8range(least(greatest(%s, active_at), %s), %s) WHERE reservation_id = %s
    """
    window = (event.claimed.from_, event.ends_at, event.ends_at)
    yield Statement(Phase.QUOTA, f"5{stream}", sql, (*window, stream))
    if event.ends_at > event.former_ends_at:
        yield _left(stream)


def _cut(stream: str, ends_at: int) -> Iterator[Statement]:
    """What is preempted commits no more than up to its new end."""
    yield _lock([], [stream])
    sql = """
    UPDATE budget_claims SET during = int8range(lower(during), greatest(lower(during), %s))
    WHERE reservation_id = %s AND upper(during) > %s
    """
    yield Statement(Phase.QUOTA, f"5{stream}", sql, (ends_at, stream, ends_at))


def _settle(stream: str, at: int) -> Iterator[Statement]:
    """What it ran up to `at` is spent, day by day; what is to come stays committed."""
    yield _lock([], [stream])
    spending = """
    INSERT INTO budget_spent (scope, day, gpu_ms)
    SELECT scope, day, gpus * (least(%s, (day + 1) * 86400000) - greatest(active_at, day * 86400000))
    FROM budget_claims, generate_series(active_at / 86400000, (%s - 1) / 86400000) AS day
    WHERE reservation_id = %s AND active_at < %s AND gpus > 0 ORDER BY scope, day
    ON CONFLICT (scope, day) DO UPDATE SET gpu_ms = budget_spent.gpu_ms + excluded.gpu_ms
    """
    yield Statement(Phase.QUOTA, f"6{stream}", spending, (at, at, stream, at))


def _end(stream: str, at: int) -> Iterator[Statement]:
    yield _lock([], [stream])
    sql = """
    WITH ended AS (DELETE FROM budget_claims WHERE reservation_id = %s RETURNING scope, gpus, active_at)
    INSERT INTO budget_spent (scope, day, gpu_ms)
    SELECT scope, day, gpus * (least(%s, (day + 1) * 86400000) - greatest(active_at, day * 86400000))
    FROM ended, generate_series(active_at / 86400000, (%s - 1) / 86400000) AS day
    WHERE active_at < %s AND gpus > 0 ORDER BY scope, day
    ON CONFLICT (scope, day) DO UPDATE SET gpu_ms = budget_spent.gpu_ms + excluded.gpu_ms
    """
    yield Statement(Phase.QUOTA, f"6{stream}", sql, (stream, at, at, at))


def _members(stream: str, by: int, at: int) -> Iterator[Statement]:
    """A gang goes on with one member less, or again with one more: from here on it spends by their number."""
    yield from _settle(stream, at)
    sql = """
    UPDATE budget_claims SET members = members + %s, gpus = each * (members + %s),
        active_at = CASE WHEN active_at < %s THEN %s ELSE active_at END,
        during = CASE WHEN active_at < %s AND NOT isempty(during)
            THEN int8range(least(%s, upper(during)), upper(during)) ELSE during END
    WHERE reservation_id = %s
    """
    yield Statement(Phase.QUOTA, f"6{stream}", sql, (by, by, at, at, at, at, stream))


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream = recorded.stream
    match recorded.event:
        case tenant.Recorded(tenant_id=tenant_id):
            yield _open(quota.scope("tenant", tenant_id), "tenant")
        case project.Created():
            yield _open(stream, "project")
        case budget.Set() as event:
            yield from _set(event)
        case reservation.Budgeted() as event:
            yield from _claim(stream, event)
        case reservation.Admitted(claimed=claimed):
            yield _window(stream, claimed)
        case reservation.Placed() as event:
            yield _place(stream, event)
        case reservation.Extended() as event:
            yield from _extend(stream, event)
        case reservation.Preempted(ends_at=ends_at):
            yield from _cut(stream, ends_at)
        case reservation.MemberLost(at=at):
            yield from _members(stream, -1, at)
        case reservation.MemberPlaced(starts_at=at):
            yield from _members(stream, 1, at)
        case reservation.Activated(at=at):
            sql = "UPDATE budget_claims SET active_at = %s WHERE reservation_id = %s"
            yield Statement(Phase.QUOTA, f"5{stream}", sql, (at, stream))
        case (
            reservation.ReleaseStarted(at=at)
            | reservation.Failed(at=at)
            | reservation.Cancelled(at=at)
            | reservation.Expired(at=at)
        ):
            yield from _end(stream, at)
        case _:
            pass


PROJECTION = Inline("budgets", TABLES, fold)
