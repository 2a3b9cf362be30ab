"""Offerings: make a pool exist for another tenant, with a quota; withdraw it (domain.md §2)."""

from typing import Annotated

from msgspec import Meta

from commands import pools
from commands.unit import Outcome, Unit, changed
from domain import errors, ids, offering
from domain.event import Change
from domain.operation import Operation, Request


class Offer(Request, frozen=True, kw_only=True):
    """A resource that the quota does not name grants zero."""

    id: str
    tenant_id: Annotated[str, Meta(max_length=128)]
    quota: offering.Quota
    priority: Annotated[int, Meta(ge=-1000, le=1000, description="higher goes first; the owner's own have 0")] = 0
    include_descendants: bool = False


class Withdraw(Request, frozen=True, kw_only=True):
    id: str
    tenant_id: Annotated[str, Meta(max_length=128)]


def offer(command: Offer, unit: Unit) -> Outcome:
    owner = pools.owned(unit, command.id).state
    if owner.retired:
        raise errors.IllegalTransition("retired", "an offer", ())
    ids.opaque(command.tenant_id, "tenantId")
    if unit.ports.store.tenant(command.tenant_id) is None:
        raise unit.unseen("tenant", command.tenant_id, "tenantId")
    if command.tenant_id == owner.owner_tenant_id:
        raise errors.Invalid("tenantId", "the pool is this tenant's own: it needs no offer")
    held = unit.ports.store.holder("offering", command.id, command.tenant_id)
    if held is None:
        event = offering.Offered(
            command.id,
            owner.owner_tenant_id,
            command.tenant_id,
            command.quota,
            command.priority,
            command.include_descendants,
            unit.now,
        )
        return Outcome((Change(unit.new_id("poff"), 0, (event,)),))
    loaded = unit.load(held)
    return Outcome((changed(held, loaded, change(command, loaded.state)),))


def change(command: Offer, state: offering.State) -> list[offering.Events]:
    wanted = (command.quota, command.priority, command.include_descendants)
    if wanted == (state.quota, state.priority, state.include_descendants):
        return []
    return [offering.Changed(*wanted)]


def withdraw(command: Withdraw, unit: Unit) -> Outcome:
    pools.owned(unit, command.id)
    ids.opaque(command.tenant_id, "tenantId")
    held = unit.ports.store.holder("offering", command.id, command.tenant_id)
    if held is None:
        raise unit.unseen("offer to tenant", command.tenant_id, "tenantId")
    event = offering.Withdrawn(command.id, command.tenant_id, unit.now)
    return Outcome((changed(held, unit.load(held), [event]),))


OPERATIONS = (
    Operation(
        name="pools.offer",
        verb="PUT",
        path="/v1/pools/{id}/offers/{tenantId}",
        request=Offer,
        response=offering.View,
        on=("compute-pool/{id}",),
        handle=offer,
        view=offering.view,
        summary="Offer a pool to a tenant, or change the offer",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion),
    ),
    Operation(
        name="pools.withdraw",
        verb="DELETE",
        path="/v1/pools/{id}/offers/{tenantId}",
        request=Withdraw,
        response=offering.View,
        on=("compute-pool/{id}",),
        handle=withdraw,
        view=offering.view,
        summary="Withdraw an offer: nothing new, what is placed runs to its end",
        refusals=(errors.AccessDenied, errors.NotFound, errors.StaleVersion),
    ),
)
