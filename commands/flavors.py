"""Flavors: create, retire (domain.md §6). Those of the platform are every tenant's to use."""

from typing import Annotated

from msgspec import Meta, field

from commands.ports import Loaded
from commands.unit import Outcome, Unit, changed
from domain import errors, flavor, ids
from domain.event import Change
from domain.operation import Operation, Request


class Create(Request, frozen=True, kw_only=True):
    """A size never changes: another size is another flavor."""

    name: Annotated[str, Meta(max_length=63)]
    vcpu: Annotated[int, Meta(ge=1, le=4096)]
    memory_gib: Annotated[int, Meta(ge=1, le=65_536)] = field(name="memoryGiB")
    disk_gib: Annotated[int, Meta(ge=1, le=65_536, description="of the root disk")] = field(name="diskGiB")
    gpus: flavor.Gpus | None = None


class Act(Request, frozen=True, kw_only=True):
    id: str


def create(command: Create, unit: Unit) -> Outcome:
    tenant_id = unit.session.tenant_id
    public = unit.ports.store.resolve(tenant_id, "compute-fleet", "global") is not None
    size = flavor.Size(command.vcpu, command.memory_gib, command.disk_gib, command.gpus)
    event = flavor.Created(ids.name(command.name), tenant_id, size, public, unit.now)
    return Outcome((Change(unit.new_id("flv"), 0, (event,)),))


def retire(command: Act, unit: Unit) -> Outcome:
    loaded = visible(unit, command.id)
    unit.only_owner(loaded.state.owner_tenant_id, f"compute-flavor/{command.id}")
    return Outcome((changed(command.id, loaded, close(loaded.state, unit.now)),))


def close(state: flavor.State, now: int) -> list[flavor.Events]:
    if state.retired_at is not None:
        return []
    return [flavor.Retired(state.name, state.owner_tenant_id, now)]


def visible(unit: Unit, id: str, field: str = "id") -> Loaded:
    """A flavor that exists for the caller's tenant: its own, and the platform's."""
    loaded = unit.load(ids.parse("flv", id, field))
    if not loaded.version or not loaded.state.visible(unit.session.tenant_id):
        raise unit.unseen("compute-flavor", id, field)
    return loaded


OPERATIONS = (
    Operation(
        name="flavors.create",
        verb="POST",
        path="/v1/flavors",
        request=Create,
        response=flavor.View,
        on=("compute-tenant/{acting}",),
        handle=create,
        view=flavor.view,
        summary="Create a size of instances; every tenant can use the platform's",
        status=201,
        refusals=(errors.AccessDenied, errors.Conflict, errors.KeyReused),
        key="accepted",
    ),
    Operation(
        name="flavors.retire",
        verb="DELETE",
        path="/v1/flavors/{id}",
        request=Act,
        response=flavor.View,
        on=("compute-tenant/{acting}",),
        handle=retire,
        view=flavor.view,
        summary="Retire a flavor: no new instance can use it, and its name is free again",
        refusals=(errors.AccessDenied, errors.NotFound, errors.StaleVersion),
    ),
)
