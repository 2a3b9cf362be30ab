"""When each part of the log was written, made monotonic: `asOf` in epoch ms becomes a position (architecture.md §2).

Time only labels, position orders. A row says that the log had come to `position` at `t`, where t never goes back: the
state as of an instant is the one after the last position whose t is not later.
"""

from collections.abc import Sequence

from domain.event import Recorded
from projections import history
from projections.projection import Async, Steps, Write

TABLES = """
CREATE TABLE log_time (
    t bigint PRIMARY KEY,
    position bigint NOT NULL
);
CREATE INDEX log_time_by_position ON log_time (position);
"""

AS_OF = "SELECT position FROM log_time WHERE t <= %s ORDER BY t DESC LIMIT 1"
"""The position that an instant stands for; no row: before the log began."""

WHEN = "SELECT t FROM log_time WHERE position >= %s ORDER BY position LIMIT 1"
"""When the log came to a position."""

_LATEST = "SELECT t FROM log_time ORDER BY t DESC LIMIT 1"
_FURTHER = "UPDATE log_time SET position = %s WHERE t = %s"


def apply(batch: Sequence[Recorded]) -> Steps:
    """One row an instant, however the log is cut into batches."""
    row = yield _LATEST, ()
    known: int = row[0][0] if row else 0
    latest = known
    reached: dict[int, int] = {}
    for recorded in batch:
        latest = max(latest, recorded.recorded_at)
        reached[latest] = recorded.position
    further = reached.pop(known, None)
    writes: list[Write] = [] if further is None else [(_FURTHER, (further, known))]
    if reached:
        writes.append(history.insert("log_time", ("t bigint", "position bigint"), reached.items()))
    return writes


PROJECTION = Async("log_time", TABLES, apply)
