"""Join tokens as lists show them, without their secrets."""

from typing import Any

from domain import join_token
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE join_tokens (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    site_id text NOT NULL,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX join_tokens_by_tenant ON join_tokens (tenant_id, created_at, id);
"""


def facets(state: join_token.State) -> tuple[Any, ...]:
    return state.tenant_id, state.site_id


def columns(state: join_token.State) -> tuple[Any, ...]:
    return (state.created_at,)


MODEL = Documents(
    "join_tokens",
    "jt_",
    join_token.State,
    facets=("tenant_id text", "site_id text"),
    columns=("created_at bigint",),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
