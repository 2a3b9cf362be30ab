"""A pool's owner ends a reservation of its pool, whosever it is (domain.md §10, Visibility)."""

from msgspec import Struct

from commands import ending, pools
from commands.of_nodes import Reason
from commands.unit import Outcome, Unit, changed
from domain import errors, reservation, reservation_life, reservation_terms
from domain.event import Change
from domain.operation import Operation, Request

EVICTED = "Evicted"


class Evict(Request, frozen=True, kw_only=True):
    """The reservation's tenant is told the reason."""

    id: str
    reservation_id: str
    reason: Reason


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a pool's owner sees of a reservation on it; instants in epoch ms."""

    reservation_id: str
    tenant_id: str
    pool_id: str
    state: reservation.Status
    state_reason: str | None
    starts_at: int | None
    ends_at: int | None
    version: int


def view(id: str, state: reservation.State, version: int) -> View:
    assert state.draft is not None, "a reservation's stream begins with its draft"
    return View(
        reservation_id=id,
        tenant_id=state.draft.tenant_id,
        pool_id=state.draft.pool_id,
        state=state.status,
        state_reason=state.reason,
        starts_at=state.starts_at,
        ends_at=reservation_terms.shown_end(state.ends_at),
        version=version,
    )


def evict(command: Evict, unit: Unit) -> Outcome:
    """What was never admitted is not on the pool, and not the owner's to see."""
    pools.owned(unit, command.id)
    loaded = unit.load(command.reservation_id)
    state: reservation.State = loaded.state
    if not _there(state, command.id):
        raise unit.unseen("compute-reservation", command.reservation_id, "reservationId")
    if state.status == "releasing" or state.status in reservation_life.FINAL:
        return Outcome((changed(command.reservation_id, loaded, []),))
    told = reservation.Evicted(command.id, command.reason, unit.now)
    if state.status in ("pending", "placed"):
        failed = reservation.Failed(EVICTED, unit.now, False)
        return Outcome((changed(command.reservation_id, loaded, [told, failed]),))
    own, *nodes = ending.end(unit.ports.store, command.reservation_id, loaded, EVICTED, unit.now)
    return Outcome((Change(own.stream, own.expected, (told, *own.events)), *nodes))


def _there(state: reservation.State, pool_id: str) -> bool:
    admitted = state.admission_id is not None and state.status not in ("draft", "awaiting-confirmation")
    return admitted and state.draft is not None and state.draft.pool_id == pool_id


OPERATIONS = (
    Operation(
        name="pools.evict",
        verb="POST",
        path="/v1/pools/{id}/evict",
        request=Evict,
        response=View,
        on=("compute-pool/{id}",),
        handle=evict,
        view=view,
        summary="End anybody's reservation of your pool: it fails if waiting or placed, and is released if bound",
        refusals=(errors.AccessDenied, errors.NotFound, errors.StaleVersion),
    ),
)
