"""Extending and shortening: the end of a reservation moves, on the devices that it has (domain.md §5, Extend)."""

from typing import Annotated, Final, NoReturn

from msgspec import Meta
from msgspec.structs import replace

from commands import budgets
from commands.ports import Loaded, Race
from commands.unit import Outcome, Unit, changed
from domain import access, claim, errors, extension, ids, pool, quota, reservation, reservation_life, reservation_view
from domain.event import Change
from domain.operation import Operation, Request

LONGEST_MS: Final = 366 * 86_400_000
HOUR_MS: Final = 3_600_000


class Extend(Request, frozen=True, kw_only=True):
    """An end before the present one shortens; it does not lie before now."""

    id: str
    ends_at: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms")]


def extend(command: Extend, unit: Unit) -> Outcome:
    session = unit.session
    key = ids.idempotency_key(unit.call.idempotency_key)
    extension_id = ids.derive("ext", session.tenant_id, session.identity_id, key)
    body = unit.body
    if (held := unit.load(extension_id)).version:
        _again(held, body)
    resource = unit.resolve("compute-reservation", command.id, "id")
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    drafted = _draft(command, state, unit, body)
    try:
        unit.decide(_asked(resource, drafted))
    except errors.AccessDenied as refusal:
        if drafted is None:
            raise
        return _denied(extension_id, drafted, loaded, refusal, admitted=False)
    reservation_life.must_take(state, "extend")
    assert drafted is not None, "whatever takes an extension has an end"
    check(command, state, unit.now)
    if command.ends_at == state.ends_at:
        kept = Change(extension_id, 0, (drafted, extension.Applied(unit.admission_id, unit.now)))
        return Outcome((changed(command.id, loaded, []), kept))
    refused = _refused(command, state, unit)
    if refused is not None:
        return _denied(extension_id, drafted, loaded, refused)
    return _apply(extension_id, drafted, loaded, unit)


def check(command: Extend, state: reservation.State, now: int) -> None:
    """Refuse an end that cannot be, naming the field; nothing of it is recorded."""
    assert state.starts_at is not None
    if command.ends_at < now:
        raise errors.Invalid("endsAt", f"lies in the past; now is {now}")
    if command.ends_at <= state.starts_at:
        raise errors.Invalid("endsAt", f"lies at or before the start, which is {state.starts_at}")
    if command.ends_at - state.starts_at > LONGEST_MS:
        raise errors.Invalid("endsAt", f"a reservation lasts 366 days at most, until {state.starts_at + LONGEST_MS}")


def _draft(command: Extend, state: reservation.State, unit: Unit, body: str) -> extension.Drafted | None:
    """None of a reservation that has no window yet."""
    if state.starts_at is None or state.ends_at is None:
        return None
    return extension.Drafted(
        reservation_id=command.id,
        tenant_id=unit.session.tenant_id,
        identity_id=unit.session.identity_id,
        ends_at=command.ends_at,
        former_ends_at=state.ends_at,
        duration_hours=(command.ends_at - state.starts_at) / HOUR_MS,
        body=body,
        at=unit.now,
    )


def _asked(resource: access.Resource, drafted: extension.Drafted | None) -> access.Resource:
    """The reservation as it would be: a policy reads the new total of its hours (domain.md §5)."""
    if drafted is None:
        return resource
    return replace(resource, attributes=resource.attributes | {"durationHours": drafted.duration_hours})


def _again(held: Loaded, body: str) -> NoReturn:
    """The key was used: the same body gets the same answer, another body is an error; a yes is kept with its append."""
    state: extension.State = held.state
    assert state.draft is not None
    if state.draft.body != body:
        raise errors.KeyReused("this Idempotency-Key was used with another body; take a new key")
    if state.denied is None:
        raise Race("the same request was answered meanwhile")
    refusal = errors.again(state.denied.code, state.denied.detail, state.denied.extra)
    refusal.replayed = True
    raise refusal


