"""Places what waits: in each pool by priority, then age, spot last (domain.md §5, domain/queueing.py)."""

from collections.abc import Callable, Generator, Mapping, Sequence, Set
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from commands import placing, preempting, tenancy
from commands.acting import act, following
from commands.ports import Loaded, NodeClosed, Ports, Race, Store
from domain import claim, errors, queueing, quota, reservation, waiting
from domain.event import Change, Fence, Meta

JOB = "scheduler"

Step = tuple[str, Callable[[], bool]]
"""Something to do for one reservation."""


class Skipped(Struct, frozen=True):
    """So many of the queue are left out of what is walked, after its first `after`."""

    after: int
    count: int


def walk(
    ports: Ports,
    pool_id: str,
    queue: Sequence[str],
    fence: Fence,
    *,
    seek: bool = True,
    skipped: Skipped | None = None,
    resting: Set[str] = frozenset(),
) -> Generator[Step]:
    """What there is to do for a pool's queue, given in its order, step by step; each is to be done as it comes.

    All are planned in one view of the pool: were each tried in a fresh one, something that frees in between would go to
    whoever happens to be next. Where one loses a race for its atoms the walk ends, and the next begins at the head.
    With `seek` better starts are looked for as well. For those `resting` there is nothing to do, but what they were
    promised is kept.
    """
    store = ports.store
    now = store.now()
    planned: dict[str, Loaded] = {}
    waiters: list[queueing.Waiter] = []
    waits = {
        id: loaded for id, loaded in zip(queue, store.load_all(queue), strict=True) if waiting.waits(loaded.state, now)
    }
    of = standing(store, [loaded.state for loaded in waits.values()])
    for id, loaded in waits.items():
        state: reservation.State = loaded.state
        if hopeless(state, of) is not None and id not in resting:
            yield id, partial(_give_up, store, id, fence)
        elif (window := waiting.span(state, now)) is not None:
            planned[id] = loaded
            waiters.append(waiting.waiter(id, state, window))
    look = _Look(now, seek, skipped, frozenset(queue[skipped.after :]) if skipped else frozenset(), resting)
    yield from _placing(ports, pool_id, waiters, planned, fence, look)


class _Look(Struct, frozen=True):
    """How a queue is looked at: when, whether for better starts, and who of it is beyond what is skipped, or rests."""

    now: int
    seek: bool
    skipped: Skipped | None
    beyond: frozenset[str]
    resting: Set[str]


def _placing(
    ports: Ports,
    pool_id: str,
    waiters: Sequence[queueing.Waiter],
    planned: Mapping[str, Loaded],
    fence: Fence,
    look: _Look,
) -> Generator[Step]:
    left = placing.choose_in_order(ports, pool_id, waiters, look.now, seek=look.seek)
    lost: list[str] = []
    unused: list[placing.Chosen] = []
    try:
        for waiter in waiters:
            verdict, places = left.pop(0)
            if waiter.id in look.resting:
                unused += places or ()
            elif places is not None:
                ahead = verdict.ahead + (look.skipped.count if waiter.id in look.beyond and look.skipped else 0)
                yield waiter.id, partial(_place, ports, pool_id, replace(verdict, ahead=ahead), places, fence, lost)
            elif _worth_telling(planned[waiter.id].state.waits, verdict, look.seek):
                tell = partial(_tell, ports.store, pool_id, waiter.id, planned[waiter.id], verdict, fence)
                yield waiter.id, tell
            if lost:
                return
    finally:
        unused += (one for _, places in left for one in places or ())
        ports.calendars.drop([one.allocation_id for one in unused])


def _place(
    ports: Ports,
    pool_id: str,
    verdict: queueing.Verdict,
    places: placing.Places,
    fence: Fence,
    lost: list[str],
) -> bool:
    """Whether it was recorded; a claim that loses a race stays where it is in the queue, with its claim on quota."""
    store = ports.store
    found = placing.allocate(ports, places)
    recorded = False

    def decide() -> list[Change]:
        loaded, now = store.load(verdict.id), store.now()
        state: reservation.State = loaded.state
        if not waiting.waits(state, now) or state.draft is None:
            return []
        events: list[reservation.Events] = [placed(state, state.draft, found, verdict.window)]
        if verdict.ahead:
            events.append(reservation.Backfilled(pool_id, verdict.ahead, now))
        return [Change(verdict.id, loaded.version, tuple(events)), *_victims(store, verdict, loaded, now)]

    try:
        recorded = act(store, _meta(store, verdict.id), decide, fence) is not None
    except (errors.DoubleBooked, NodeClosed):
        lost.append(verdict.id)
        ports.calendars.lost(pool_id, tuple(atom for a in found for atom in a.atoms), verdict.window)
    except Race:
        lost.append(verdict.id)
        raise
    finally:
        if not recorded:
            ports.calendars.drop([one.allocation_id for one in places])
    return recorded


