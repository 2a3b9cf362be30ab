"""Sites as lists show them."""

from typing import Any

from domain import site
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE sites (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    kind text NOT NULL,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX sites_by_tenant ON sites (tenant_id, created_at, id);
"""


def facets(state: site.State) -> tuple[Any, ...]:
    return state.owner_tenant_id, state.kind


def columns(state: site.State) -> tuple[Any, ...]:
    return (state.created_at,)


MODEL = Documents(
    "sites",
    "site_",
    site.State,
    facets=("tenant_id text", "kind text"),
    columns=("created_at bigint",),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