def _refused(command: Extend, state: reservation.State, unit: Unit) -> errors.Conflict | None:
    """What stands in the way of a later end, as far as it is known before the append; that judges again."""
    assert state.ends_at is not None
    assert state.draft is not None
    if command.ends_at <= state.ends_at:
        return None
    scopes = state.claimed.scopes if state.claimed else ()
    if any(unit.load(scope).state.withdrawn for scope in scopes if quota.is_offering(scope)):
        return errors.Conflict("the pool is not offered to you any more: it runs to its end and is not extended")
    of: pool.State = unit.load(state.draft.pool_id).state
    if of.policy.admission.budget_check == "enforce":
        over = budgets.exceeded(unit.ports, state.draft, (state.ends_at, command.ends_at))
        if over is not None:
            return budgets.refusal(over)
    gap_ms = of.policy.cleaning_seconds * 1000
    return _in_the_way(command.id, state.ends_at, command.ends_at + gap_ms, unit)


def _in_the_way(reservation_id: str, since: int, until: int, unit: Unit) -> errors.DoubleBooked | None:
    """Names whoever has its devices next, where the caller may see that; else only since when (domain.md §5)."""
    ahead = unit.ports.store.following(reservation_id, since, until)
    if not ahead:
        return None
    session = unit.session
    named: list[str] = []
    for other in ahead:
        seen = unit.ports.store.resolve(session.tenant_id, "compute-reservation", other.reservation_id or "")
        if seen and unit.ports.authorizer.foresee(session, "compute:reservations:get", seen).verdict == "allowed":
            named.append(f"{seen.id} from {other.since}")
        else:
            named.append(f"busy from {other.since}")
    who = ", ".join(dict.fromkeys(named))
    return errors.DoubleBooked(f"its devices are booked by others in this time: {who}")


def _apply(extension_id: str, drafted: extension.Drafted, loaded: Loaded, unit: Unit) -> Outcome:
    state: reservation.State = loaded.state
    assert state.draft is not None
    assert state.starts_at is not None
    scopes = state.claimed.scopes if state.claimed else ()
    claimed = reservation.Claimed(scopes, claim.resources(state.draft.claim), state.starts_at, drafted.ends_at)
    extended = reservation.Extended(
        extension_id=extension_id,
        admission_id=unit.admission_id,
        pool_id=state.draft.pool_id,
        former_ends_at=drafted.former_ends_at,
        ends_at=drafted.ends_at,
        claimed=claimed,
        gpu_ms=state.draft.gpu_count * (drafted.ends_at - state.starts_at),
        allocations=tuple(allocation.id for allocation in state.allocations),
        at=unit.now,
    )

    def instead(refusal: errors.Conflict) -> Outcome:
        found = None
        if isinstance(refusal, errors.DoubleBooked):
            found = _in_the_way(drafted.reservation_id, drafted.former_ends_at, drafted.ends_at, unit)
        return _denied(extension_id, drafted, loaded, found or refusal)

    applied = extension.Applied(unit.admission_id, unit.now)
    moved = Change(drafted.reservation_id, loaded.version, (extended,))
    return Outcome((moved, Change(extension_id, 0, (drafted, applied))), instead=instead)


def _denied(
    extension_id: str, drafted: extension.Drafted, loaded: Loaded, refusal: errors.Refusal, *, admitted: bool = True
) -> Outcome:
    """The extension is kept with its no; nothing of the reservation changed (O10)."""
    refusal.extra |= {"extensionId": extension_id, "reservationId": drafted.reservation_id}
    extra = {name: value for name, value in refusal.extra.items() if not isinstance(value, tuple)}
    denied = extension.Denied(type(refusal).__name__, refusal.code, refusal.detail, extra)
    untouched = Change(drafted.reservation_id, loaded.version, ())
    kept = Change(extension_id, 0, (drafted, denied))
    return Outcome((untouched, kept), refusal=refusal, admitted=admitted)


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
            errors.StaleVersion,
            errors.KeyReused,
        ),
        key="required",
    ),
)