def _victims(store: Store, verdict: queueing.Verdict, loaded: Loaded, now: int) -> list[Change]:
    if verdict.preempts is None:
        return []
    return preempting.changes(store.load, verdict.preempts, now, loaded.state.admission_id, loaded.event_id)


def _worth_telling(told: reservation.Waits | None, verdict: queueing.Verdict, seek: bool) -> bool:
    """Whether a waiting claim's event would say something new: the log does not grow by waiting alone.

    A reason that changes to and fro is told where better starts are looked for too, which is not in every walk.
    """
    if not verdict.looked:
        return told is not None and bool(told.place)
    if told is None or told.place != waiting.seats(verdict.guard):
        return True
    if verdict.guard is None or told.earliest_start is None:
        return seek and told.reason != verdict.reason
    moved = abs(verdict.guard.start - told.earliest_start) > queueing.SLACK_MS
    return moved or (seek and told.reason != verdict.reason)


def _tell(store: Store, pool_id: str, id: str, planned: Loaded, verdict: queueing.Verdict, fence: Fence) -> bool:
    def decide() -> list[Change]:
        if store.load(id).version != planned.version:
            return []
        start = verdict.guard.start if verdict.guard is not None else None
        place = waiting.seats(verdict.guard)
        told = reservation.Waits(verdict.reason, verdict.detail, pool_id, store.now(), start, place)
        return [Change(id, planned.version, (told,))]

    return act(store, _meta(store, id), decide, fence) is not None


def _give_up(store: Store, reservation_id: str, fence: Fence) -> bool:
    def decide() -> list[Change]:
        loaded = store.load(reservation_id)
        state: reservation.State = loaded.state
        reason = hopeless(state, standing(store, [state])) if state.status == "pending" else None
        if reason is None:
            return []
        return [Change(reservation_id, loaded.version, (reservation.Failed(reason, store.now(), False),))]

    return act(store, _meta(store, reservation_id), decide, fence) is not None


def _meta(store: Store, reservation_id: str) -> Meta:
    cause = store.load(reservation_id)
    return following(f"controller:{JOB}", cause.state.admission_id, cause)


class Standing(Struct, frozen=True):
    """Offerings that are withdrawn, and tenants that may begin nothing."""

    withdrawn: frozenset[str]
    barred: frozenset[str]


def standing(store: Store, states: Sequence[reservation.State]) -> Standing:
    """A few queries, however many wait."""
    offers = list(dict.fromkeys(offer for state in states for offer in _offers(state)))
    tenants = dict.fromkeys(state.draft.tenant_id for state in states if state.draft is not None)
    withdrawn = zip(offers, store.load_all(offers), strict=True)
    return Standing(frozenset(id for id, loaded in withdrawn if loaded.state.withdrawn), tenancy.barred(store, tenants))


def _offers(state: reservation.State) -> list[str]:
    """It keeps the offering that admitted it."""
    return [scope for scope in state.claimed.scopes if quota.is_offering(scope)] if state.claimed else []


def hopeless(state: reservation.State, of: Standing) -> str | None:
    """Why a waiting claim gets nothing any more; None while it may hope."""
    if of.withdrawn.intersection(_offers(state)):
        return "OfferWithdrawn"
    return "TenantSuspended" if state.draft is not None and state.draft.tenant_id in of.barred else None


def placed(
    state: reservation.State,
    draft: reservation.Drafted,
    found: tuple[reservation.Allocation, ...],
    window: tuple[int, int],
) -> reservation.Placed:
    """Placing narrows the quota claim to the window (domain.md §5)."""
    scopes = state.claimed.scopes if state.claimed else ()
    return reservation.Placed(
        pool_id=draft.pool_id,
        tenant_id=draft.tenant_id,
        starts_at=window[0],
        ends_at=window[1],
        allocations=found,
        claimed=reservation.Claimed(scopes, claim.resources(draft.claim), *window),
        priority=state.priority,
        spot=draft.spot,
        since=state.since,
        queued=True,
    )
