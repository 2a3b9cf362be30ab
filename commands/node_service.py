"""Taking a node out of service and back: cordon, drain, maintenance (domain.md §3)."""

from typing import Annotated, Final

from msgspec import Meta

from commands import evacuating
from commands.gathering import Gathered
from commands.of_nodes import Act, ActWithReason, Reason, alive, declare, on_node
from commands.unit import Outcome, Unit, changed
from domain import errors, node, pool, schedulability
from domain.event import Change
from domain.operation import Request
from domain.policy.instant import written

LATE_MS: Final = 5_000
AHEAD_MS: Final = 5 * 366 * 86_400_000
LONGEST_MS: Final = 366 * 86_400_000
MOST_PLANS: Final = 32
DRAINED: Final = "Drained"
"""Why a reservation ends at a drain's deadline."""

Instant = Annotated[int, Meta(ge=0, le=2**53, description="epoch ms")]


class Drain(Request, frozen=True, kw_only=True):
    """At `deadline` what is still active is released, with notice; without one it ends by itself.

    `force` is beyond the pool's disruption budget.
    """

    id: str
    reason: Reason
    deadline: Instant | None = None
    force: bool = False


class Maintain(Request, frozen=True, kw_only=True):
    """`on: false` ends the maintenance, of this reason alone if one is given; `plan` calls off a planned one.

    `from` and `until` plan it: the node's atoms are booked for that time.
    """

    id: str
    on: bool
    reason: Reason | None = None
    from_: Instant | None = None
    until: Instant | None = None
    plan: Annotated[str, Meta(max_length=64, description="id of a planned maintenance; with on: false")] | None = None


def cordon(state: node.State, reason: str, now: int) -> list[node.Events]:
    alive(state, "a cordon")
    if state.cordoned is not None:
        return []
    return [node.Cordoned(reason, now)]


def uncordon(state: node.State, now: int) -> list[node.Events]:
    """Ends a drain as well."""
    events: list[node.Events] = [] if state.cordoned is None else [node.Uncordoned(now)]
    return events if state.drain is None else [*events, node.DrainEnded(now)]


def end_drain(command: Act, unit: Unit) -> Outcome:
    """Whoever was told that a drain would end its reservation is told that it does not."""
    loaded = unit.existing(command.id)
    gathered = Gathered(unit)
    events = schedulability.settle(loaded.state, uncordon(loaded.state, unit.now), unit.now)
    gathered.add([Change(command.id, loaded.version, tuple(events))])
    if loaded.state.drain is not None:
        for reservation_id in unit.ports.store.carried(command.id):
            evacuating.stays(reservation_id, gathered, DRAINED)
    return Outcome(gathered.changes(first=command.id))


def start_drain(state: node.State, command: Drain, budget: float, now: int) -> list[node.Events]:
    """Cordons it; what is booked then leaves bit by bit. The append refuses what is beyond the pool's budget."""
    alive(state, "a drain")
    if command.deadline is not None and command.deadline < now - LATE_MS:
        raise errors.Invalid("deadline", f"lies in the past; now is {written(now)}")
    if command.deadline is not None and command.deadline > now + LONGEST_MS:
        raise errors.Invalid("deadline", "lies more than 366 days ahead")
    if state.drain is not None and (state.drain.reason, state.drain.deadline) == (command.reason, command.deadline):
        return []
    started = node.DrainStarted(command.reason, now, state.pool_id, budget, command.force, command.deadline)
    return [*cordon(state, command.reason, now), started]


