"""Flavors as lists show them."""

from typing import Any

from domain import flavor
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE flavors (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    public boolean NOT NULL,
    name text NOT NULL,
    retired boolean NOT NULL,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX flavors_by_tenant ON flavors (tenant_id, created_at, id);
CREATE INDEX flavors_public ON flavors (created_at, id) WHERE public;
"""


def facets(state: flavor.State) -> tuple[Any, ...]:
    return state.owner_tenant_id, state.public, state.name, state.retired_at is not None


def columns(state: flavor.State) -> tuple[Any, ...]:
    return (state.created_at,)


MODEL = Documents(
    "flavors",
    "flv_",
    flavor.State,
    facets=("tenant_id text", "public boolean", "name text", "retired boolean"),
    columns=("created_at bigint",),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
