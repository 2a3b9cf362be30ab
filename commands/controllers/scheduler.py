"""Places what waits: in each pool by priority, then age, spot last (domain.md §5)."""

from collections.abc import Sequence

from commands import placing, tenancy
from commands.acting import act, following
from commands.ports import NodeClosed, Ports, Store
from domain import claim, errors, quota, reservation
from domain.event import Change, Fence, Meta

JOB = "scheduler"


def walk(ports: Ports, pool_id: str, queue: Sequence[str], fence: Fence) -> None:
    """Place what fits of one pool's queue, given in its order; whoever does not fit now lets others pass.

    All are tried in one view of the pool: were each tried in a fresh one, something that frees in between would go to
    whoever happens to be next. Where one loses a race for its atoms the walk ends, and the next begins at the head.
    """
    store = ports.store
    now = store.now()
    waiting = [(id, store.load(id).state) for id in queue]
    wanted: list[placing.Wanted] = []
    for id, state in waiting:
        if state.status != "pending" or (state.give_up_at is not None and state.give_up_at <= now):
            continue
        if hopeless(store, state) is not None:
            _give_up(store, id, fence)
        elif (window := span(state, now)) is not None:
            wanted.append(placing.Wanted(id, state.draft.claim, window))
    chosen = placing.choose_each(ports, pool_id, wanted)
    left = [(want, places) for want, places in zip(wanted, chosen, strict=True) if places is not None]
    try:
        while left:
            if not _place(ports, pool_id, *left.pop(0), fence):
                return
    finally:
        ports.calendars.drop([one.allocation_id for _, places in left for one in places])


def step(ports: Ports, reservation_id: str, fence: Fence) -> None:
    """Look at one waiting claim alone."""
    draft = ports.store.load(reservation_id).state.draft
    walk(ports, draft.pool_id, [reservation_id], fence)


def _place(ports: Ports, pool_id: str, want: placing.Wanted, places: placing.Places, fence: Fence) -> bool:
    """Whether it was recorded; a claim that loses a race stays where it is in the queue, with its claim on quota."""
    store = ports.store
    found = placing.allocate(ports, places)
    recorded = False

    def decide() -> list[Change]:
        loaded = store.load(want.reservation_id)
        state: reservation.State = loaded.state
        if state.status != "pending" or state.draft is None:
            return []
        return [Change(want.reservation_id, loaded.version, (placed(state, state.draft, found, want.window),))]

    try:
        recorded = act(store, _meta(store, want.reservation_id), decide, fence) is not None
    except (errors.DoubleBooked, NodeClosed):
        ports.calendars.lost(pool_id, tuple(atom for a in found for atom in a.atoms), want.window)
        return False
    finally:
        if not recorded:
            ports.calendars.drop([one.allocation_id for one in places])
    return True


def _give_up(store: Store, reservation_id: str, fence: Fence) -> None:
    def decide() -> list[Change]:
        loaded = store.load(reservation_id)
        state: reservation.State = loaded.state
        reason = hopeless(store, state) if state.status == "pending" else None
        if reason is None:
            return []
        return [Change(reservation_id, loaded.version, (reservation.Failed(reason, store.now(), False),))]

    act(store, _meta(store, reservation_id), decide, fence)


def _meta(store: Store, reservation_id: str) -> Meta:
    cause = store.load(reservation_id)
    return following(f"controller:{JOB}", cause.state.admission_id, cause)


def hopeless(store: Store, state: reservation.State) -> str | None:
    """Why a waiting claim gets nothing any more; None while it may hope. It keeps the offering that admitted it."""
    scopes = state.claimed.scopes if state.claimed else ()
    if any(store.load(scope).state.withdrawn for scope in scopes if quota.is_offering(scope)):
        return "OfferWithdrawn"
    usable = state.draft is None or tenancy.usable(store, state.draft.tenant_id)
    return None if usable else "TenantSuspended"


def span(state: reservation.State, now: int) -> tuple[int, int] | None:
    """The window to place in: a start that comes late keeps its end; None when nothing of it is left.

    A claim that had a place before keeps the window of then.
    """
    assert state.draft is not None
    duration_ms = state.draft.duration_seconds * 1000
    if state.starts_at is None:
        return now, now + duration_ms
    until = state.ends_at or state.starts_at + duration_ms
    start = max(now, state.starts_at)
    return (start, until) if start < until else None


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
