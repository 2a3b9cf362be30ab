"""Quotas of tenants and projects: set them (domain.md §2)."""

from typing import Annotated

from msgspec import Meta

from commands.unit import Outcome, Unit, changed
from domain import errors, ids, offering, quota
from domain.operation import Operation, Request


class Set(Request, frozen=True, kw_only=True):
    """A resource that `limits` does not name is unlimited; an empty map takes the quota away."""

    kind: quota.Kind
    id: Annotated[str, Meta(max_length=128)]
    limits: offering.Quota


def set_(command: Set, unit: Unit) -> Outcome:
    tenant_id = grantee(command.kind, command.id, unit)
    stream = quota.stream(command.kind, command.id)
    loaded = unit.load(stream)
    if loaded.version and command.limits == loaded.state.limits:
        return Outcome((changed(stream, loaded, []),))
    event = quota.Set(command.kind, command.id, tenant_id, command.limits, unit.now)
    return Outcome((changed(stream, loaded, [event]),))


def grantee(kind: quota.Kind, id: str, unit: Unit) -> str:
    """Whose it is, once the caller may grant it: the platform grants to tenants, a tenant to its projects."""
    if kind == "project":
        unit.resolve("compute-project", id, "id")
        unit.decide(unit.resolve("compute-tenant", unit.session.tenant_id, "id"))
        return unit.session.tenant_id
    unit.decide(unit.resolve("compute-fleet", "global", "kind"))
    ids.opaque(id, "id")
    if unit.ports.store.tenant(id) is None:
        raise unit.unseen("tenant", id)
    return id


OPERATIONS = (
    Operation(
        name="quotas.set",
        verb="PUT",
        path="/v1/quotas/{kind}/{id}",
        request=Set,
        response=quota.View,
        on=("compute-fleet/global", "compute-tenant/{acting}"),
        decided_inside=True,
        handle=set_,
        view=quota.view,
        summary="Limit what a tenant or a project may hold at once",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion),
    ),
)
