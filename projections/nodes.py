"""Nodes as lists show them, and what capacity asks of them."""

from typing import Any

from msgspec.structs import replace

from domain import node
from projections.documents import KEEPING, Documents, encode

TABLES = f"""
CREATE TABLE nodes (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    words text NOT NULL,
    gpu_model text,
    power text NOT NULL,
    site_id text NOT NULL,
    pool_id text,
    role text NOT NULL,
    provision_state text NOT NULL,
    connectivity text NOT NULL,
    schedulable boolean NOT NULL,
    rack text,
    drain text,
    reasons jsonb NOT NULL,
    conditions jsonb NOT NULL,
    name text NOT NULL,
    gateway text NOT NULL,
    session bigint NOT NULL,
    scalars jsonb NOT NULL,
    due_at bigint,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX nodes_by_tenant ON nodes (tenant_id, created_at, id);
CREATE INDEX nodes_by_pool ON nodes (pool_id);
CREATE INDEX nodes_by_site ON nodes (site_id) WHERE role = 'site';
CREATE INDEX nodes_due ON nodes (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX nodes_unreachable ON nodes (id) WHERE connectivity = 'unreachable';
CREATE INDEX nodes_by_gateway ON nodes (gateway) WHERE connectivity = 'connected';
"""


RACK = "rack"
"""The label that says where in its site a node stands."""


def facets(state: node.State) -> tuple[Any, ...]:
    return (
        state.owner_tenant_id,
        _words(state),
        state.gpu_model,
        state.power,
        state.site_id,
        state.pool_id,
        state.role,
        state.provision_state,
        state.connectivity,
        not state.reasons,
        state.labels.get(RACK),
        _drain(state),
        _since(state.reasons),
        _since({condition.type: condition.since for condition in state.conditions}),
    )


def _words(state: node.State) -> str:
    """What a text is looked for in: the name, and what its labels say."""
    return "\n".join([state.name, *(value for _, value in sorted(state.labels.items()))]).lower()


def _drain(state: node.State) -> str | None:
    if state.drain is None:
        return None
    return "draining" if state.drain.drained_at is None else "drained"


def _since(instants: dict[str, int]) -> str:
    """Names with since when, always in one order: what is equal is written alike."""
    return encode(dict(sorted(instants.items()))).decode()


def due_at(state: node.State) -> int | None:
    """When the node's own calendar has something for it next (epoch ms).

    A drain under way is looked at each time, and so is a booked device that is missing.
    """
    if any(condition.type == "BookedDeviceMissing" for condition in state.conditions):
        return 0
    if state.drain is not None and state.drain.drained_at is None:
        return 0
    begun = {stay.plan for stay in state.maintenance}
    return min((plan.until if plan.id in begun else plan.from_ for plan in state.plans), default=None)


def columns(state: node.State) -> tuple[Any, ...]:
    scalars = encode(state.scalars).decode()
    return state.name, state.gateway, state.session, scalars, due_at(state), state.created_at


def kept(state: node.State) -> node.State:
    """An event replaces these whole, and lists do not show them: the log and its stream have them."""
    return replace(state, inventory=None, devices=())


MODEL = Documents(
    "nodes",
    "node_",
    node.State,
    facets=(
        "tenant_id text",
        "words text",
        "gpu_model text",
        "power text",
        "site_id text",
        "pool_id text",
        "role text",
        "provision_state text",
        "connectivity text",
        "schedulable boolean",
        "rack text",
        "drain text",
        "reasons jsonb",
        "conditions jsonb",
    ),
    columns=(
        "name text",
        "gateway text",
        "session bigint",
        "scalars jsonb",
        "due_at bigint",
        "created_at bigint",
    ),
    facets_of=facets,
    columns_of=columns,
    kept=kept,
)

AGENTS = """
CREATE INDEX nodes_history_agents ON nodes_history (site_id, from_position) WHERE role = 'site';
"""
"""For what is asked of a site: whether it was served."""

PROJECTION = MODEL.projection(TABLES, AGENTS)
