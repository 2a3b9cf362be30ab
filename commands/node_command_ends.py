"""How a command reaches its end, whoever brings it about, and what that decides (domain.md §8)."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from commands import acceptance, node_commands
from commands.gathering import Gathered, Loads
from commands.unit import Outcome, Unit
from domain import errors, ids, node, node_command, pool
from domain.event import Change
from domain.operation import Operation, Request

New = Callable[[str], str]


class Cancel(Request, frozen=True, kw_only=True):
    id: str
    reason: Annotated[str, Meta(min_length=1, max_length=255)] = "Cancelled"


def finish(
    loads: Loads, gathered: Gathered, command_id: str, ended: node_command.Events, new_id: New, now: int
) -> None:
    """Its own event, its node's, and what it decides there."""
    loaded = gathered.load(command_id)
    of: node_command.State = loaded.state
    on_node = gathered.load(of.node_id)
    state: node.State = on_node.state
    policy: pool.Policy = loads.load(state.pool_id).state.policy if state.pool_id else pool.Policy()
    followed = acceptance.follow(of.node_id, state, of, ended, policy.acceptance, new_id, now)
    events = node_commands.settled(state, [node.CommandSettled(command_id), *followed.events], now)
    gathered.add([Change(command_id, loaded.version, (ended,)), Change(of.node_id, on_node.version, events)])
    gathered.add(followed.changes)


def cancel(command: Cancel, unit: Unit) -> Outcome:
    """A command that may be running already cannot be called back."""
    loaded = unit.load(ids.parse("cmd", command.id))
    state: node_command.State = loaded.state
    of = unit.ports.store.resolve(unit.session.tenant_id, "compute-node", state.node_id) if loaded.version else None
    if of is None:
        raise unit.unseen("command", command.id)
    unit.decide(of)
    if state.status == "cancelled":
        return Outcome((Change(command.id, loaded.version, ()),))
    node_command.must_move(state, "cancelled", "cancel")
    gathered = Gathered(unit)
    finish(unit, gathered, command.id, node_command.Cancelled(command.reason, unit.now), unit.new_id, unit.now)
    return Outcome(gathered.changes(first=command.id))


OPERATIONS = (
    Operation(
        name="commands.cancel",
        verb="POST",
        path="/v1/commands/{id}/cancel",
        request=Cancel,
        response=node_command.View,
        on=("compute-node/{nodeId}",),
        decided_inside=True,
        handle=cancel,
        view=node_command.view,
        summary="Cancel a command that was not delivered yet",
        refusals=(errors.AccessDenied, errors.NotFound, errors.IllegalTransition, errors.StaleVersion),
    ),
)
