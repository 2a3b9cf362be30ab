"""Join tokens as lists show them, without their secrets."""

from typing import Any

from domain import join_token
from projections.documents import Model, encode
from projections.projection import Async

TABLES = """
CREATE TABLE join_tokens (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    site_id text NOT NULL,
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    view bytea NOT NULL,
    state bytea NOT NULL
);
CREATE INDEX join_tokens_by_tenant ON join_tokens (tenant_id, created_at, id);
"""


def row(id: str, state: join_token.State, version: int) -> tuple[Any, ...]:
    shown = encode(join_token.view(id, state, version))
    return (id, state.tenant_id, state.site_id, state.created_at, version, shown)


MODEL = Model(
    "jt_",
    join_token.State,
    "SELECT id, version, state FROM join_tokens WHERE id = ANY(%s)",
    """
    INSERT INTO join_tokens (id, tenant_id, site_id, created_at, version, view, state)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET
        version = excluded.version, view = excluded.view, state = excluded.state
    """,
    row,
)

PROJECTION = Async("join_tokens", TABLES, MODEL.apply, MODEL.shape)
