"""A look ahead at a claim: where it would land, when, and what stands in its way (domain.md §5).

It holds nothing and decides nothing. What it says is as of the moment; a rival may be faster.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from domain import asking, budget, claim, errors, ids, offering, pool, quota, reservation
from domain.access import Foresight, Resource
from domain.operation import Answer, Operation
from queries import fitting, obstacles, quota_peaks
from queries.fitting import Fit, Member
from queries.obstacles import Obstacle
from queries.quota_peaks import Peak
from queries.reading import Reader

CREATE: Final = "compute:reservations:create"

State = Literal["placed", "pending", "awaiting-confirmation", "denied", "expired"]


class Preview(asking.Asking, frozen=True, kw_only=True):
    """The body of reservations.create; with `without` or `quotas` it asks what would be if."""

    without: Annotated[tuple[str, ...], Meta(max_length=64, description="leave out these nodes, which you own")] = ()
    quotas: Annotated[
        dict[offering.Resource, offering.Amount], Meta(description="limits to use instead of those of every quota")
    ] = {}


class Spending(Struct, frozen=True, kw_only=True, rename="camel"):
    """A budget of the tenant or the project, and what the claim would take of what is left of it."""

    kind: str
    gpu_hours: float
    left_gpu_hours: float
    needed_gpu_hours: float


class Previewed(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a create would answer now: `state` and `stateReason`, and why; instants in epoch ms.

    `placement` is where the claim fits in `[startsAt, endsAt)`, empty where it does not; a create may take another of
    equal nodes. `earliestStart` is the first instant within a year at which it would begin if nothing new came; where
    its `startsAt` has no room, at which it would have room for its whole duration.
    `preempts` is how many spot reservations would give way to it.
    """

    state: State
    state_reason: str | None
    placement: tuple[Member, ...]
    starts_at: int | None
    ends_at: int | None
    earliest_start: int | None
    preempts: int
    decision: Literal["allowed", "denied", "unknown"]
    decision_reason: str
    gpu_count: int
    quota: tuple[Peak, ...]
    budget: tuple[Spending, ...]
    obstacles: tuple[Obstacle, ...]


class _What(Struct, frozen=True):
    """The draft that the request makes, the id it is looked at under, its pool, and how the caller comes by that."""

    draft: reservation.Drafted
    seed: str
    of: pool.State
    offer_id: str | None
    owner: bool


class _Found(Struct, frozen=True, kw_only=True):
    """All that a create would find out; `over` is the budget that is exceeded and checked."""

    fit: Fit
    peaks: tuple[Peak, ...]
    accounts: tuple[budget.Account, ...]
    over: budget.Exceeded | None
    foreseen: Foresight


def preview(query: Preview, read: Reader) -> Answer:
    of: pool.State = read.load(query.pool_id).state
    asking.check(query, of, read.now, read.ahead.selectors)
    _must_be_seen(query, read)
    me = read.session.tenant_id
    owner = of.owner_tenant_id == me
    offer_id, priority = (None if owner else read.ahead.offer(query.pool_id)) or (None, 0)
    ahead, queue = fitting.ahead(read, query.pool_id, spot=query.spot, priority=priority)
    seed = ids.derive("rsv", me, read.session.identity_id, "preview")
    with read.ahead.calendar(query.pool_id) as known:
        largest = max((entry.node.gpus for entry in known.entries.values()), default=0)
        draft = asking.draft(query, of, read.session, read.now, largest)
        place = fitting.Place(draft=draft, seed=seed, ahead=ahead, queue=queue, without=query.without)
        fit = fitting.fit(read, known, place, of)
    what = _What(draft, seed, of, offer_id, owner)
    return Answer(body=_answer(query, what, _find(query, what, fit, read), read), position=read.position)


def _must_be_seen(query: Preview, read: Reader) -> None:
    """Nodes resolve for their owner alone, so that nobody else can ask what would be without one."""
    if query.project_id is not None:
        if read.resolve("compute-project", query.project_id) is None:
            raise read.unseen("compute-project", query.project_id, "projectId")
        if read.load(query.project_id).state.archived_at is not None:
            raise errors.archived("projectId")
    for index, node_id in enumerate(query.without):
        ids.parse("node", node_id, f"without[{index}]")
        if read.resolve("compute-node", node_id) is None:
            raise read.unseen("compute-node", node_id, f"without[{index}]")


