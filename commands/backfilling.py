"""A new claim while others wait ahead of it: decided at once by the rule of the queue (domain/queueing.py).

Nobody waits for the scheduler to be told what was clear already. That two processes cannot break the rule is the
database's affair: the append is refused when the queue is no longer the one that this was decided on.
"""

from typing import Final

from msgspec import Struct

from commands import placing
from commands.unit import Unit
from domain import queueing, reservation

AHEAD: Final = 64
"""Behind more than so many a claim waits for the scheduler's next walk."""


class Behind(Struct, frozen=True):
    """What the rule says of a claim, and of which version of the queue; `allocations` are held where it is placed."""

    verdict: queueing.Verdict
    allocations: tuple[reservation.Allocation, ...] | None
    queue: int


def look(
    unit: Unit, reservation_id: str, draft: reservation.Drafted, priority: int, window: tuple[int, int]
) -> Behind | None:
    """None where too many are ahead. Before it says that it waits it reads what the log had when it was asked."""
    store, pool_id = unit.ports.store, draft.pool_id
    queue = store.queue(pool_id, (draft.spot, priority, draft.at), AHEAD + 1)
    if len(queue.ahead) > AHEAD:
        return None
    ahead = []
    for id, loaded in zip(queue.ahead, store.load_all(queue.ahead), strict=True):
        state: reservation.State = loaded.state
        its = placing.span(state, unit.now) if placing.waits(state, unit.now) else None
        if its is not None:
            ahead.append(placing.waiter(id, state, its))
    own = queueing.Waiter(reservation_id, draft.claim, window, draft.starts_at is None)
    verdict, places = placing.choose_behind(unit.ports, pool_id, ahead, own, unit.now)
    if places is None:
        unit.ports.calendars.lost(pool_id, (), window)
        verdict, places = placing.choose_behind(unit.ports, pool_id, ahead, own, unit.now)
    return Behind(verdict, placing.allocate(unit.ports, places) if places is not None else None, queue.version)
