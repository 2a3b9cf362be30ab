"""Reservations as lists show them, and when each next needs attention."""

from typing import Any

from domain import reservation, reservation_life, reservation_terms
from projections.documents import KEEPING, Documents

_OVER = ", ".join(f"'{state}'" for state in sorted(reservation_life.FINAL))

TABLES = f"""
CREATE TABLE reservations (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    pool_id text NOT NULL,
    project_id text,
    state_name text NOT NULL,
    starts_at bigint,
    ends_at bigint,
    due_at bigint,
    due_rank smallint NOT NULL,
    lacking integer NOT NULL,
    leaves text,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX reservations_by_tenant ON reservations (tenant_id, created_at, id);
CREATE INDEX reservations_by_id ON reservations (tenant_id, id);
CREATE INDEX reservations_by_age ON reservations (created_at, id);
CREATE INDEX reservations_by_pool ON reservations (pool_id, created_at, id);
CREATE INDEX reservations_going_on ON reservations (state_name, created_at, id) WHERE state_name NOT IN ({_OVER});
CREATE INDEX reservations_due ON reservations (due_rank, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX reservations_lacking ON reservations (pool_id, id) WHERE lacking > 0;
CREATE INDEX reservations_leaving ON reservations (id) WHERE leaves IS NOT NULL;
"""


ENDS, STARTS = 0, 1
"""At one instant ends come before starts (domain.md §5)."""


def due(state: reservation.State) -> tuple[int | None, int]:
    """When something may be due next (epoch ms), and its rank within that instant."""
    match state.status:
        case "active":
            instants = (
                state.ends_at,
                reservation_terms.notice_at(state),
                reservation_terms.lapses_at(state),
                *state.prepare_by.values(),
            )
            return min((instant for instant in instants if instant is not None), default=None), ENDS
        case "awaiting-confirmation":
            return state.awaits.until if state.awaits else None, ENDS
        case "binding" if reservation_life.prepared(state):
            return state.since, ENDS
        case "binding":
            known = [instant for instant in (state.ends_at, state.fail_at) if instant is not None]
            return min(known, default=None), ENDS
        case "placed":
            return state.starts_at, STARTS
        case "pending":
            return state.give_up_at, ENDS
        case "draft":
            return state.since + reservation_terms.DRAFT_MS, ENDS
        case _:
            return None, ENDS


def facets(state: reservation.State) -> tuple[Any, ...]:
    draft = state.draft
    assert draft is not None
    return draft.tenant_id, draft.pool_id, draft.project_id, state.status


def columns(state: reservation.State) -> tuple[Any, ...]:
    """`leaves` is the instance that does not know yet that its reservation has ended."""
    assert state.draft is not None
    leaves = state.instance_id if state.status in reservation_life.FINAL else None
    return state.starts_at, state.ends_at, *due(state), reservation_life.lacking(state), leaves, state.draft.at


MODEL = Documents(
    "reservations",
    "rsv_",
    reservation.State,
    facets=("tenant_id text", "pool_id text", "project_id text", "state_name text"),
    columns=(
        "starts_at bigint",
        "ends_at bigint",
        "due_at bigint",
        "due_rank bigint",
        "lacking bigint",
        "leaves text",
        "created_at bigint",
    ),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