def _find(query: Preview, what: _What, fit: Fit, read: Reader) -> _Found:
    draft, me = what.draft, read.session.tenant_id
    window = fit.window if fit.reason is None else asking.waiting(draft, read.now)[0]
    own = quota.scopes(me, query.project_id)
    scopes = [*filter(None, [what.offer_id]), *own]
    attributes = asking.attributes(draft)
    resource = Resource("compute-reservation", what.seed, me, attributes, "compute-pool", query.pool_id)
    accounts = tuple(read.ahead.accounts(own))
    checked = what.of.policy.admission.budget_check != "off"
    at_once = asking.at_once(draft, read.now)
    return _Found(
        fit=fit,
        peaks=quota_peaks.peaks(read, scopes, claim.resources(draft.claim), window, query.quotas),
        accounts=accounts,
        over=budget.exceeded(accounts, draft.gpu_count, at_once) if checked else None,
        foreseen=read.ahead.foresee(CREATE, resource),
    )


def _answer(query: Preview, what: _What, found: _Found, read: Reader) -> Previewed:
    state, reason = _state(what, found, read)
    fits = found.fit.reason is None
    return Previewed(
        state=state,
        state_reason=reason,
        placement=found.fit.members,
        starts_at=found.fit.window[0] if fits else None,
        ends_at=found.fit.window[1] if fits else None,
        earliest_start=found.fit.earliest,
        preempts=found.fit.preempts,
        decision=found.foreseen.verdict,
        decision_reason=found.foreseen.reason,
        gpu_count=what.draft.gpu_count,
        quota=found.peaks,
        budget=tuple(_spending(account, what, found.fit.window) for account in found.accounts),
        obstacles=_obstacles(query, what, found, read),
    )


def _spending(account: budget.Account, what: _What, window: asking.Window) -> Spending:
    return Spending(
        kind=account.kind,
        gpu_hours=account.gpu_ms / budget.HOUR_MS,
        left_gpu_hours=account.left / budget.HOUR_MS,
        needed_gpu_hours=budget.needed(account, what.draft.gpu_count, window) / budget.HOUR_MS,
    )


def _obstacles(query: Preview, what: _What, found: _Found, read: Reader) -> tuple[Obstacle, ...]:
    known = [
        *obstacles.of_decision(found.foreseen, CREATE),
        *obstacles.of_budget(found.over),
        *obstacles.of_quota(found.peaks),
    ]
    if found.fit.reason == "QueueAhead":
        known += obstacles.of_queue(found.fit.ahead)
    if found.fit.reason == "NoCapacity":
        gap_ms = what.of.policy.cleaning_seconds * 1000
        window = (found.fit.window[0] - gap_ms, found.fit.window[1] + gap_ms)
        known += obstacles.of_capacity(read, what.draft, window, found.fit.said, query.without, owner=what.owner)
    return tuple(known)


def _state(what: _What, found: _Found, read: Reader) -> tuple[State, str | None]:
    """In the order in which a create finds out."""
    if found.foreseen.verdict == "denied":
        delegated = read.session.session_kind == "delegated"
        return ("awaiting-confirmation", "DecisionRefused") if delegated else ("denied", "AccessDenied")
    if found.over is not None:
        confirms = what.of.policy.admission.budget_check == "confirm"
        return ("awaiting-confirmation", "OverBudget") if confirms else ("denied", "BudgetExceeded")
    reason = found.fit.reason
    if reason is not None and what.draft.max_pending_seconds == 0:
        return "expired", reason
    if any(peak.over for peak in found.peaks):
        return "denied", "QuotaExceeded"
    return ("placed", None) if reason is None else ("pending", reason)


OPERATIONS = (
    Operation(
        name="reservations.preview",
        verb="POST",
        path="/v1/reservations/preview",
        request=Preview,
        response=Previewed,
        on=("compute-pool/{poolId}",),
        looks=True,
        handle=preview,
        summary="Show where a claim would be placed, when, and what is in its way; nothing is held",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.ProjectionBehind),
    ),
)
