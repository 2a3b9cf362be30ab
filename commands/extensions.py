"""Extending and shortening: the end of a reservation moves, on the devices that it has (domain.md §5, Extend)."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from commands import budgets
from commands.acting import act, following
from commands.ports import Loaded, Race, Store
from commands.unit import Outcome, Unit, changed
from domain import (
    access,
    claim,
    errors,
    extension,
    ids,
    pool,
    quota,
    reservation,
    reservation_life,
    reservation_terms,
    reservation_view,
)
from domain.event import Change, Fence
from domain.operation import Operation, Request
from domain.policy.instant import written

LONGEST_MS: Final = 366 * 86_400_000
HOUR_MS: Final = 3_600_000
RESERVATION: Final = "compute-reservation"
SEE: Final = "compute:reservations:get"


class Extend(Request, frozen=True, kw_only=True):
    """An end before the present one shortens; it does not lie before now."""

    id: str
    ends_at: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms")]


class Asked(Struct, frozen=True):
    """A draft, and the version that its stream has: 0 where it is not recorded yet."""

    id: str
    draft: extension.Drafted
    version: int = 0

    def change(self, event: extension.Events) -> Change:
        return Change(self.id, self.version, (event,) if self.version else (self.draft, event))


def extend(command: Extend, unit: Unit) -> Outcome:
    session = unit.session
    key = ids.idempotency_key(unit.call.idempotency_key)
    extension_id = ids.derive("ext", session.tenant_id, session.identity_id, key)
    held = unit.load(extension_id)
    stored = _again(extension_id, held, unit) if held.version else None
    resource = unit.resolve(RESERVATION, command.id, "id")
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    wrong = _wrong(command, state, unit.now)
    if wrong is not None:
        if not unit.decisions:
            unit.decide(resource)
        raise wrong
    asked = stored or _ask(extension_id, _draft(command, state, unit), unit)
    try:
        unit.decide(_asked(asked, resource))
    except errors.AccessDenied as refusal:
        return _not_allowed(asked, loaded, refusal, unit)
    refused = _refused(asked, state, unit)
    if refused is not None:
        return _denied(asked, loaded, refused)
    if command.ends_at == state.ends_at:
        kept = asked.change(extension.Applied(unit.admission_id, unit.now))
        return Outcome((changed(command.id, loaded, []), kept))
    return _apply(asked, loaded, unit)


def _wrong(command: Extend, state: reservation.State, now: int) -> errors.Refusal | None:
    """Why there is nothing to draft: no decision is made on what cannot be, but on the reservation as it is."""
    try:
        reservation_life.must_be_its_own(state)
        reservation_life.must_take(state, "extend")
        check(command, state, now)
    except (errors.Conflict, errors.Invalid) as wrong:
        return wrong
    return None


def _ask(extension_id: str, draft: extension.Drafted, unit: Unit) -> Asked:
    """Stored alone before it is decided on, where whoever decides reads it back."""
    if not unit.ports.authorizer.needs_committed_draft:
        return Asked(extension_id, draft)
    draft = replace(draft, committed=True)
    unit.commit(Change(extension_id, 0, (draft,)))
    return Asked(extension_id, draft, 1)


def check(command: Extend, state: reservation.State, now: int) -> None:
    """Refuse an end that cannot be, naming the field; nothing of it is recorded."""
    assert state.starts_at is not None
    if command.ends_at < now:
        raise errors.Invalid("endsAt", f"lies in the past; now is {written(now)}")
    if command.ends_at <= state.starts_at:
        raise errors.Invalid("endsAt", f"lies at or before the start, which is {written(state.starts_at)}")
    if command.ends_at - state.starts_at > LONGEST_MS:
        latest = written(state.starts_at + LONGEST_MS)
        raise errors.Invalid("endsAt", f"a reservation lasts 366 days at most, until {latest}")


def _draft(command: Extend, state: reservation.State, unit: Unit) -> extension.Drafted:
    assert state.starts_at is not None
    assert state.ends_at is not None
    return extension.Drafted(
        reservation_id=command.id,
        tenant_id=unit.session.tenant_id,
        identity_id=unit.session.identity_id,
        ends_at=command.ends_at,
        former_ends_at=state.ends_at,
        duration_hours=(command.ends_at - state.starts_at) / HOUR_MS,
        body=unit.body,
        at=unit.now,
    )


def _asked(asked: Asked, of: access.Resource) -> access.Resource:
    """The reservation as it would be: a policy reads the new total of its hours (domain.md §5)."""
    return replace(of, id=asked.id, attributes=of.attributes | {"durationHours": asked.draft.duration_hours})


def _again(extension_id: str, held: Loaded, unit: Unit) -> Asked:
    """The key was used: the same body gets the same answer, another body is an error; a yes is kept with its append.

    What was not decided on yet is, now.
    """
    state: extension.State = held.state
    assert state.draft is not None
    if state.draft.body != unit.body:
        raise errors.KeyReused("this Idempotency-Key was used with another body; take a new key")
    if state.status == "draft" and state.draft.at + reservation_terms.DRAFT_MS > unit.now:
        return Asked(extension_id, state.draft, held.version)
    if state.status == "applied":
        raise Race("the same request was answered meanwhile")
    refusal: errors.Refusal = errors.Conflict("it was not decided on in time; ask again with a new key")
    if state.denied is not None:
        refusal = errors.again(state.denied.code, state.denied.detail, state.denied.extra)
    refusal.replayed = True
    raise refusal


def _refused(asked: Asked, state: reservation.State, unit: Unit) -> errors.Conflict | None:
    """What stands in the way of a later end, as far as it is known before the append; that judges again."""
    assert state.starts_at is not None
    assert state.ends_at is not None
    assert state.draft is not None
    ends_at = asked.draft.ends_at
    if (ends_at - state.starts_at) / HOUR_MS != asked.draft.duration_hours:
        return errors.Conflict("its start moved after this was asked for; ask again with a new key")
    if ends_at <= state.ends_at:
        return None
    scopes = state.claimed.scopes if state.claimed else ()
    if any(unit.load(scope).state.withdrawn for scope in scopes if quota.is_offering(scope)):
        return errors.Conflict("the pool is not offered to you any more: it runs to its end and is not extended")
    of: pool.State = unit.load(state.draft.pool_id).state
    if of.policy.admission.budget_check == "enforce":
        over = budgets.over(state.draft, unit, (state.ends_at, ends_at))
        if over is not None:
            return over
    gap_ms = of.policy.cleaning_seconds * 1000
    return _in_the_way(asked.draft.reservation_id, state.ends_at, ends_at + gap_ms, unit)


def _in_the_way(reservation_id: str, since: int, until: int, unit: Unit) -> errors.DoubleBooked | None:
    """Names whoever has its devices next, where the caller may see that; else only since when (domain.md §5)."""
    ahead = unit.ports.store.following(reservation_id, since, until)
    if not ahead:
        return None
    tenant_id, store = unit.session.tenant_id, unit.ports.store
    resolved = [store.resolve(tenant_id, RESERVATION, other.reservation_id or "") for other in ahead]
    shown = _shown(unit, [one for one in resolved if one is not None])
    named = [
        f"{other.reservation_id if other.reservation_id in shown else 'busy'} from {other.since}" for other in ahead
    ]
    who = ", ".join(dict.fromkeys(named))
    return errors.DoubleBooked(f"its devices are booked by others in this time: {who}")


def _shown(unit: Unit, reservations: Sequence[access.Resource]) -> frozenset[str]:
    """Those that the caller may see, by one question: none where it gets no answer, for a refusal waits for nothing."""
    authorizer, session = unit.ports.authorizer, unit.session
    try:
        plan = authorizer.plan(session, SEE, RESERVATION)
        verdicts = access.may(plan, reservations, lambda some: authorizer.allowed(session, access.checks(SEE, some)))
    except errors.Unavailable:
        return frozenset()
    return frozenset(one.id for one, seen in zip(reservations, verdicts, strict=True) if seen)


def _apply(asked: Asked, loaded: Loaded, unit: Unit) -> Outcome:
    state: reservation.State = loaded.state
    draft = asked.draft
    assert state.draft is not None
    assert state.starts_at is not None
    assert state.ends_at is not None
    former = state.ends_at
    scopes = state.claimed.scopes if state.claimed else ()
    claimed = reservation.Claimed(scopes, claim.resources(state.draft.claim), state.starts_at, draft.ends_at)
    extended = reservation.Extended(
        extension_id=asked.id,
        admission_id=unit.admission_id,
        pool_id=state.draft.pool_id,
        former_ends_at=former,
        ends_at=draft.ends_at,
        claimed=claimed,
        gpu_ms=state.draft.gpu_count * (draft.ends_at - state.starts_at),
        allocations=tuple(allocation.id for allocation in state.allocations),
        at=unit.now,
    )

    def instead(refusal: errors.Conflict) -> Outcome:
        found = None
        if isinstance(refusal, errors.DoubleBooked):
            found = _in_the_way(draft.reservation_id, former, draft.ends_at, unit)
        return _denied(asked, loaded, found or refusal)

    applied = extension.Applied(unit.admission_id, unit.now)
    moved = Change(draft.reservation_id, loaded.version, (extended,))
    return Outcome((moved, asked.change(applied)), instead=instead)


def _not_allowed(asked: Asked, loaded: Loaded, refusal: errors.AccessDenied, unit: Unit) -> Outcome:
    """A no is not kept where the same may be asked again: once the person approved, or after a new sign-in."""
    if unit.session.session_kind != "delegated" and refusal.code not in errors.STEP_UP:
        return _denied(asked, loaded, refusal, admitted=False)
    refusal.extra |= _names(asked)
    raise refusal


def _denied(asked: Asked, loaded: Loaded, refusal: errors.Refusal, *, admitted: bool = True) -> Outcome:
    """The extension is kept with its no; nothing of the reservation changed (O10)."""
    refusal.extra |= _names(asked)
    extra = {name: value for name, value in refusal.extra.items() if not isinstance(value, tuple)}
    denied = extension.Denied(type(refusal).__name__, refusal.code, refusal.detail, extra)
    untouched = Change(asked.draft.reservation_id, loaded.version, ())
    return Outcome((untouched, asked.change(denied)), refusal=refusal, admitted=admitted)


def _names(asked: Asked) -> dict[str, str | int | tuple[str, ...]]:
    return {"extensionId": asked.id, "reservationId": asked.draft.reservation_id}


def expire(store: Store, extension_id: str, fence: Fence) -> int | None:
    """Close an open draft that nobody decided on in time."""

    def decide() -> Sequence[Change]:
        loaded, now = store.load(extension_id), store.now()
        state: extension.State = loaded.state
        if state.status != "draft" or state.draft is None or state.draft.at + reservation_terms.DRAFT_MS > now:
            return []
        return [Change(extension_id, loaded.version, (extension.Expired("NotDecided", now),))]

    return act(store, following("controller:timekeeper", None, store.load(extension_id)), decide, fence)


OPERATIONS = (
    Operation(
        name="reservations.extend",
        verb="POST",
        path="/v1/reservations/{id}/extend",
        request=Extend,
        response=reservation_view.View,
        on=("compute-reservation/{id}",),
        decided_inside=True,
        handle=extend,
        view=reservation_view.view,
        summary="Move a reservation's end, on the devices that it has",
        refusals=(
            errors.AccessDenied,
            errors.NotFound,
            errors.Conflict,
            errors.IllegalTransition,
            errors.DoubleBooked,
            errors.QuotaExceeded,
            errors.BudgetExceeded,
            errors.SpendLimitReached,
            errors.StaleVersion,
            errors.KeyReused,
        ),
        key="required",
    ),
)
