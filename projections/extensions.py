"""Extensions as lists show them."""

from typing import Any

from domain import extension
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE extensions (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    reservation_id text NOT NULL,
    state_name text NOT NULL,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX extensions_by_tenant ON extensions (tenant_id, created_at, id);
CREATE INDEX extensions_by_reservation ON extensions (reservation_id, created_at, id);
"""


def facets(state: extension.State) -> tuple[Any, ...]:
    assert state.draft is not None
    return state.draft.tenant_id, state.draft.reservation_id, state.status


def columns(state: extension.State) -> tuple[Any, ...]:
    assert state.draft is not None
    return (state.draft.at,)


MODEL = Documents(
    "extensions",
    "ext_",
    extension.State,
    facets=("tenant_id text", "reservation_id text", "state_name text"),
    columns=("created_at bigint",),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
