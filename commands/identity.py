"""What operators say about who is who: machines that share an identifier are different ones (domain.md §3)."""

from collections.abc import Collection
from typing import Annotated

from msgspec import Meta

from commands import twins
from commands.of_nodes import Reason, alive, declare
from commands.unit import Outcome, Unit, changed
from domain import errors, node, schedulability
from domain.operation import Request

NodeId = Annotated[str, Meta(max_length=64)]


class Settle(Request, frozen=True, kw_only=True):
    """These nodes are other machines, whatever they share with this one; without `nodes` all that are named."""

    id: str
    reason: Reason
    nodes: Annotated[tuple[NodeId, ...], Meta(min_length=1, max_length=1000)] | None = None


def handle(command: Settle, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    resolve, tenant = unit.ports.store.resolve, unit.session.tenant_id
    strangers = {other for other in command.nodes or () if resolve(tenant, "compute-node", other) is None}
    events = settle(loaded.state, command.nodes, strangers, command.reason, unit.now)
    return Outcome((changed(command.id, loaded, schedulability.settle(loaded.state, events, unit.now)),))


def settle(
    state: node.State, nodes: tuple[str, ...] | None, strangers: Collection[str], reason: str, now: int
) -> list[node.Events]:
    """The shared identifier goes on counting for neither; only the mark goes, and does not come back for these.

    Of the nodes asked for, `strangers` do not exist in the caller's view: a guess is not confirmed (domain.md §10).
    """
    alive(state, "settling")
    named = twins.named(state)
    asked = named if nodes is None else nodes
    for index, other in enumerate(asked):
        if other in strangers or (other not in named and other not in state.settled):
            raise errors.Invalid(f"nodes[{index}]", "is none of the nodes that DuplicateHardware names here")
    new = tuple(sorted(set(asked) - set(state.settled)))
    if not new:
        return []
    return [node.DuplicateSettled(new, reason, now), *twins.without(state, new, now)]


OPERATIONS = (
    declare(
        "nodes.settle",
        "settle",
        Settle,
        handle,
        "State that nodes with the same hardware are other machines: clears DuplicateHardware for them",
    ),
)
