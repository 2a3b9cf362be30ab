"""Offerings as a pool's owner lists them."""

from typing import Any

from domain import offering
from projections.documents import Model, encode
from projections.projection import Async

TABLES = """
CREATE TABLE offerings (
    id text PRIMARY KEY,
    pool_id text NOT NULL,
    tenant_id text NOT NULL,
    withdrawn boolean NOT NULL,
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    view bytea NOT NULL,
    state bytea NOT NULL
);
CREATE INDEX offerings_by_pool ON offerings (pool_id, created_at, id);
"""


def row(id: str, state: offering.State, version: int) -> tuple[Any, ...]:
    shown = encode(offering.view(id, state, version))
    return (id, state.pool_id, state.tenant_id, state.withdrawn, state.created_at, version, shown)


MODEL = Model(
    "poff_",
    offering.State,
    "SELECT id, version, state FROM offerings WHERE id = ANY(%s)",
    """
    INSERT INTO offerings (id, pool_id, tenant_id, withdrawn, created_at, version, view, state)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET
        withdrawn = excluded.withdrawn, version = excluded.version, view = excluded.view, state = excluded.state
    """,
    row,
)

PROJECTION = Async("offerings", TABLES, MODEL.apply, MODEL.shape)
