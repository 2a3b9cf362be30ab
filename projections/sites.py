"""Sites as lists show them."""

from typing import Any

from domain import site
from projections.documents import Model, encode
from projections.projection import Async

TABLES = """
CREATE TABLE sites (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    view bytea NOT NULL,
    state bytea NOT NULL
);
CREATE INDEX sites_by_tenant ON sites (tenant_id, created_at, id);
"""


def row(id: str, state: site.State, version: int) -> tuple[Any, ...]:
    shown = encode(site.view(id, state, version))
    return (id, state.owner_tenant_id, state.name, state.kind, state.created_at, version, shown)


MODEL = Model(
    "site_",
    site.State,
    "SELECT id, version, state FROM sites WHERE id = ANY(%s)",
    """
    INSERT INTO sites (id, tenant_id, name, kind, created_at, version, view, state)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, version = excluded.version, view = excluded.view, state = excluded.state
    """,
    row,
)

PROJECTION = Async("sites", TABLES, MODEL.apply, MODEL.shape)
