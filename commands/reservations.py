"""Reservations: create, cancel, release (domain.md §5)."""

import hashlib
from typing import Annotated, Final, NoReturn

import msgspec
from msgspec import Meta

from commands import ending, placing
from commands.ports import Loaded, Offer, Race
from commands.unit import Contested, Outcome, Unit, changed
from domain import (
    access,
    claim,
    errors,
    ids,
    pool,
    project,
    quota,
    reservation,
    reservation_life,
    reservation_view,
)
from domain.event import Change
from domain.labels import Labels
from domain.operation import Operation, Request

LATE_MS: Final = 5_000
AHEAD_MS: Final = 5 * 366 * 86_400_000
PLACE_TRIES: Final = 5


class Create(Request, frozen=True, kw_only=True):
    """A claim on a pool, per node of the gang; without `startsAt` it starts now or as soon as it can."""

    pool_id: str
    devices: Annotated[tuple[claim.DeviceLine, ...], Meta(min_length=1, max_length=16)]
    nodes: Annotated[int, Meta(ge=1, le=1024, description="gang size")] = 1
    topology: claim.Topology | None = None
    scalars: dict[claim.Scalar, Annotated[int, Meta(ge=0, le=2**40)]] = {}
    starts_at: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms")] | None = None
    duration_seconds: Annotated[int, Meta(ge=60, le=366 * 86_400)]
    binding: reservation.Binding = "hold"
    lease_seconds: Annotated[int, Meta(ge=30, le=86_400, description="active, it ends unless renewed")] | None = None
    spot: bool = False
    max_pending_seconds: Annotated[int, Meta(ge=0, le=366 * 86_400, description="0: now or never")] | None = None
    project_id: str | None = None
    labels: Labels = {}


class Act(Request, frozen=True, kw_only=True):
    id: str


def create(command: Create, unit: Unit) -> Outcome:
    session = unit.session
    key = ids.idempotency_key(unit.call.idempotency_key)
    reservation_id = ids.derive("rsv", session.tenant_id, session.identity_id, key)
    body = hashlib.sha256(msgspec.json.encode(command, order="sorted")).hexdigest()
    if (held := unit.load(reservation_id)).version:
        _again(reservation_id, held, body)
    unit.resolve("compute-pool", command.pool_id, "poolId")
    of: pool.State = unit.existing(command.pool_id, "poolId").state
    asked = claim.Claim(command.devices, command.nodes, command.topology, command.scalars)
    check(command, asked, of, unit)
    draft = _draft(command, asked, of, unit, body)
    attributes = reservation.attributes(draft)
    resource = access.Resource(
        "compute-reservation", reservation_id, session.tenant_id, attributes, "compute-pool", command.pool_id
    )
    try:
        unit.decide(resource)
    except errors.AccessDenied as refusal:
        return _denied(reservation_id, draft, refusal, admitted=False)
    offer = None
    if of.owner_tenant_id != session.tenant_id:
        offer = unit.ports.store.offer(session.tenant_id, command.pool_id)
        if offer is None:
            raise unit.unseen("compute-pool", command.pool_id, "poolId")
    return _place_or_queue(reservation_id, draft, offer, unit)


def check(command: Create, asked: claim.Claim, of: pool.State, unit: Unit) -> None:
    """Refuse what cannot be, naming the field; nothing of it is recorded."""
    claim.check(asked)
    if not any(line.count for line in command.devices):
        raise errors.Invalid("devices[0].count", "ask for at least one device")
    if of.retired:
        raise errors.Conflict("the pool is retired and takes nothing new")
    if pool.binding(of) != "hold":
        raise errors.Invalid("poolId", f"pools of class {of.class_} cannot be reserved yet: only binding hold is built")
    if command.binding != "hold":
        raise errors.Invalid("binding", "reservations of this pool have binding hold")
    sold = pool.device_classes(of)
    for index, line in enumerate(command.devices):
        if line.class_ not in sold:
            raise errors.Invalid(f"devices[{index}].class", f"this pool has {', '.join(sold)}")
        if line.selector is not None:
            unit.ports.selectors.compile(line.selector, f"devices[{index}].selector")
    if command.starts_at is not None:
        if command.starts_at < unit.now - LATE_MS:
            raise errors.Invalid("startsAt", f"lies in the past; now is {unit.now}")
        if command.starts_at > unit.now + AHEAD_MS:
            raise errors.Invalid("startsAt", "lies more than five years ahead")
    longest = of.policy.max_pending
    if command.max_pending_seconds is not None and command.max_pending_seconds > longest:
        raise errors.Invalid("maxPendingSeconds", f"claims of this pool wait at most {longest} seconds")
    if command.project_id is not None:
        _takes_more(command.project_id, unit)


