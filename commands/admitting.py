"""From a draft that was decided to a reservation: placed, waiting, or awaiting its person (domain.md §5).

A create comes here, and whoever confirms one later.
"""

from typing import Final, Literal

from msgspec import Struct

from commands import placing
from commands.ports import Offer
from commands.unit import Contested, Outcome, Unit
from domain import access, asking, claim, errors, pool, quota, reservation, reservation_terms
from domain.event import Change

PLACE_TRIES: Final = 5


class Asked(Struct, frozen=True):
    """A draft, and the version that its stream has: 0 where it is not recorded yet."""

    id: str
    draft: reservation.Drafted
    version: int = 0

    def change(self, *events: reservation.Events) -> Change:
        return Change(self.id, self.version, events if self.version else (self.draft, *events))


def resource(asked: Asked) -> access.Resource:
    """What the create is decided on: the exact draft (domain.md §10)."""
    draft = asked.draft
    attributes = reservation.attributes(draft)
    return access.Resource("compute-reservation", asked.id, draft.tenant_id, attributes, "compute-pool", draft.pool_id)


def admit(asked: Asked, unit: Unit) -> Outcome:
    """It is allowed: what the offering, quota and room make of it."""
    draft = asked.draft
    of: pool.State = unit.existing(draft.pool_id, "poolId").state
    offer = None
    if of.owner_tenant_id != draft.tenant_id:
        offer = unit.ports.store.offer(draft.tenant_id, draft.pool_id)
        if offer is None:
            raise unit.unseen("compute-pool", draft.pool_id, "poolId")
    return _place_or_queue(asked, offer, unit)


def denied(asked: Asked, refusal: errors.Refusal, *, admitted: bool) -> Outcome:
    refusal.extra["reservationId"] = asked.id
    extra = {name: value for name, value in refusal.extra.items() if not isinstance(value, tuple)}
    event = reservation.Denied(type(refusal).__name__, refusal.code, refusal.detail, extra)
    return Outcome((asked.change(event),), refusal=refusal, admitted=admitted)


def awaits(
    asked: Asked, reason: Literal["DecisionRefused", "OverBudget"], detail: str, unit: Unit, *, admitted: bool
) -> Outcome:
    """It holds nothing; its person confirms it, or it expires. `admitted` is false for what IAM refused so far."""
    until = unit.now + reservation_terms.CONFIRM_MS
    event = reservation.ConfirmationAwaited(reason, detail, unit.now, until, unit.admission_id if admitted else None)
    return Outcome((asked.change(event),), admitted=admitted)


def no_capacity(reservation_id: str, behind: bool) -> errors.DoubleBooked:
    why = "others wait for this pool before you" if behind else "the pool has no room for this now"
    refusal = errors.DoubleBooked(f"{why}, and maxPendingSeconds is 0")
    refusal.extra["reservationId"] = reservation_id
    return refusal


def _place_or_queue(asked: Asked, offer: Offer | None, unit: Unit) -> Outcome:
    """Placed at once when it fits and nobody is ahead; else it waits with its claim (architecture.md §4)."""
    draft = asked.draft
    window = asking.at_once(draft, unit.now)
    if window[0] >= window[1]:
        return Outcome((asked.change(reservation.Expired("WindowPassed", unit.now)),))
    found = None
    if not unit.behind and len(unit.races) < PLACE_TRIES:
        found = placing.choose_now(unit.ports, draft.pool_id, placing.Wanted(asked.id, draft.claim, window))
    priority = offer.priority if offer else 0

    def instead(refusal: errors.Conflict) -> Outcome:
        return denied(asked, refusal, admitted=True)

    scopes = (*((offer.id,) if offer else ()), *quota.scopes(draft.tenant_id, draft.project_id))
    if found is None:
        return _queue(asked, scopes, priority, unit, instead)
    claimed = reservation.Claimed(scopes, claim.resources(draft.claim), *window)
    admitted = reservation.Admitted(unit.admission_id, claimed, priority)
    placed = reservation.Placed(
        pool_id=draft.pool_id,
        tenant_id=draft.tenant_id,
        starts_at=window[0],
        ends_at=window[1],
        allocations=found,
        claimed=claimed,
        priority=priority,
        spot=draft.spot,
        since=draft.at,
        queued=False,
    )
    atoms = tuple(atom for allocation in found for atom in allocation.atoms)
    contested = Contested(draft.pool_id, atoms, window, tuple(allocation.id for allocation in found))
    return Outcome((asked.change(admitted, placed),), contested=contested, instead=instead)


def _queue(asked: Asked, scopes: tuple[str, ...], priority: int, unit: Unit, instead: object) -> Outcome:
    draft = asked.draft
    if draft.max_pending_seconds == 0:
        expired = reservation.Expired("QueueAhead" if unit.behind else "NoCapacity", unit.now)
        return Outcome((asked.change(expired),), refusal=no_capacity(asked.id, unit.behind))
    window, give_up_at = asking.waiting(draft, unit.now)
    claimed = reservation.Claimed(scopes, claim.resources(draft.claim), *window)
    queued = reservation.Queued(
        pool_id=draft.pool_id,
        priority=priority,
        spot=draft.spot,
        since=draft.at,
        reason="QueueAhead" if unit.behind else "NoCapacity",
        give_up_at=give_up_at,
        earliest_start=None
        if draft.starts_at is not None
        else placing.earliest(unit.ports, draft.pool_id, draft.claim, draft.duration_seconds * 1000, unit.now),
    )
    admitted = reservation.Admitted(unit.admission_id, claimed, priority)
    return Outcome((asked.change(admitted, queued),), instead=instead)  # type: ignore[arg-type]
