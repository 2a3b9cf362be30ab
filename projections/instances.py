"""Instances as lists show them."""

from typing import Any

from domain import instance
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE instances (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    pool_id text NOT NULL,
    project_id text,
    state_name text NOT NULL,
    node_id text,
    image_id text NOT NULL,
    reservation_id text NOT NULL,
    ended boolean NOT NULL,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX instances_by_tenant ON instances (tenant_id, created_at, id);
CREATE INDEX instances_by_id ON instances (tenant_id, id);
CREATE INDEX instances_by_pool ON instances (pool_id, created_at, id);
CREATE INDEX instances_by_node ON instances (node_id, created_at, id) WHERE node_id IS NOT NULL;
CREATE INDEX instances_by_image ON instances (image_id, created_at, id);
CREATE INDEX instances_live ON instances (state_name, id) WHERE NOT ended;
"""


def facets(state: instance.State) -> tuple[Any, ...]:
    draft = state.draft
    assert draft is not None
    return draft.tenant_id, draft.pool_id, draft.project_id, state.status, state.node_id, draft.image.id


def columns(state: instance.State) -> tuple[Any, ...]:
    """`ended`: it is over for good, and uses its image no more."""
    draft = state.draft
    assert draft is not None
    return draft.reservation_id, state.ended_at is not None, draft.at


MODEL = Documents(
    "instances",
    "inst_",
    instance.State,
    facets=(
        "tenant_id text",
        "pool_id text",
        "project_id text",
        "state_name text",
        "node_id text",
        "image_id text",
    ),
    columns=("reservation_id text", "ended boolean", "created_at bigint"),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
