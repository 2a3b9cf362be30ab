"""A new claim while others wait ahead of it: decided at once by the rule of the queue (domain/queueing.py).

Nobody waits for the scheduler to be told what was clear already. That two processes cannot break the rule is the
database's affair: the append is refused when the queue is no longer the one that this was decided on.
"""

from msgspec import Struct
from msgspec.structs import replace

from commands import placing, preempting
from commands.ports import Race
from commands.unit import Unit
from domain import queueing, reservation, waiting
from domain.event import Change


class Behind(Struct, frozen=True):
    """What the rule says of a claim with so many `ahead`, and on which version of the queue.

    `allocations` are held where it is placed, `victims` are the changes that make room for it.
    """

    verdict: queueing.Verdict
    allocations: tuple[reservation.Allocation, ...] | None
    ahead: int
    queue: int
    victims: tuple[Change, ...] = ()


def helps(unit: Unit, draft: reservation.Drafted) -> bool:
    """Whether there is more to tell than that there is no room: one that waits is promised a start, which those ahead
    push back; and there may be spot to preempt."""
    if unit.behind or draft.max_pending_seconds != 0:
        return True
    if draft.spot:
        return False
    with unit.ports.calendars.locked(draft.pool_id) as calendar:
        return bool(calendar.spots)


def look(
    unit: Unit, reservation_id: str, draft: reservation.Drafted, priority: int, window: tuple[int, int]
) -> Behind | None:
    """None where too many are ahead. Before it says that it waits it reads what the log had when it was asked, unless
    whoever looked before it did."""
    store, pool_id = unit.ports.store, draft.pool_id
    queue = store.queue(pool_id, (draft.spot, priority, draft.at), waiting.AHEAD + 1)
    if len(queue.ahead) > waiting.AHEAD:
        return None
    states = [loaded.state for loaded in store.load_all(queue.ahead)]
    ahead = waiting.line(zip(queue.ahead, states, strict=True), unit.now)
    movable = waiting.is_movable(draft, draft.starts_at)
    own = queueing.Waiter(reservation_id, draft.claim, window, movable, spot=draft.spot)
    verdict, places = placing.choose_behind(unit.ports, pool_id, ahead, own, unit.now)
    if places is None and unit.behind:
        unit.ports.calendars.lost(pool_id, (), window)
        verdict, places = placing.choose_behind(unit.ports, pool_id, ahead, own, unit.now)
    known = Behind(verdict, None, len(queue.ahead), queue.version)
    if places is None:
        return known
    try:
        victims = _victims(unit, verdict)
    except Race:
        unit.ports.calendars.drop([one.allocation_id for one in places])
        raise
    return replace(known, allocations=placing.allocate(unit.ports, places), victims=victims)


def _victims(unit: Unit, verdict: queueing.Verdict) -> tuple[Change, ...]:
    if verdict.preempts is None:
        return ()
    return tuple(preempting.changes(unit.load, verdict.preempts, unit.now, unit.admission_id, None))