def drain(command: Drain, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    state: node.State = loaded.state
    policy = unit.load(state.pool_id).state.policy if state.pool_id else pool.Policy()
    events = start_drain(state, command, policy.disruption_budget, unit.now)
    return Outcome((changed(command.id, loaded, schedulability.settle(state, events, unit.now)),))


def maintain(command: Maintain, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    state: node.State = loaded.state
    if command.on and command.plan is not None:
        raise errors.Invalid("plan", "calls off planned maintenance: only with on: false")
    if command.on and (command.from_ is not None or command.until is not None):
        planned = plan(state, command, unit.new_id("alloc"), unit.now)
        events: list[node.Events] = [planned] if planned else []
    elif command.from_ is not None or command.until is not None:
        raise errors.Invalid("from", "plans maintenance: only with on: true")
    elif command.on:
        events = enter(state, command.reason or "maintenance", unit.now)
    elif command.plan is not None:
        events = call_off(state, command.plan, unit.now)
    else:
        events = leave(state, command.reason, unit.now)
    return Outcome((changed(command.id, loaded, schedulability.settle(state, events, unit.now)),))


def enter(state: node.State, reason: str, now: int) -> list[node.Events]:
    alive(state, "maintenance")
    if any((stay.reason, stay.plan) == (reason, None) for stay in state.maintenance):
        return []
    return [node.MaintenanceEntered(reason, now)]


def leave(state: node.State, reason: str | None, now: int) -> list[node.Events]:
    """Planned maintenance that has begun ends with its reason."""
    ended = [stay for stay in state.maintenance if reason in (None, stay.reason)]
    if not ended:
        not_only_planned(state, reason)
        return []
    still = len(ended) < len(state.maintenance)
    left = node.MaintenanceLeft(now, () if reason is None else (reason,), still=still)
    return [left, *(node.PlanEnded(stay.plan, now) for stay in ended if stay.plan is not None)]


def not_only_planned(state: node.State, reason: str | None) -> None:
    planned = ", ".join(plan.id for plan in state.plans if plan.reason == reason)
    if planned:
        raise errors.Invalid("reason", f"is that of planned maintenance: call it off with plan {planned}")


def call_off(state: node.State, plan_id: str, now: int) -> list[node.Events]:
    plan = next((plan for plan in state.plans if plan.id == plan_id), None)
    if plan is None:
        known = ", ".join(one.id for one in state.plans) or "none"
        raise errors.Invalid("plan", f"is no planned maintenance of this node; it has {known}")
    return end_plan(state, plan, now)


def end_plan(state: node.State, plan: node.Plan, now: int) -> list[node.Events]:
    """With what it brought, if it has begun; what an operator brought for the same reason stays."""
    others = [stay for stay in state.maintenance if stay.plan != plan.id]
    ended = node.PlanEnded(plan.id, now)
    if len(others) == len(state.maintenance):
        return [ended]
    return [node.MaintenanceLeft(now, plan=plan.id, still=bool(others)), ended]


def plan(state: node.State, command: Maintain, plan_id: str, now: int) -> node.MaintenancePlanned | None:
    """Books every atom over the time; the append refuses it where one is booked already, naming the bookings."""
    alive(state, "maintenance")
    if command.from_ is None or command.until is None:
        raise errors.Invalid("until" if command.until is None else "from", "planned maintenance needs both ends")
    if command.until <= command.from_:
        raise errors.Invalid("until", "lies at or before from")
    if command.from_ < now - LATE_MS:
        raise errors.Invalid("from", f"lies in the past; now is {written(now)}")
    if command.until > now + AHEAD_MS or command.until - command.from_ > LONGEST_MS:
        raise errors.Invalid("until", "lies more than 366 days after from, or five years ahead")
    reason = command.reason or "maintenance"
    if any((one.reason, one.from_, one.until) == (reason, command.from_, command.until) for one in state.plans):
        return None
    if len(state.plans) >= MOST_PLANS:
        raise errors.Conflict(f"a node has at most {MOST_PLANS} planned maintenances")
    atoms = tuple(device.id for device in state.devices if device.bookable) if state.pool_id else ()
    window = node.Plan(plan_id, reason, max(command.from_, now), command.until, atoms)
    return node.MaintenancePlanned(state.pool_id, state.owner_tenant_id, window)


OPERATIONS = (
    declare("nodes.cordon", "cordon", ActWithReason, on_node(cordon, "reason"), "Place nothing new on a node"),
    declare("nodes.uncordon", "uncordon", Act, end_drain, "Allow placement on a node again; ends a drain"),
    declare(
        "nodes.drain",
        "drain",
        Drain,
        drain,
        "Cordon a node and empty it",
        example={"deadline": 1_796_104_800_000},
    ),
    declare(
        "nodes.maintain",
        "maintenance",
        Maintain,
        maintain,
        "Enter or leave maintenance, now or at a planned time",
        example={"on": True, "reason": "bios", "from": 1_796_104_800_000, "until": 1_796_112_000_000},
    ),
)
