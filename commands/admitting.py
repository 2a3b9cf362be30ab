"""From a draft that was decided to a reservation: placed, waiting, or awaiting its person (domain.md §5).

A create comes here, and whoever confirms one later.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from commands import backfilling, budgets, placing
from commands.ports import Offer
from commands.unit import Contested, Outcome, Unit
from domain import access, asking, claim, errors, pool, quota, reservation, reservation_terms
from domain.event import Change

PLACE_TRIES: Final = 5
REFUSALS: Final = (
    errors.AccessDenied,
    errors.NotFound,
    errors.Conflict,
    errors.DoubleBooked,
    errors.QuotaExceeded,
    errors.BudgetExceeded,
    errors.SpendLimitReached,
    errors.KeyReused,
)
"""What whoever claims room in a pool can be told."""


class Asked(Struct, frozen=True):
    """A draft, and the version that its stream has: 0 where it is not recorded yet.

    One that awaits its person already does so `until` (epoch ms), whatever it is found to await.
    """

    id: str
    draft: reservation.Drafted
    version: int = 0
    until: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is stored and was not decided on yet."""
        return self.version > 0 and self.until is None

    def change(self, *events: reservation.Events) -> Change:
        return Change(self.id, self.version, events if self.version else (self.draft, *events))


def resource(asked: Asked) -> access.Resource:
    """What the create is decided on: the exact draft (domain.md §10)."""
    draft = asked.draft
    attributes = asking.attributes(draft)
    return access.Resource("compute-reservation", asked.id, draft.tenant_id, attributes, "compute-pool", draft.pool_id)


def commit(asked: Asked, unit: Unit) -> Asked:
    """The draft alone is stored, where whoever decides reads it back (domain.md §5)."""
    draft = replace(asked.draft, committed=True)
    unit.commit(Change(asked.id, 0, (draft,)))
    return Asked(asked.id, draft, 1)


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
    if checks == "confirm" and draft.instance_id is not None:
        checks = "enforce"  # nobody is asked about an instance: it is admitted or denied
    over = None if checks == "off" or confirmed else budgets.over(draft, unit)
    if over is not None and checks == "confirm":
        return awaits(asked, "OverBudget", over.detail, unit, admitted=True)
    if over is not None:
        return denied(asked, over, admitted=True)
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
    until = unit.now + reservation_terms.CONFIRM_MS if asked.until is None else asked.until
    event = reservation.ConfirmationAwaited(reason, detail, unit.now, until, unit.admission_id if admitted else None)
    return Outcome((asked.change(event),), admitted=admitted)


def no_capacity(reservation_id: str, behind: bool) -> errors.DoubleBooked:
    why = "others wait for this pool before you" if behind else "the pool has no room for this now"
    refusal = errors.DoubleBooked(f"{why}, and maxPendingSeconds is 0")
    refusal.extra["reservationId"] = reservation_id
    return refusal


class _Room(Struct, frozen=True):
    """Where it goes over `window`, if anywhere; `behind` is what the queue's rule says where it was asked."""

    found: tuple[reservation.Allocation, ...] | None
    window: tuple[int, int]
    behind: backfilling.Behind | None = None

    @property
    def passes(self) -> bool:
        """Whether others are ahead, whom it delays in nothing."""
        return self.behind is not None and self.behind.ahead > 0


def _room(asked: Asked, priority: int, window: tuple[int, int], unit: Unit) -> _Room:
    """At once when it fits and nobody is ahead, or when the rule of the queue has it (architecture.md §4)."""
    draft, found = asked.draft, None
    if len(unit.races) >= PLACE_TRIES:
        return _Room(None, window)
    if not unit.behind:
        found = placing.choose_now(unit.ports, draft.pool_id, placing.Wanted(asked.id, draft.claim, window))
    if found is not None or not backfilling.helps(unit, draft):
        return _Room(found, window)
    behind = backfilling.look(unit, asked.id, draft, priority, window)
    if behind is None or behind.allocations is None:
        return _Room(None, window, behind)
    return _Room(behind.allocations, behind.verdict.window, behind)


def _place_or_queue(asked: Asked, offer: Offer | None, spends: tuple[reservation.Budgeted, ...], unit: Unit) -> Outcome:
    """Placed where there is room; else it waits with its claim."""
    draft = asked.draft
    window = asking.at_once(draft, unit.now)
    if window[0] >= window[1]:
        return Outcome((asked.change(reservation.Expired("WindowPassed", unit.now)),))
    priority = offer.priority if offer else 0
    room = _room(asked, priority, window, unit)

    def instead(refusal: errors.Conflict) -> Outcome:
        return denied(asked, refusal, admitted=True)

    scopes = (*((offer.id,) if offer else ()), *quota.scopes(draft.tenant_id, draft.project_id))
    if room.found is None:
        return _queue(asked, spends, scopes, priority, unit, room, instead)
    claimed = reservation.Claimed(scopes, claim.resources(draft.claim), *room.window)
    admitted = reservation.Admitted(unit.admission_id, claimed, priority, asked.is_open)
    placed = reservation.Placed(
        pool_id=draft.pool_id,
        tenant_id=draft.tenant_id,
        starts_at=room.window[0],
        ends_at=room.window[1],
        allocations=room.found,
        claimed=claimed,
        priority=priority,
        spot=draft.spot,
        since=draft.at,
        queued=room.passes,
    )
    atoms = tuple(atom for allocation in room.found for atom in allocation.atoms)
    contested = Contested(draft.pool_id, atoms, room.window, tuple(allocation.id for allocation in room.found))
    change = asked.change(*spends, admitted, *_past_others(asked, placed, unit, room))
    victims = room.behind.victims if room.behind is not None else ()
    return Outcome((change, *victims), contested=contested, instead=instead)


def _past_others(asked: Asked, placed: reservation.Placed, unit: Unit, room: _Room) -> tuple[reservation.Events, ...]:
    if room.behind is None or not room.passes:
        return (placed,)
    queued = _queued(asked.draft, placed.priority, unit, room)
    passed = reservation.Backfilled(placed.pool_id, room.behind.ahead, unit.now, room.behind.queue)
    return queued, placed, passed


def _queue(
    asked: Asked,
    spends: tuple[reservation.Budgeted, ...],
    scopes: tuple[str, ...],
    priority: int,
    unit: Unit,
    room: _Room,
    instead: Callable[[errors.Conflict], Outcome],
) -> Outcome:
    draft = asked.draft
    queued = _queued(draft, priority, unit, room)
    if draft.max_pending_seconds == 0:
        refusal = no_capacity(asked.id, queued.reason == "QueueAhead")
        return Outcome((asked.change(reservation.Expired(queued.reason, unit.now)),), refusal=refusal)
    window, _ = asking.waiting(draft, unit.now)
    claimed = reservation.Claimed(scopes, claim.resources(draft.claim), *window)
    admitted = reservation.Admitted(unit.admission_id, claimed, priority, asked.is_open)
    return Outcome((asked.change(*spends, admitted, queued),), instead=instead)


def _queued(draft: reservation.Drafted, priority: int, unit: Unit, room: _Room) -> reservation.Queued:
    reason, earliest = "QueueAhead" if unit.behind else "NoCapacity", None
    if room.behind is not None:
        guard = room.behind.verdict.guard
        reason, earliest = room.behind.verdict.reason, guard.start if guard is not None else None
    return reservation.Queued(
        pool_id=draft.pool_id,
        priority=priority,
        spot=draft.spot,
        since=draft.at,
        reason=reason,
        give_up_at=asking.waiting(draft, unit.now)[1],
        earliest_start=earliest,
    )
