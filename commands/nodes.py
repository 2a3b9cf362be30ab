"""Nodes: assign, adopt, cordon, maintain, fence, retire (domain.md §3)."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from commands import hardware, teardown
from commands.unit import Outcome, Unit, changed
from domain import errors, join_token, node, node_view, schedulability
from domain.labels import Labels
from domain.operation import Operation, Request

Reason = Annotated[str, Meta(min_length=1, max_length=255, description="kept for ever: no personal data")]


class Act(Request, frozen=True, kw_only=True):
    id: str


class ActWithReason(Request, frozen=True, kw_only=True):
    id: str
    reason: Reason


class Assign(Request, frozen=True, kw_only=True):
    id: str
    pool_id: str
    role: Annotated[join_token.Role, Meta(description="host: its devices are sold; site: it serves the site")] = "host"


class Maintain(Request, frozen=True, kw_only=True):
    """`on: false` ends the maintenance."""

    id: str
    on: bool
    reason: Reason = "maintenance"


class Label(Request, frozen=True, kw_only=True):
    """Replaces all labels."""

    id: str
    labels: Labels


def assign(command: Assign, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    of = unit.existing(command.pool_id, "poolId").state
    unit.only_owner(of.owner_tenant_id, f"compute-pool/{command.pool_id}")
    state: node.State = loaded.state
    if of.site_id != state.site_id:
        raise errors.Invalid("poolId", f"the pool is in site {of.site_id}, the node in {state.site_id}")
    if state.provision_state in ("retiring", "retired"):
        raise errors.IllegalTransition(state.provision_state, "an assignment", ())
    if (state.pool_id, state.role) == (command.pool_id, command.role):
        return Outcome((changed(command.id, loaded, []),))
    events = hardware.assign(command.id, state, command.pool_id, of, command.role, unit.now)
    return Outcome((changed(command.id, loaded, schedulability.settle(state, events, unit.now)),))


def cordon(state: node.State, reason: str, now: int) -> list[node.Events]:
    if state.provision_state == "retired":
        raise errors.IllegalTransition("retired", "a cordon", ())
    if state.cordoned is not None:
        return []
    return [node.Cordoned(reason, now)]


def uncordon(state: node.State, now: int) -> list[node.Events]:
    return [] if state.cordoned is None else [node.Uncordoned(now)]


def maintain(state: node.State, on: bool, reason: str, now: int) -> list[node.Events]:
    if state.provision_state == "retired":
        raise errors.IllegalTransition("retired", "maintenance", ())
    if on and all(stay.reason != reason for stay in state.maintenance):
        return [node.MaintenanceEntered(reason, now)]
    if not on and state.maintenance:
        return [node.MaintenanceLeft(now)]
    return []


def adopt(state: node.State, now: int) -> list[node.Events]:
    if state.provision_state == "adopted":
        return []
    return [node.move(state, "adopted", "Adopted", now)]


def retire(state: node.State, now: int) -> list[node.Events]:
    """Refused by the node's gate while it carries bookings (O13)."""
    if state.provision_state == "retired":
        return []
    moves: list[node.Events] = []
    if state.provision_state != "retiring":
        moves.append(node.move(state, "retiring", "Retired", now))
    return [
        *moves,
        node.Assigned(state.role, None, None, state.pool_id),
        node.Moved("retired", "Retired", now),
    ]


def fence(command: ActWithReason, unit: Unit) -> Outcome:
    """The machine is off: what ended on it is proved free (domain.md §5, Ending)."""
    loaded = unit.existing(command.id)
    freed = teardown.on_node(unit.ports.store, command.id, unit.now)
    known = loaded.state.power == "off" and not freed
    events: list[node.Events] = [] if known else [node.Fenced(command.reason, unit.now)]
    return Outcome((changed(command.id, loaded, events), *freed))


def _on_node(decide: Callable[..., list[node.Events]], *fields: str) -> Callable[[Request, Unit], Outcome]:
    """A handler for a decision on one node: load, decide with the named fields and now, settle."""

    def handle(command: Request, unit: Unit) -> Outcome:
        node_id: str = getattr(command, "id")  # noqa: B009 - Request itself has no id
        loaded = unit.existing(node_id)
        events = decide(loaded.state, *(getattr(command, field) for field in fields), unit.now)
        return Outcome((changed(node_id, loaded, schedulability.settle(loaded.state, events, unit.now)),))

    return handle


def label(state: node.State, labels: dict[str, str], now: int) -> list[node.Events]:
    return [] if state.labels == labels else [node.Labelled(labels)]


def _declare(
    name: str,
    verb_path: str,
    request: type[Request],
    handle: Callable[..., Outcome],
    summary: str,
    on: tuple[str, ...] = ("compute-node/{id}",),
) -> Operation:
    return Operation(
        name=name,
        verb="POST",
        path=f"/v1/nodes/{{id}}/{verb_path}",
        request=request,
        response=node_view.View,
        on=on,
        handle=handle,
        view=node_view.view,
        summary=summary,
        refusals=(
            errors.AccessDenied,
            errors.NotFound,
            errors.Conflict,
            errors.IllegalTransition,
            errors.StaleVersion,
        ),
    )


OPERATIONS = (
    _declare(
        "nodes.assign",
        "assign",
        Assign,
        assign,
        "Put a node into a pool; its atoms follow from the pool's sharing",
        ("compute-node/{id}", "compute-pool/{poolId}"),
    ),
    _declare("nodes.adopt", "adopt", Act, _on_node(adopt), "Accept a machine that is already installed"),
    _declare("nodes.cordon", "cordon", ActWithReason, _on_node(cordon, "reason"), "Place nothing new on it"),
    _declare("nodes.uncordon", "uncordon", Act, _on_node(uncordon), "Place on it again"),
    _declare(
        "nodes.maintain",
        "maintenance",
        Maintain,
        _on_node(maintain, "on", "reason"),
        "Enter or leave maintenance",
    ),
    _declare("nodes.label", "labels", Label, _on_node(label, "labels"), "Replace its labels"),
    _declare("nodes.fence", "fence", ActWithReason, fence, "State that the machine is off: its atoms are free"),
    _declare("nodes.retire", "retire", Act, _on_node(retire), "Retire it; refused while it carries bookings"),
)
