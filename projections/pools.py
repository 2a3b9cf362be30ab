"""Pools as lists show them: to the owner with the policy, to others without."""

from typing import Any

from domain import pool
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE pools (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    site_id text NOT NULL,
    gpu_model text NOT NULL,
    retired boolean NOT NULL,
    name text NOT NULL,
    class text NOT NULL,
    sharing text NOT NULL,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX pools_by_tenant ON pools (tenant_id, created_at, id);
"""


def facets(state: pool.State) -> tuple[Any, ...]:
    return state.owner_tenant_id, state.site_id, state.gpu_model, state.retired


def columns(state: pool.State) -> tuple[Any, ...]:
    return state.name, state.class_, state.sharing, state.created_at


MODEL = Documents(
    "pools",
    "pool_",
    pool.State,
    facets=("tenant_id text", "site_id text", "gpu_model text", "retired boolean"),
    columns=("name text", "class text", "sharing text", "created_at bigint"),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
