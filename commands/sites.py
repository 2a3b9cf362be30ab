"""Sites: create, rename (domain.md §2)."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from commands.unit import Outcome, Unit, changed
from domain import errors, ids, site
from domain.event import Change
from domain.operation import Operation, Request


class Create(Request, frozen=True, kw_only=True):
    """`kind` shared and dedicated is the platform's own hardware, custom the acting tenant's."""

    name: Annotated[str, Meta(max_length=63)]
    kind: site.Kind
    iam_region: Annotated[str, Meta(max_length=63)]


class Update(Request, frozen=True, kw_only=True):
    id: str
    name: Annotated[str, Meta(max_length=63)] | UnsetType = UNSET


def create(command: Create, unit: Unit) -> Outcome:
    ids.name(command.name)
    ids.name(command.iam_region, "iamRegion")
    tenant_id = unit.session.tenant_id
    scope = ("compute-tenant", tenant_id) if command.kind == "custom" else ("compute-fleet", "global")
    unit.decide(unit.resolve(*scope, "kind"))
    event = site.Created(command.name, command.kind, tenant_id, command.iam_region, unit.now)
    return Outcome((Change(unit.new_id("site"), 0, (event,)),))


def update(command: Update, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    return Outcome((changed(command.id, loaded, rename(command, loaded.state)),))


def rename(command: Update, state: site.State) -> list[site.Events]:
    if command.name is UNSET or command.name == state.name:
        return []
    return [site.Renamed(ids.name(command.name), state.name, state.owner_tenant_id)]


OPERATIONS = (
    Operation(
        name="sites.create",
        verb="POST",
        path="/v1/sites",
        request=Create,
        response=site.View,
        on=("compute-fleet/global", "compute-tenant/{acting}"),
        decided_inside=True,
        handle=create,
        view=site.view,
        summary="Register a site: a boot and failure domain",
        status=201,
        refusals=(errors.AccessDenied, errors.Conflict, errors.KeyReused),
        key="accepted",
    ),
    Operation(
        name="sites.update",
        verb="PATCH",
        path="/v1/sites/{id}",
        request=Update,
        response=site.View,
        on=("compute-site/{id}",),
        handle=update,
        view=site.view,
        summary="Rename a site",
        example={"name": "north-2"},
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion),
    ),
)
