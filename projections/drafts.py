"""Open drafts: stored for a decider that reads them back, and not decided on yet (domain.md §5).

Where access is decided here a draft is stored with its decision, and is never open.
"""

from collections.abc import Iterator

from domain import extension, instance, reservation, reservation_terms
from domain.event import Recorded
from projections.projection import Inline, Phase, Statement

TABLES = """
CREATE TABLE open_drafts (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    identity_id text NOT NULL,
    since bigint NOT NULL
);
CREATE INDEX open_drafts_of ON open_drafts (tenant_id, identity_id, since);
CREATE INDEX open_drafts_since ON open_drafts (since);
"""


def _open(stream: str, draft: reservation.Drafted | extension.Drafted | instance.Drafted) -> Iterator[Statement]:
    """An identity's drafts come one after the other, so that each counts those before it."""
    whose = f"{draft.tenant_id}/{draft.identity_id}"
    lock = "SELECT pg_advisory_xact_lock(hashtextextended('draft/' || %s, 0))"
    yield Statement(Phase.KEY, f"{whose}/0", lock, (whose,), True, 1)
    guard = """
    SELECT refuse('TOO_MANY_DRAFTS', jsonb_build_object(
        'most', %s::int, 'milliseconds', min(since) + %s - database_ms()
    ))
    FROM (
        SELECT since FROM open_drafts
        WHERE tenant_id = %s AND identity_id = %s AND since > database_ms() - %s ORDER BY since LIMIT %s
    ) AS others
    HAVING count(*) >= %s
    """
    most, lasts = reservation_terms.DRAFTS, reservation_terms.DRAFT_MS
    params = (most, lasts, draft.tenant_id, draft.identity_id, lasts, most, most)
    yield Statement(Phase.KEY, f"{whose}/1", guard, params, True)
    sql = "INSERT INTO open_drafts (id, tenant_id, identity_id, since) VALUES (%s, %s, %s, %s)"
    yield Statement(Phase.CATALOG, stream, sql, (stream, draft.tenant_id, draft.identity_id, draft.at))


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream = recorded.stream
    match recorded.event:
        case (
            reservation.Drafted(committed=True) | extension.Drafted(committed=True) | instance.Drafted(committed=True)
        ) as draft:
            yield from _open(stream, draft)
        case (
            reservation.Admitted(was_open=True)
            | reservation.Denied()
            | reservation.ConfirmationAwaited()
            | reservation.Cancelled()
            | reservation.Expired()
            | extension.Applied()
            | extension.Denied()
            | extension.Expired()
            | instance.Admitted(was_open=True)
            | instance.Denied()
            | instance.Deleted()
        ):
            yield Statement(Phase.CATALOG, stream, "DELETE FROM open_drafts WHERE id = %s", (stream,))
        case _:
            pass


PROJECTION = Inline("drafts", TABLES, fold)
