"""When each part of the log was written, made monotonic: `asOf` in epoch ms becomes a position (architecture.md §2).

Time only labels, position orders. A row says that the log had come to `position` at `t`, where t never goes back: the
state as of an instant is the one after the last position whose t is not later.
"""

from collections.abc import Sequence

from domain.event import Recorded
from projections.projection import Async, Steps

TABLES = """
CREATE TABLE log_time (
    t bigint PRIMARY KEY,
    position bigint NOT NULL
);
CREATE UNIQUE INDEX log_time_by_position ON log_time (position);
"""

AS_OF = "SELECT position FROM log_time WHERE t <= %s ORDER BY t DESC LIMIT 1"
"""The position that an instant stands for; no row: before the log began."""

WHEN = "SELECT t FROM log_time WHERE position >= %s ORDER BY position LIMIT 1"
"""When the log came to a position."""


def apply(batch: Sequence[Recorded]) -> Steps:
    """One row an instant, however the log is cut into batches."""
    row = yield "SELECT t FROM log_time ORDER BY t DESC LIMIT 1", ()
    latest: int = row[0][0] if row else 0
    reached: dict[int, int] = {}
    for recorded in batch:
        latest = max(latest, recorded.recorded_at)
        reached[latest] = recorded.position
    sql = """
    INSERT INTO log_time (t, position) SELECT t, position FROM unnest(%s::bigint[], %s::bigint[]) AS given (t, position)
    ON CONFLICT (t) DO UPDATE SET position = excluded.position
    """
    return [(sql, (list(reached), list(reached.values())))]


PROJECTION = Async("log_time", TABLES, apply)
