"""Nodes as lists show them, and what capacity asks of them."""

from typing import Any

from domain import node, node_view
from projections.documents import Model, encode
from projections.projection import Async

TABLES = """
CREATE TABLE nodes (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    site_id text NOT NULL,
    pool_id text,
    name text NOT NULL,
    role text NOT NULL,
    provision_state text NOT NULL,
    connectivity text NOT NULL,
    gateway text NOT NULL,
    session bigint NOT NULL,
    schedulable boolean NOT NULL,
    scalars jsonb NOT NULL,
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    view bytea NOT NULL,
    state bytea NOT NULL
);
CREATE INDEX nodes_by_tenant ON nodes (tenant_id, created_at, id);
CREATE INDEX nodes_by_pool ON nodes (pool_id);
CREATE INDEX nodes_by_site ON nodes (site_id) WHERE role = 'site';
CREATE INDEX nodes_by_gateway ON nodes (gateway) WHERE connectivity = 'connected';
"""


def row(id: str, state: node.State, version: int) -> tuple[Any, ...]:
    return (
        id,
        state.owner_tenant_id,
        state.site_id,
        state.pool_id,
        state.name,
        state.role,
        state.provision_state,
        state.connectivity,
        state.gateway,
        state.session,
        not state.reasons,
        encode(state.scalars).decode(),
        state.created_at,
        version,
        encode(node_view.view(id, state, version)),
    )


MODEL = Model(
    "node_",
    node.State,
    "SELECT id, version, state FROM nodes WHERE id = ANY(%s)",
    """
    INSERT INTO nodes (id, tenant_id, site_id, pool_id, name, role, provision_state, connectivity, gateway,
        session, schedulable, scalars, created_at, version, view, state)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s, %s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET
        pool_id = excluded.pool_id, name = excluded.name, role = excluded.role,
        provision_state = excluded.provision_state, connectivity = excluded.connectivity,
        gateway = excluded.gateway, session = excluded.session,
        schedulable = excluded.schedulable, scalars = excluded.scalars, version = excluded.version,
        view = excluded.view, state = excluded.state
    """,
    row,
)

PROJECTION = Async("nodes", TABLES, MODEL.apply, MODEL.shape)
