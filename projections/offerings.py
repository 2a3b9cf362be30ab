"""Offers of pools as their owners see them."""

from typing import Any

from domain import offering
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE offerings (
    id text PRIMARY KEY,
    pool_id text NOT NULL,
    tenant_id text NOT NULL,
    withdrawn boolean NOT NULL,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX offerings_by_pool ON offerings (pool_id, created_at, id);
"""


def facets(state: offering.State) -> tuple[Any, ...]:
    return state.pool_id, state.tenant_id, state.withdrawn


def columns(state: offering.State) -> tuple[Any, ...]:
    return (state.created_at,)


MODEL = Documents(
    "offerings",
    "poff_",
    offering.State,
    facets=("pool_id text", "tenant_id text", "withdrawn boolean"),
    columns=("created_at bigint",),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
