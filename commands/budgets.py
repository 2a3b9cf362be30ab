"""Budgets: set them, and whether a claim takes more than is left (domain.md §2, §5)."""

from typing import Annotated

from msgspec import Meta, field

from commands import quotas
from commands.ports import Ports
from commands.unit import Outcome, Unit, changed
from domain import asking, budget, errors, quota, reservation
from domain.operation import Operation, Request

Day = Annotated[int, Meta(ge=0, le=2**53, description="epoch ms, the beginning of a day (UTC)")]


class Set(Request, frozen=True, kw_only=True):
    """`gpuHours` null takes the budget away; `from` and `until` bound the days in which it counts."""

    kind: quota.Kind
    id: Annotated[str, Meta(max_length=128)]
    gpu_hours: Annotated[float, Meta(ge=0, le=1e9)] | None
    from_: Day | None = field(name="from", default=None)
    until: Day | None = None


def set_(command: Set, unit: Unit) -> Outcome:
    tenant_id = quotas.grantee(command.kind, command.id, unit)
    stream = budget.stream(command.kind, command.id)
    loaded = unit.load(stream)
    return Outcome((changed(stream, loaded, change(command, loaded.state, tenant_id, unit.now)),))


def change(command: Set, state: budget.State, tenant_id: str, now: int) -> list[budget.Events]:
    for name, instant in (("from", command.from_), ("until", command.until)):
        if instant is not None and instant % budget.DAY_MS:
            raise errors.Invalid(name, "is not the beginning of a day in UTC: a multiple of 86400000")
    if command.from_ is not None and command.until is not None and command.from_ >= command.until:
        raise errors.Invalid("until", "lies before the period begins")
    gpu_ms = None if command.gpu_hours is None else round(command.gpu_hours * budget.HOUR_MS)
    wanted = (gpu_ms, command.from_, command.until)
    if state.set_at and wanted == (state.gpu_ms, state.from_, state.until):
        return []
    return [budget.Set(command.kind, command.id, tenant_id, gpu_ms, now, command.from_, command.until)]


def budgeted(draft: reservation.Drafted, *, enforced: bool) -> reservation.Budgeted:
    """What an admitted claim may take of its tenant's and its project's budgets."""
    scopes = quota.scopes(draft.tenant_id, draft.project_id)
    start, end = asking.asked_for(draft)
    return reservation.Budgeted(scopes, draft.gpu_count, draft.gpu_count * (end - start), enforced)


def exceeded(ports: Ports, draft: reservation.Drafted, window: tuple[int, int] | None = None) -> budget.Exceeded | None:
    """Whether a draft takes more than is left of its tenant's or its project's budget, were it admitted now.

    `window` (epoch ms) is what an extension adds, in place of the draft's own.
    """
    accounts = ports.budgets.accounts(quota.scopes(draft.tenant_id, draft.project_id))
    return budget.exceeded(accounts, draft.gpu_count, window or asking.asked_for(draft))


def over(draft: reservation.Drafted, unit: Unit, window: tuple[int, int] | None = None) -> errors.Conflict | None:
    """The admission step of a pool that checks budgets: the tables here, then the billing system outside, if any."""
    exceeds = exceeded(unit.ports, draft, window)
    if exceeds is not None:
        return refusal(exceeds)
    said = unit.must_not_spend()
    return None if said is None else errors.SpendLimitReached(said)


def refusal(of: budget.Exceeded) -> errors.BudgetExceeded:
    return errors.BudgetExceeded(of.kind, of.budget, of.needed, of.left, endless=of.endless)


OPERATIONS = (
    Operation(
        name="budgets.set",
        verb="PUT",
        path="/v1/budgets/{kind}/{id}",
        request=Set,
        response=budget.View,
        on=("compute-fleet/global", "compute-tenant/{acting}"),
        decided_inside=True,
        handle=set_,
        view=budget.view,
        summary="Limit the GPU-hours that a tenant or a project may spend",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion),
    ),
)
