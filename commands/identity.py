"""What operators say about who is who: machines that share an identifier are different ones (domain.md §3)."""

from typing import Annotated

from msgspec import Meta

from commands import twins
from commands.of_nodes import Reason, alive, declare, on_node
from domain import errors, node
from domain.operation import Request

NodeId = Annotated[str, Meta(max_length=64)]


class Settle(Request, frozen=True, kw_only=True):
    """These nodes are other machines, whatever they share with this one; without `nodes` all that are named."""

    id: str
    reason: Reason
    nodes: Annotated[tuple[NodeId, ...], Meta(min_length=1, max_length=1000)] | None = None


def settle(state: node.State, nodes: tuple[str, ...] | None, reason: str, now: int) -> list[node.Events]:
    """The shared identifier goes on counting for neither; only the mark goes, and does not come back for these."""
    alive(state, "settling")
    named = twins.named(state)
    asked = named if nodes is None else nodes
    for index, other in enumerate(asked):
        if other not in named and other not in state.settled:
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
        on_node(settle, "nodes", "reason"),
        "State that its twins are other machines: DuplicateHardware goes and does not come back for them",
    ),
)
