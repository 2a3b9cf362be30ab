"""What operations on one node have in common."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from commands.unit import Outcome, Unit, changed
from domain import errors, node, node_view, schedulability
from domain.operation import Operation, Request

Reason = Annotated[str, Meta(min_length=1, max_length=255, description="kept for ever, so no personal data")]


class Act(Request, frozen=True, kw_only=True):
    id: str


class ActWithReason(Request, frozen=True, kw_only=True):
    id: str
    reason: Reason


def on_node(decide: Callable[..., list[node.Events]], *fields: str) -> Callable[[Request, Unit], Outcome]:
    """A handler for a decision on one node: load, decide with the named fields and now, settle."""

    def handle(command: Request, unit: Unit) -> Outcome:
        node_id: str = getattr(command, "id")  # noqa: B009 - Request itself has no id
        loaded = unit.existing(node_id)
        events = decide(loaded.state, *(getattr(command, field) for field in fields), unit.now)
        return Outcome((changed(node_id, loaded, schedulability.settle(loaded.state, events, unit.now)),))

    return handle


def declare(
    name: str,
    verb_path: str,
    request: type[Request],
    handle: Callable[..., Outcome],
    summary: str,
    on: tuple[str, ...] = ("compute-node/{id}",),
    example: Mapping[str, Any] | None = None,
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
        example=example or {},
        refusals=(
            errors.AccessDenied,
            errors.NotFound,
            errors.Conflict,
            errors.IllegalTransition,
            errors.StaleVersion,
        ),
    )


def alive(state: node.State, verb: str) -> None:
    """Nothing new is done to a node that is retired."""
    if state.provision_state == "retired":
        raise errors.IllegalTransition("retired", verb, ())
