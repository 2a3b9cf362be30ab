"""Confirming: the person says yes to what an agent asked for, or to what takes more than the budget (domain.md §5)."""

from typing import Final

from commands import admitting
from commands.unit import Outcome, Unit, changed
from domain import errors, reservation, reservation_life, reservation_view
from domain.operation import Operation, Request

CREATE: Final = "compute:reservations:create"


class Confirm(Request, frozen=True, kw_only=True):
    id: str


def confirm(command: Confirm, unit: Unit) -> Outcome:
    """Decided twice: that this may be confirmed, and the create itself, for the person (both are kept).

    Who was not told that it takes more than the budget has left is asked about that as well.
    """
    unit.decide(unit.resolve("compute-reservation", command.id, "id"))
    loaded = unit.existing(command.id)
    state: reservation.State = loaded.state
    assert state.draft is not None
    _by_the_person(command.id, state.draft, unit)
    if confirmed(state):
        return Outcome((changed(command.id, loaded, []),))
    reservation_life.must_take(state, "confirm")
    assert state.awaits is not None
    if state.awaits.until <= unit.now:
        raise errors.Conflict("the time to confirm it is over; ask again with a new key")
    asked = admitting.Asked(command.id, state.draft, loaded.version, state.awaits.until)
    try:
        unit.decide(admitting.resource(asked), CREATE)
    except errors.AccessDenied as refusal:
        if refusal.code in errors.STEP_UP:
            raise
        return admitting.denied(asked, refusal, admitted=True)
    return admitting.admit(asked, unit, confirmed=state.awaits.reason == "OverBudget")


def confirmed(state: reservation.State) -> bool:
    """Whether it awaited its person and has been admitted since; what is over takes no verb."""
    return state.awaits is not None and state.admission_id is not None and state.status not in reservation_life.FINAL


def _by_the_person(reservation_id: str, draft: reservation.Drafted, unit: Unit) -> None:
    session, action, name = unit.session, unit.operation.action, f"compute-reservation/{reservation_id}"
    if session.session_kind == "delegated" or session.identity_id != draft.identity_id:
        unit.gatekeeper.refused(session, action, name, "NotThePerson", unit.call.request_id, "")
        raise errors.AccessDenied(f"{action} on {name} is for whom it was made, in a session of their own")


OPERATIONS = (
    Operation(
        name="reservations.confirm",
        verb="POST",
        path="/v1/reservations/{id}/confirm",
        request=Confirm,
        response=reservation_view.View,
        on=("compute-reservation/{id}",),
        decided_inside=True,
        handle=confirm,
        view=reservation_view.view,
        summary="Confirm a reservation that waits for its person",
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
        ),
    ),
)
