"""A look ahead at a claim: where it would land, when, and what stands in its way (domain.md §5).

It holds nothing and decides nothing. What it says is as of the moment; a rival may be faster.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from domain import asking, claim, errors, ids, offering, placement, pool, quota, reservation
from domain.access import Foresight, Resource
from domain.calendar import Calendar
from domain.operation import Answer, Operation
from queries import obstacles, quota_peaks
from queries.obstacles import Obstacle
from queries.quota_peaks import Peak
from queries.reading import Reader

EARLIEST_WITHIN_MS: Final = 366 * 86_400_000
CREATE: Final = "compute:reservations:create"

State = Literal["placed", "pending", "denied", "expired"]


class Preview(asking.Asking, frozen=True, kw_only=True):
    """The body of reservations.create; with `without` or `quotas` it asks what would be if."""

    without: Annotated[tuple[str, ...], Meta(max_length=1024, description="nodes of yours that are left out")] = ()
    quotas: Annotated[
        dict[offering.Resource, offering.Amount], Meta(description="limits that stand for those of every quota")
    ] = {}


class Member(Struct, frozen=True, rename="camel"):
    """One node of the gang and what the claim would have there."""

    node_id: str
    node_name: str
    atoms: tuple[str, ...]
    scalars: dict[str, int]


class Previewed(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a create would answer now: `state` and `stateReason`, and why; instants in epoch ms.

    `placement` is where the claim fits in `[startsAt, endsAt)`, empty where it does not; a create may take another of
    equal nodes. `earliestStart` is the first instant within a year at which it would fit if nothing new came.
    """

    state: State
    state_reason: str | None
    placement: tuple[Member, ...]
    starts_at: int | None
    ends_at: int | None
    earliest_start: int | None
    decision: Literal["allowed", "denied", "unknown"]
    decision_reason: str
    gpu_count: int
    quota: tuple[Peak, ...]
    obstacles: tuple[Obstacle, ...]


class _Fit(Struct, frozen=True):
    """What the pool's calendar says of a claim."""

    members: tuple[Member, ...]
    earliest: int | None
    refusal: str | None


_OFFER = """
SELECT offer_id, priority FROM catalog_offers
JOIN tenant_line(%s) AS line ON line.id = catalog_offers.tenant_id
WHERE pool_id = %s AND (line.depth = 0 OR include_descendants)
ORDER BY line.depth LIMIT 1
"""
_AHEAD = """
SELECT count(*)::int FROM pool_queue WHERE pool_id = %s AND (spot, -priority, since) < (%s, %s, %s)
"""


class _What(Struct, frozen=True):
    """The draft that the request makes, in a pool, and whether the caller owns that."""

    draft: reservation.Drafted
    of: pool.State
    owner: bool


def preview(query: Preview, read: Reader) -> Answer:
    of: pool.State = read.load(query.pool_id).state
    asking.check(query, of, read.now, read.ahead.selectors)
    _must_be_seen(query, read)
    seed = ids.derive("rsv", read.session.tenant_id, read.session.identity_id, "preview")
    with read.ahead.calendar(query.pool_id) as known:
        largest = max((entry.node.gpus for entry in known.entries.values()), default=0)
        draft = asking.draft(query, of, read.session, read.now, largest)
        fit = _fit(known, draft, seed, frozenset(query.without), read)
    what = _What(draft, of, of.owner_tenant_id == read.session.tenant_id)
    return Answer(body=_answer(query, what, fit, seed, read), position=read.position)


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


def _fit(known: Calendar, draft: reservation.Drafted, seed: str, without: frozenset[str], read: Reader) -> _Fit:
    start, end = asking.at_once(draft, draft.at)
    selectors = read.ahead.selectors
    found = placement.place(known, draft.claim, (start, end), seed, selectors, without)
    if isinstance(found, placement.Refusal):
        last = start + EARLIEST_WITHIN_MS
        earliest = placement.earliest_start(known, draft.claim, end - start, start, last, selectors, without)
        return _Fit((), earliest, found.message)
    members = tuple(
        Member(one.node_id, known.entries[one.node_id].node.name, one.atoms, dict(one.scalars)) for one in found.members
    )
    return _Fit(members, start, None)


def _answer(query: Preview, what: _What, fit: _Fit, seed: str, read: Reader) -> Previewed:
    draft, me = what.draft, read.session.tenant_id
    offer = None if what.owner else read.connection.execute(_OFFER, (me, query.pool_id)).fetchone()
    offer_id, priority = offer or (None, 0)
    ahead = _ahead(read, draft, priority)
    at_once = asking.at_once(draft, draft.at)
    window = at_once if fit.members and not ahead else asking.waiting(draft, draft.at)[0]
    scopes = [*filter(None, [offer_id]), *quota.scopes(me, query.project_id)]
    peaks = quota_peaks.peaks(read, scopes, claim.resources(draft.claim), window, query.quotas)
    attributes = reservation.attributes(draft)
    resource = Resource("compute-reservation", seed, me, attributes, "compute-pool", query.pool_id)
    foreseen = read.ahead.foresee(CREATE, resource)
    hindrances = [*obstacles.of_decision(foreseen, CREATE), *obstacles.of_quota(peaks), *obstacles.of_queue(ahead)]
    if fit.refusal is not None:
        gap_ms = what.of.policy.cleaning_seconds * 1000
        looked_at = (at_once[0] - gap_ms, at_once[1] + gap_ms)
        hindrances += obstacles.of_capacity(read, draft, looked_at, fit.refusal, query.without, owner=what.owner)
    state, reason = _state(draft, fit, ahead, foreseen, peaks)
    return Previewed(
        state=state,
        state_reason=reason,
        placement=fit.members,
        starts_at=at_once[0] if fit.members else None,
        ends_at=at_once[1] if fit.members else None,
        earliest_start=fit.earliest,
        decision=foreseen.verdict,
        decision_reason=foreseen.reason,
        gpu_count=draft.gpu_count,
        quota=peaks,
        obstacles=tuple(hindrances),
    )


def _ahead(read: Reader, draft: reservation.Drafted, priority: int) -> int:
    """How many of the pool's queue a create would find before it."""
    row = read.connection.execute(_AHEAD, (draft.pool_id, draft.spot, -priority, draft.at)).fetchone()
    return int(row[0]) if row else 0


def _state(
    draft: reservation.Drafted, fit: _Fit, ahead: int, foreseen: Foresight, peaks: Sequence[Peak]
) -> tuple[State, str | None]:
    """In the order in which a create finds out."""
    if foreseen.verdict == "denied":
        return "denied", "AccessDenied"
    reason = "QueueAhead" if ahead and fit.members else None if fit.members else "NoCapacity"
    if reason is not None and draft.max_pending_seconds == 0:
        return "expired", reason
    if any(peak.over for peak in peaks):
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
        summary="Show where a claim would land, when, and what stands in its way; nothing is held",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.ProjectionBehind),
    ),
)
