"""Places what waits: in each pool by priority, then age, spot last (domain.md §5)."""

from commands import placing
from commands.acting import act
from commands.ports import Ports
from domain import claim, errors, reservation
from domain.event import Change, Fence, Meta

JOB = "scheduler"


def step(ports: Ports, reservation_id: str, fence: Fence) -> bool:
    """Place one waiting claim if it fits now; say whether it left the queue.

    A claim that loses a race for its atoms stays where it is in the queue, with its claim on quota.
    """
    store = ports.store
    contested: list[tuple[str, tuple[str, ...], tuple[int, int]]] = []

    def decide() -> list[Change]:
        loaded = store.load(reservation_id)
        state: reservation.State = loaded.state
        if state.status != "pending":
            return []
        draft, now = state.draft, store.now()
        assert draft is not None
        owner = store.load(draft.pool_id).state.owner_tenant_id
        if owner != draft.tenant_id and store.offer(draft.tenant_id, draft.pool_id) is None:
            failed = reservation.Failed("OfferWithdrawn", now, False)
            return [Change(reservation_id, loaded.version, (failed,))]
        window = span(state, draft, now)
        if window is None:
            return []
        found = placing.choose(ports, reservation_id, draft.pool_id, draft.claim, window)
        if found is None:
            return []
        contested[:] = [(draft.pool_id, tuple(atom for a in found for atom in a.atoms), window)]
        return [Change(reservation_id, loaded.version, (placed(state, draft, found, window),))]

    admission = store.load(reservation_id).state.admission_id
    try:
        return act(store, Meta(f"controller:{JOB}", admission), decide, fence) is not None
    except errors.DoubleBooked:
        for lost in contested:
            ports.calendars.lost(*lost)
        return False


def span(state: reservation.State, draft: reservation.Drafted, now: int) -> tuple[int, int] | None:
    """The window to place in: a start that comes late keeps its end; None when nothing of it is left."""
    duration_ms = draft.duration_seconds * 1000
    if draft.starts_at is None:
        return now, now + duration_ms
    until = draft.starts_at + duration_ms
    start = max(now, draft.starts_at)
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
