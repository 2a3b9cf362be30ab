"""From a draft that was decided to a reservation: placed, waiting, or awaiting its person (domain.md §5).

A create comes here, and whoever confirms one later.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from commands import backfilling, budgets, placing
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


def admit(asked: Asked, unit: Unit, *, confirmed: bool = False) -> Outcome:
    """It is allowed: what the offering, budget, quota and room make of it."""
    draft = asked.draft
    of: pool.State = unit.existing(draft.pool_id, "poolId").state
    offer = None
    if of.owner_tenant_id != draft.tenant_id:
        offer = unit.offer(draft.pool_id)
        if offer is None:
            raise unit.unseen("compute-pool", draft.pool_id, "poolId")
    checks = of.policy.admission.budget_check
    over = None if checks == "off" or confirmed else budgets.exceeded(unit.ports, draft)
    if over is not None and checks == "confirm":
        return awaits(asked, "OverBudget", budgets.refusal(over).detail, unit, admitted=True)
    if over is not None:
        return denied(asked, budgets.refusal(over), admitted=True)
    spends = () if checks == "off" else (budgets.budgeted(draft, enforced=checks == "enforce"),)
    return _place_or_queue(asked, offer, spends, unit)


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


def _place_or_queue(asked: Asked, offer: Offer | None, spends: tuple[reservation.Budgeted, ...], unit: Unit) -> Outcome:
    """Placed at once when it fits and nobody is ahead; else it waits with its claim (architecture.md §4)."""
    draft = asked.draft
    window = asking.at_once(draft, unit.now)
    if window[0] >= window[1]:
        return Outcome((asked.change(reservation.Expired("WindowPassed", unit.now)),))
    priority = offer.priority if offer else 0
    found, behind = None, None
    if not unit.behind and len(unit.races) < PLACE_TRIES:
        found = placing.choose_now(unit.ports, draft.pool_id, placing.Wanted(asked.id, draft.claim, window))
    if found is None and len(unit.races) < PLACE_TRIES and backfilling.helps(unit, draft):
        behind = backfilling.look(unit, asked.id, draft, priority, window)
        if behind is not None and behind.allocations is not None:
            found, window = behind.allocations, behind.verdict.window

    def instead(refusal: errors.Conflict) -> Outcome:
        return denied(asked, refusal, admitted=True)

    scopes = (*((offer.id,) if offer else ()), *quota.scopes(draft.tenant_id, draft.project_id))
    if found is None:
        return _queue(asked, spends, scopes, priority, unit, instead, behind)
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
        queued=behind is not None and behind.ahead > 0,
    )
    atoms = tuple(atom for allocation in found for atom in allocation.atoms)
    contested = Contested(draft.pool_id, atoms, window, tuple(allocation.id for allocation in found))
    events: tuple[reservation.Events, ...] = (placed,)
    if behind is not None and behind.ahead > 0:
        passed = reservation.Backfilled(draft.pool_id, behind.ahead, unit.now, behind.queue)
        events = (_queued(draft, priority, unit, behind), placed, passed)
    victims = behind.victims if behind is not None else ()
    change = asked.change(*spends, admitted, *events)
    return Outcome((change, *victims), contested=contested, instead=instead)


def _queue(
    asked: Asked,
    spends: tuple[reservation.Budgeted, ...],
    scopes: tuple[str, ...],
    priority: int,
    unit: Unit,
    instead: Callable[[errors.Conflict], Outcome],
    behind: backfilling.Behind | None,
) -> Outcome:
    draft = asked.draft
    if draft.max_pending_seconds == 0:
        passed_over = unit.behind if behind is None else behind.verdict.reason == "QueueAhead"
        expired = reservation.Expired("QueueAhead" if passed_over else "NoCapacity", unit.now)
        return Outcome((asked.change(expired),), refusal=no_capacity(asked.id, passed_over))
    window, _ = asking.waiting(draft, unit.now)
    claimed = reservation.Claimed(scopes, claim.resources(draft.claim), *window)
    admitted = reservation.Admitted(unit.admission_id, claimed, priority)
    queued = _queued(draft, priority, unit, behind)
    return Outcome((asked.change(*spends, admitted, queued),), instead=instead)


def _queued(
    draft: reservation.Drafted, priority: int, unit: Unit, behind: backfilling.Behind | None
) -> reservation.Queued:
    _, give_up_at = asking.waiting(draft, unit.now)
    earliest = None
    if behind is not None:
        earliest = behind.verdict.guard.start if behind.verdict.guard else None
    elif draft.starts_at is None:
        duration_ms = draft.duration_seconds * 1000
        earliest = placing.earliest(unit.ports, draft.pool_id, draft.claim, duration_ms, unit.now)
    reason = behind.verdict.reason if behind is not None else "QueueAhead" if unit.behind else "NoCapacity"
    return reservation.Queued(
        pool_id=draft.pool_id,
        priority=priority,
        spot=draft.spot,
        since=draft.at,
        reason=reason,
        give_up_at=give_up_at,
        earliest_start=earliest,
    )
