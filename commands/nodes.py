"""Nodes: assign, label, fence (domain.md §3)."""

from typing import Annotated, Final

from msgspec import Meta

from commands import acceptance, hardware, reconciling, teardown
from commands.of_nodes import ActWithReason, declare, on_node
from commands.unit import Outcome, Unit, changed
from domain import errors, join_token, node, schedulability
from domain.event import Change
from domain.labels import Labels
from domain.operation import Request

PAST_ACCEPTANCE: Final = ("adopted", "ready", "deploying", "deployed", "releasing", "rescue")
"""Where nothing else would ask a node for its pool's checks any more."""


class Assign(Request, frozen=True, kw_only=True):
    id: str
    pool_id: str
    role: Annotated[join_token.Role, Meta(description="host: its devices are sold; site: it serves the site")] = "host"


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
    if state.plans:
        raise errors.Conflict("the node's planned maintenance is booked in its pool: call it off first")
    events = hardware.assign(command.id, state, command.pool_id, of, command.role, unit.now)
    issued: list[Change] = []
    if of.policy.acceptance and state.provision_state in PAST_ACCEPTANCE:
        checks = of.policy.acceptance
        events += acceptance.owed(state, checks, unit.now)
        made, queued = acceptance.demand(command.id, state, checks, "assignment", unit.new_id, unit.now)
        issued.append(made)
        events.append(queued)
    return Outcome((changed(command.id, loaded, schedulability.settle(state, events, unit.now)), *issued))


def fence(command: ActWithReason, unit: Unit) -> Outcome:
    """The machine is off: what ended on it is proved free (domain.md §5, Ending)."""
    loaded = unit.existing(command.id)
    freed = teardown.on_node(unit, unit.ports.store.booked(command.id), command.id, unit.now)
    known = loaded.state.power == "off" and not freed
    events: list[node.Events] = [] if known else [node.Fenced(command.reason, unit.now)]
    events += reconciling.broken(loaded.state, "Fenced", unit.now)
    settled = schedulability.settle(loaded.state, events, unit.now)
    return Outcome((changed(command.id, loaded, settled), *freed))


def label(state: node.State, labels: dict[str, str], now: int) -> list[node.Events]:
    return [] if state.labels == labels else [node.Labelled(labels)]


OPERATIONS = (
    declare(
        "nodes.assign",
        "assign",
        Assign,
        assign,
        "Put a node into a pool; what it offers follows from the pool's sharing",
        ("compute-node/{id}", "compute-pool/{poolId}"),
    ),
    declare("nodes.label", "labels", Label, on_node(label, "labels"), "Replace a node's labels"),
    declare("nodes.fence", "fence", ActWithReason, fence, "State that the machine is off: its devices are free"),
)
