"""What a node's own calendar brings about: drains go on, planned maintenance begins and ends (domain.md §3).

A booked device that is missing is looked at here too: nobody tells the node when its last booking ends.
"""

from collections.abc import Sequence
from typing import Final

from commands import evacuating, hardware, members, missing, node_service
from commands.acting import act, following
from commands.gathering import Gathered
from commands.ports import Loaded, Store
from domain import node, registry, reservation, schedulability
from domain.event import Change, Fence

JOB: Final = "nodes"
NOTICE_MS: Final = 60 * 60_000
"""How long before a drain's deadline its reservations are told (domain.md §5, `reservation.ending`)."""


def step(store: Store, node_id: str, fence: Fence) -> int | None:
    """Do what is due on one node and return the position; None when there was nothing to do."""

    def decide() -> Sequence[Change]:
        gathered, now = Gathered(store), store.now()
        loaded = gathered.load(node_id)
        events = planned(loaded.state, now) + hardware.recheck(loaded.state, store.booked_devices(node_id), now)
        if loaded.state.drain is not None:
            carried = store.carried(node_id)
            for reservation_id in carried:
                if members.on(gathered.load(reservation_id).state, node_id) is not None:
                    drain(reservation_id, loaded.state.drain, gathered, now)
            if not carried and loaded.state.drain.drained_at is None:
                events.append(node.Drained(now))
        gathered.add(missing.told(gathered, f"controller:{JOB}", store.booked(node_id), node_id, events, now))
        gathered.add([_settled(node_id, gathered, events, now)])
        return gathered.changes()

    cause: Loaded = store.load(node_id)
    return act(store, following(f"controller:{JOB}", cause.state.admission_id, cause), decide, fence)


def _settled(node_id: str, gathered: Gathered, events: list[node.Events], now: int) -> Change:
    here = gathered.load(node_id)
    return Change(node_id, here.version, tuple(schedulability.settle(here.state, events, now)))


def planned(state: node.State, now: int) -> list[node.Events]:
    """Planned maintenance at its two ends."""
    events: list[node.Events] = []
    begun = {stay.plan for stay in state.maintenance}
    for plan in state.plans:
        after = registry.fold("node_", events, state)
        if plan.until <= now:
            events += node_service.end_plan(after, plan, now)
        elif plan.from_ <= now and plan.id not in begun:
            events.append(node.MaintenanceEntered(plan.reason, now, plan.id))
    return events


def drain(reservation_id: str, under: node.Drain, gathered: Gathered, now: int) -> None:
    """Placed reservations are placed again elsewhere; what runs ends by itself, or at the deadline after notice."""
    loaded = gathered.load(reservation_id)
    state: reservation.State = loaded.state
    if state.status == "placed":
        evacuating.requeue(reservation_id, gathered, "NodeDrained")
    if state.status not in ("binding", "active"):
        return
    if under.deadline is not None and now >= under.deadline:
        evacuating.release(reservation_id, gathered, node_service.DRAINED, now)
    elif _ends_elsewhere(state, under.deadline, gathered):
        return
    elif under.deadline is None or now < under.deadline - NOTICE_MS:
        evacuating.stays(reservation_id, gathered, node_service.DRAINED)
    elif _untold(state, under.deadline):
        told = reservation.Ending(under.deadline, node_service.DRAINED)
        gathered.add([Change(reservation_id, loaded.version, (told,))])


def _untold(state: reservation.State, deadline: int) -> bool:
    ends_before = state.ends_at is not None and state.ends_at <= deadline
    return not ends_before and (state.ending is None or state.ending.at != deadline)


def _ends_elsewhere(state: reservation.State, deadline: int | None, gathered: Gathered) -> bool:
    """Whether it was told of the drain of another of its nodes, which ends it sooner."""
    told = state.ending
    if told is None or told.reason != node_service.DRAINED or (deadline is not None and told.at >= deadline):
        return False
    drains = (gathered.load(allocation.node_id).state.drain for allocation in state.allocations)
    return any(other is not None and other.deadline == told.at for other in drains)
