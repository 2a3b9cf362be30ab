"""Pools as lists show them: to the owner with the policy, to others without."""

from typing import Any

from domain import pool
from projections.documents import Model, encode
from projections.projection import Async

TABLES = """
CREATE TABLE pools (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    site_id text NOT NULL,
    name text NOT NULL,
    class text NOT NULL,
    gpu_model text NOT NULL,
    sharing text NOT NULL,
    retired boolean NOT NULL,
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    view bytea NOT NULL,
    tenant_view bytea NOT NULL,
    state bytea NOT NULL
);
CREATE INDEX pools_by_tenant ON pools (tenant_id, created_at, id);
"""


def row(id: str, state: pool.State, version: int) -> tuple[Any, ...]:
    return (
        id,
        state.owner_tenant_id,
        state.site_id,
        state.name,
        state.class_,
        state.gpu_model,
        state.sharing,
        state.retired,
        state.created_at,
        version,
        encode(pool.view(id, state, version)),
        encode(pool.tenant_view(id, state, version)),
    )


MODEL = Model(
    "pool_",
    pool.State,
    "SELECT id, version, state FROM pools WHERE id = ANY(%s)",
    """
    INSERT INTO pools (id, tenant_id, site_id, name, class, gpu_model, sharing, retired, created_at,
        version, view, tenant_view, state)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, retired = excluded.retired, version = excluded.version,
        view = excluded.view, tenant_view = excluded.tenant_view, state = excluded.state
    """,
    row,
)

PROJECTION = Async("pools", TABLES, MODEL.apply, MODEL.shape)