def _takes_more(project_id: str, unit: Unit) -> None:
    unit.resolve("compute-project", project_id, "projectId")
    state: project.State = unit.existing(project_id, "projectId").state
    if state.archived_at is not None:
        raise errors.archived("projectId")


def _draft(command: Create, asked: claim.Claim, of: pool.State, unit: Unit, body: str) -> reservation.Drafted:
    waits = command.max_pending_seconds
    starts_at = command.starts_at
    with unit.ports.calendars.locked(command.pool_id) as calendar:
        largest = max((entry.node.gpus for entry in calendar.entries.values()), default=0)
    return reservation.Drafted(
        tenant_id=unit.session.tenant_id,
        identity_id=unit.session.identity_id,
        pool_id=command.pool_id,
        pool_name=of.name,
        claim=asked,
        duration_seconds=command.duration_seconds,
        binding=command.binding,
        spot=command.spot,
        max_pending_seconds=of.policy.max_pending if waits is None else waits,
        gpu_count=claim.gpu_count(asked, largest),
        gpu_model=of.gpu_model,
        region=of.region,
        body=body,
        at=unit.now,
        labels=command.labels,
        lease_seconds=command.lease_seconds,
        starts_at=starts_at if starts_at is None else max(starts_at, unit.now),
        project_id=command.project_id,
    )


def _again(reservation_id: str, held: Loaded, body: str) -> NoReturn:
    """The key was used: the same body gets the same answer, another body is an error (api.md §2).

    A yes is kept with its append: whoever comes here was overtaken by the same request, and finds it when asking again.
    """
    state: reservation.State = held.state
    assert state.draft is not None
    if state.draft.body != body:
        raise errors.KeyReused("this Idempotency-Key was used with another body; take a new key")
    refusal: errors.Refusal | None = None
    if state.denied is not None:
        refusal = errors.again(state.denied.code, state.denied.detail, state.denied.extra)
    elif state.status == "expired" and state.admission_id is None:
        refusal = _no_capacity(reservation_id, state.reason == "QueueAhead")
    if refusal is None:
        raise Race("the same request was answered meanwhile")
    refusal.replayed = True
    raise refusal


def _denied(reservation_id: str, draft: reservation.Drafted, refusal: errors.Refusal, *, admitted: bool) -> Outcome:
    refusal.extra["reservationId"] = reservation_id
    extra = {name: value for name, value in refusal.extra.items() if not isinstance(value, tuple)}
    denied = reservation.Denied(type(refusal).__name__, refusal.code, refusal.detail, extra)
    change = Change(reservation_id, 0, (draft, denied))
    return Outcome((change,), refusal=refusal, admitted=admitted)


def _place_or_queue(reservation_id: str, draft: reservation.Drafted, offer: Offer | None, unit: Unit) -> Outcome:
    """Placed at once when it fits and nobody is ahead; else it waits with its claim (architecture.md §4)."""
    duration_ms = draft.duration_seconds * 1000
    start = unit.now if draft.starts_at is None else draft.starts_at
    window = (start, start + duration_ms)
    found = None
    if not unit.behind and len(unit.races) < PLACE_TRIES:
        found = placing.choose_now(unit.ports, draft.pool_id, placing.Wanted(reservation_id, draft.claim, window))
    priority = offer.priority if offer else 0

    def instead(refusal: errors.QuotaExceeded) -> Outcome:
        return _denied(reservation_id, draft, refusal, admitted=True)

    scopes = (*((offer.id,) if offer else ()), *quota.scopes(draft.tenant_id, draft.project_id))
    if found is None:
        return _queue(reservation_id, draft, scopes, priority, unit, instead)
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
    change = Change(reservation_id, 0, (draft, admitted, placed))
    return Outcome((change,), contested=contested, instead=instead)


