"""Projects as lists show them."""

from typing import Any

from domain import project
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE projects (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    archived boolean NOT NULL,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX projects_by_tenant ON projects (tenant_id, created_at, id);
"""


def facets(state: project.State) -> tuple[Any, ...]:
    return state.owner_tenant_id, state.archived_at is not None


def columns(state: project.State) -> tuple[Any, ...]:
    return (state.created_at,)


MODEL = Documents(
    "projects",
    "prj_",
    project.State,
    facets=("tenant_id text", "archived boolean"),
    columns=("created_at bigint",),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
