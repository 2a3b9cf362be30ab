"""Projects: create, archive (domain.md §9)."""

from typing import Annotated

from msgspec import Meta

from commands.unit import Outcome, Unit, changed
from domain import errors, ids, project
from domain.event import Change
from domain.labels import Labels
from domain.operation import Operation, Request


class Create(Request, frozen=True, kw_only=True):
    name: Annotated[str, Meta(max_length=63)]
    labels: Labels = {}


class Act(Request, frozen=True, kw_only=True):
    id: str


def create(command: Create, unit: Unit) -> Outcome:
    event = project.Created(ids.name(command.name), unit.session.tenant_id, command.labels, unit.now)
    return Outcome((Change(unit.new_id("prj"), 0, (event,)),))


def archive(command: Act, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    return Outcome((changed(command.id, loaded, close(loaded.state, unit.now)),))


def close(state: project.State, now: int) -> list[project.Events]:
    if state.archived_at is not None:
        return []
    return [project.Archived(state.name, state.owner_tenant_id, now)]


OPERATIONS = (
    Operation(
        name="projects.create",
        verb="POST",
        path="/v1/projects",
        request=Create,
        response=project.View,
        on=("compute-tenant/{acting}",),
        handle=create,
        view=project.view,
        summary="Create a project: a grouping of a tenant's claims",
        status=201,
        refusals=(errors.AccessDenied, errors.Conflict, errors.KeyReused),
        key="accepted",
    ),
    Operation(
        name="projects.archive",
        verb="POST",
        path="/v1/projects/{id}/archive",
        request=Act,
        response=project.View,
        on=("compute-project/{id}",),
        handle=archive,
        view=project.view,
        summary="Archive a project for good: nothing new can be added, and its name is free again",
        refusals=(errors.AccessDenied, errors.NotFound, errors.StaleVersion),
    ),
)
