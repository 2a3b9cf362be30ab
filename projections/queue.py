"""The queue of each pool: who waits, and in which order (domain.md §5: priority, then age; spot last)."""

from collections.abc import Iterator

from domain import reservation
from domain.event import Recorded
from projections.projection import Inline, Phase, Statement

TABLES = """
CREATE TABLE pool_queue (
    reservation_id text PRIMARY KEY,
    pool_id text NOT NULL,
    spot boolean NOT NULL,
    priority integer NOT NULL,
    since bigint NOT NULL
);
CREATE INDEX pool_queue_order ON pool_queue (pool_id, spot, priority DESC, since, reservation_id);
"""


def _nobody_ahead(stream: str, event: reservation.Placed) -> Statement:
    """A claim that did not wait is placed only while no admitted claim of the pool is ahead of it."""
    sql = """
    SELECT refuse('QUEUE_AHEAD', '{}'::jsonb)
    WHERE EXISTS (
        SELECT 1 FROM pool_queue
        WHERE pool_id = %s AND reservation_id <> %s AND (spot, -priority, since) < (%s, %s, %s)
    )
    """
    params = (event.pool_id, stream, event.spot, -event.priority, event.since)
    return Statement(Phase.GATE_CHECK, event.pool_id, sql, params, True)


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream = recorded.stream
    match recorded.event:
        case reservation.Queued() as event:
            sql = """
            INSERT INTO pool_queue (reservation_id, pool_id, spot, priority, since)
            VALUES (%s, %s, %s, %s, %s) ON CONFLICT (reservation_id) DO NOTHING
            """
            params = (stream, event.pool_id, event.spot, event.priority, event.since)
            yield Statement(Phase.CATALOG, stream, sql, params)
        case reservation.Placed(queued=False) as event:
            yield _nobody_ahead(stream, event)
        case (
            reservation.Placed()
            | reservation.Cancelled()
            | reservation.Expired()
            | reservation.Failed()
            | reservation.Denied()
        ):
            sql = "DELETE FROM pool_queue WHERE reservation_id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (stream,))
        case _:
            pass


PROJECTION = Inline("queue", TABLES, fold)
