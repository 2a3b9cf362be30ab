"""Reservations as lists show them, and when time next has to do with each."""

from typing import Any

from domain import reservation
from projections.documents import Model, encode
from projections.projection import Async

TABLES = """
CREATE TABLE reservations (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    pool_id text NOT NULL,
    project_id text,
    state_name text NOT NULL,
    starts_at bigint,
    ends_at bigint,
    due_at bigint,
    due_rank integer NOT NULL,
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    view bytea NOT NULL,
    state bytea NOT NULL
);
CREATE INDEX reservations_by_tenant ON reservations (tenant_id, created_at, id);
CREATE INDEX reservations_by_pool ON reservations (pool_id, created_at, id);
CREATE INDEX reservations_due ON reservations (due_at, due_rank, id) WHERE due_at IS NOT NULL;
"""

ENDS, STARTS = 0, 1
"""At one instant ends come before starts (domain.md §5)."""

DRAFT_MS = 15 * 60_000


def due(state: reservation.State) -> tuple[int | None, int]:
    """When something may be due next (epoch ms), and its rank within that instant."""
    match state.status:
        case "active":
            return state.ends_at, ENDS
        case "binding" if reservation.prepared(state):
            return state.since, ENDS
        case "binding":
            known = [instant for instant in (state.ends_at, state.fail_at) if instant is not None]
            return min(known, default=None), ENDS
        case "placed":
            return state.starts_at, STARTS
        case "pending":
            return state.give_up_at, ENDS
        case "draft":
            return state.since + DRAFT_MS, ENDS
        case _:
            return None, ENDS


def row(id: str, state: reservation.State, version: int) -> tuple[Any, ...]:
    draft = state.draft
    assert draft is not None
    return (
        id,
        draft.tenant_id,
        draft.pool_id,
        draft.project_id,
        state.status,
        state.starts_at,
        state.ends_at,
        *due(state),
        draft.at,
        version,
        encode(reservation.view(id, state, version)),
    )


MODEL = Model(
    "rsv_",
    reservation.State,
    "SELECT id, version, state FROM reservations WHERE id = ANY(%s)",
    """
    INSERT INTO reservations (id, tenant_id, pool_id, project_id, state_name, starts_at, ends_at, due_at, due_rank,
        created_at, version, view, state)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET
        state_name = excluded.state_name, starts_at = excluded.starts_at, ends_at = excluded.ends_at,
        due_at = excluded.due_at, due_rank = excluded.due_rank, version = excluded.version,
        view = excluded.view, state = excluded.state
    """,
    row,
)

PROJECTION = Async("reservations", TABLES, MODEL.apply, MODEL.shape)
