"""Reservations: create, cancel, release (domain.md §5)."""

from typing import Final

from commands import admitting, ending
from commands.ports import Ahead, Loaded, Race
from commands.unit import Outcome, Unit, changed
from domain import (
    access,
    asking,
    errors,
    ids,
    pool,
    project,
    reservation,
    reservation_life,
    reservation_terms,
    reservation_view,
)
from domain.operation import Call, Operation, Request

_ASK_THEM: Final = "not allowed to you for this person; they allow it in IAM, or confirm in a session of their own"


class Create(asking.Asking, frozen=True, kw_only=True):
    """A claim on a pool, per node of the gang; without `startsAt` it starts now or as soon as it can."""


class Act(Request, frozen=True, kw_only=True):
    id: str


def ahead(command: Create, call: Call) -> Ahead:
    """Every create asks for its own stream, for its pool and for its project."""
    assert call.session is not None
    things = [("compute-pool", command.pool_id)]
    if command.project_id is not None:
        things.append(("compute-project", command.project_id))
    return Ahead(streams=(_derived(call.session, call), *(id for _, id in things)), things=tuple(things))


def _derived(session: access.Session, call: Call) -> str:
    return ids.derive("rsv", session.tenant_id, session.identity_id, ids.idempotency_key(call.idempotency_key))


def create(command: Create, unit: Unit) -> Outcome:
    session = unit.session
    reservation_id = _derived(session, unit.call)
    body = unit.body
    if (held := unit.load(reservation_id)).version:
        return _again(reservation_id, held, body, unit)
    unit.resolve("compute-pool", command.pool_id, "poolId")
    of: pool.State = unit.existing(command.pool_id, "poolId").state
    check(command, of, unit)
    asked = admitting.Asked(reservation_id, _draft(command, of, unit, body))
    if unit.ports.authorizer.needs_committed_draft:
        asked = admitting.commit(asked, unit)
    return _decide(asked, unit)


def _decide(asked: admitting.Asked, unit: Unit) -> Outcome:
    try:
        unit.decide(admitting.resource(asked))
    except errors.AccessDenied as refusal:
        if unit.session.session_kind == "delegated":
            return admitting.awaits(asked, "DecisionRefused", _ASK_THEM, unit, admitted=False)
        if refusal.code in errors.STEP_UP:
            raise  # not kept: who signs in anew asks the same again
        return admitting.denied(asked, refusal, admitted=False)
    return admitting.admit(asked, unit)


def check(command: Create, of: pool.State, unit: Unit) -> None:
    """Refuse what cannot be, naming the field; nothing of it is recorded."""
    asking.check(command, of, unit.now, unit.ports.selectors)
    if command.project_id is not None:
        takes_more(command.project_id, unit)


def takes_more(project_id: str, unit: Unit) -> None:
    unit.resolve("compute-project", project_id, "projectId")
    state: project.State = unit.existing(project_id, "projectId").state
    if state.archived_at is not None:
        raise errors.archived("projectId")


def _draft(command: Create, of: pool.State, unit: Unit, body: str) -> reservation.Drafted:
    whole_nodes = any(line.class_ == "node" for line in command.devices)
    largest = _largest(command.pool_id, unit) if whole_nodes else 0
    return asking.draft(command, of, unit.session, unit.now, largest, body)


def _largest(pool_id: str, unit: Unit) -> int:
    """GPUs of the pool's largest node."""
    with unit.ports.calendars.locked(pool_id) as calendar:
        return max((entry.node.gpus for entry in calendar.entries.values()), default=0)


def _again(reservation_id: str, held: Loaded, body: str, unit: Unit) -> Outcome:
    """The key was used: the same body gets the same answer, another body is an error (api.md §2).

    A yes is kept with its append: whoever comes here was overtaken by the same request, and finds it when asking
    again. What a delegated session was refused is decided again: its person may have approved meanwhile.
    """
    state: reservation.State = held.state
    assert state.draft is not None
    if state.draft.body != body:
        raise errors.KeyReused("this Idempotency-Key was used with another body; take a new key")
    if state.status == "draft" and state.since + reservation_terms.DRAFT_MS > unit.now:
        unit.resolve("compute-pool", state.draft.pool_id, "poolId")
        return _decide(admitting.Asked(reservation_id, state.draft, held.version), unit)
    refusal: errors.Refusal | None = None
    if state.denied is not None:
        refusal = errors.again(state.denied.code, state.denied.detail, state.denied.extra)
    elif state.status == "expired" and state.reason in ("NoCapacity", "QueueAhead") and state.admission_id is None:
        refusal = admitting.no_capacity(reservation_id, state.reason == "QueueAhead")
    elif state.awaits is not None and state.awaits.reason == "DecisionRefused":
        asked = admitting.Asked(reservation_id, state.draft, held.version, state.awaits.until)
        return _still_awaits(asked, held, unit)
    elif state.status in ("draft", "cancelled") or state.reason == "NotDecided":
        refusal = errors.Conflict("it ended before it was decided on; ask again with a new key")
        refusal.extra["reservationId"] = reservation_id
    if refusal is None:
        raise Race("the same request was answered meanwhile")
    refusal.replayed = True
    raise refusal


def _still_awaits(asked: admitting.Asked, held: Loaded, unit: Unit) -> Outcome:
    as_it_is = Outcome((changed(asked.id, held, []),))
    if held.state.status != "awaiting-confirmation":
        return as_it_is
    try:
        unit.decide(admitting.resource(asked))
    except errors.AccessDenied:
        return as_it_is
    return admitting.admit(asked, unit)


def cancel(command: Act, unit: Unit) -> Outcome:
    """Before it binds it ends at once; while it binds, its nodes undo it first (O11)."""
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    reservation_life.must_be_its_own(state)
    if state.status == "cancelled" or (state.status in ("releasing", "released") and state.reason == "Cancelled"):
        return Outcome((changed(command.id, loaded, []),))
    if state.status == "binding":
        return Outcome(tuple(ending.end(unit.ports.store, command.id, loaded, "Cancelled", unit.now)))
    reservation_life.must_take(state, "cancel")
    return Outcome((changed(command.id, loaded, [reservation.Cancelled("Cancelled", unit.now)]),))


def release(command: Act, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    reservation_life.must_be_its_own(state)
    if state.status in ("releasing", "released"):
        return Outcome((changed(command.id, loaded, []),))
    reservation_life.must_take(state, "release")
    return Outcome(tuple(ending.end(unit.ports.store, command.id, loaded, "Released", unit.now)))


def renew(command: Act, unit: Unit) -> Outcome:
    """The log's order decides: what was released for its lease takes no renewal any more (domain.md §5)."""
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    reservation_life.must_be_its_own(state)
    reservation_life.must_take(state, "renew")
    if state.draft is None or state.draft.lease_seconds is None:
        raise errors.Conflict("it has no lease to renew: it was made without leaseSeconds and runs to its end")
    renewed = reservation.Renewed(unit.now, unit.now + state.draft.lease_seconds * 1000)
    return Outcome((changed(command.id, loaded, [renewed]),))


_VERB = (errors.AccessDenied, errors.NotFound, errors.IllegalTransition, errors.StaleVersion, errors.Conflict)

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
        ahead=ahead,
        view=reservation_view.view,
        summary="Reserve devices, now or ahead, alone or as a gang",
        status=201,
        refusals=admitting.REFUSALS,
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
        summary="Release a bound reservation before its end",
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
        refusals=_VERB,
    ),
)