def _queue(
    reservation_id: str,
    draft: reservation.Drafted,
    scopes: tuple[str, ...],
    priority: int,
    unit: Unit,
    instead: object,
) -> Outcome:
    if draft.max_pending_seconds == 0:
        expired = reservation.Expired("QueueAhead" if unit.behind else "NoCapacity", unit.now)
        change = Change(reservation_id, 0, (draft, expired))
        return Outcome((change,), refusal=_no_capacity(reservation_id, unit.behind))
    duration_ms, waits_ms = draft.duration_seconds * 1000, draft.max_pending_seconds * 1000
    give_up_at = unit.now + waits_ms
    window = (unit.now, give_up_at + duration_ms)
    if draft.starts_at is not None:
        window = (draft.starts_at, draft.starts_at + duration_ms)
        give_up_at = min(give_up_at, window[1])
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
        else placing.earliest(unit.ports, draft.pool_id, draft.claim, duration_ms, unit.now),
    )
    admitted = reservation.Admitted(unit.admission_id, claimed, priority)
    return Outcome((Change(reservation_id, 0, (draft, admitted, queued)),), instead=instead)  # type: ignore[arg-type]


def _no_capacity(reservation_id: str, behind: bool) -> errors.DoubleBooked:
    why = "others wait for this pool before you" if behind else "the pool has no room for this now"
    refusal = errors.DoubleBooked(f"{why}, and maxPendingSeconds is 0")
    refusal.extra["reservationId"] = reservation_id
    return refusal


def cancel(command: Act, unit: Unit) -> Outcome:
    """Before it binds it ends at once; while it binds, its nodes undo it first (O11)."""
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    if state.status == "cancelled" or (state.status in ("releasing", "released") and state.reason == "Cancelled"):
        return Outcome((changed(command.id, loaded, []),))
    if state.status == "binding":
        return Outcome(tuple(ending.end(unit.ports.store, command.id, loaded, "Cancelled", unit.now)))
    reservation_life.must_take(state, "cancel")
    return Outcome((changed(command.id, loaded, [reservation.Cancelled("Cancelled", unit.now)]),))


def release(command: Act, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    if state.status in ("releasing", "released"):
        return Outcome((changed(command.id, loaded, []),))
    reservation_life.must_take(state, "release")
    return Outcome(tuple(ending.end(unit.ports.store, command.id, loaded, "Released", unit.now)))


def renew(command: Act, unit: Unit) -> Outcome:
    """The log's order decides: what was released for its lease takes no renewal any more (domain.md §5)."""
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    reservation_life.must_take(state, "renew")
    if state.draft is None or state.draft.lease_seconds is None:
        raise errors.Conflict("it has no lease to renew: it was made without leaseSeconds and runs to its end")
    renewed = reservation.Renewed(unit.now, unit.now + state.draft.lease_seconds * 1000)
    return Outcome((changed(command.id, loaded, [renewed]),))


_VERB = (errors.AccessDenied, errors.NotFound, errors.IllegalTransition, errors.StaleVersion)

OPERATIONS = (
    Operation(
        name="reservations.create",
        verb="POST",
        path="/v1/reservations",
        request=Create,
        response=reservation_view.View,
        on=("compute-reservation/{id}",),
        decided_inside=True,
        handle=create,
        view=reservation_view.view,
        summary="Reserve devices, now or ahead, alone or as a gang",
        status=201,
        refusals=(
            errors.AccessDenied,
            errors.NotFound,
            errors.Conflict,
            errors.DoubleBooked,
            errors.QuotaExceeded,
            errors.KeyReused,
        ),
        key="required",
    ),
    Operation(
        name="reservations.cancel",
        verb="POST",
        path="/v1/reservations/{id}/cancel",
        request=Act,
        response=reservation_view.View,
        on=("compute-reservation/{id}",),
        handle=cancel,
        view=reservation_view.view,
        summary="Cancel a reservation that is not active yet",
        refusals=_VERB,
    ),
    Operation(
        name="reservations.release",
        verb="POST",
        path="/v1/reservations/{id}/release",
        request=Act,
        response=reservation_view.View,
        on=("compute-reservation/{id}",),
        handle=release,
        view=reservation_view.view,
        summary="Give a bound reservation back before its end",
        refusals=_VERB,
    ),
    Operation(
        name="reservations.renew",
        verb="POST",
        path="/v1/reservations/{id}/renew",
        request=Act,
        response=reservation_view.View,
        on=("compute-reservation/{id}",),
        handle=renew,
        view=reservation_view.view,
        summary="Renew the lease of an active reservation",
        refusals=(*_VERB, errors.Conflict),
    ),
)
