"""Commands as lists show them, and when time has something to do with one."""

from typing import Any

from domain import node_command
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE node_commands (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    node_id text NOT NULL,
    name text NOT NULL,
    status text NOT NULL,
    due_at bigint,
    created_at bigint NOT NULL,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX node_commands_by_tenant ON node_commands (tenant_id, created_at, id);
CREATE INDEX node_commands_by_node ON node_commands (node_id, created_at, id);
CREATE INDEX node_commands_due ON node_commands (due_at) WHERE due_at IS NOT NULL;
"""


def facets(state: node_command.State) -> tuple[Any, ...]:
    return state.owner_tenant_id, state.node_id, state.name, state.status


def columns(state: node_command.State) -> tuple[Any, ...]:
    return node_command.due_at(state), state.created_at


MODEL = Documents(
    "node_commands",
    "cmd_",
    node_command.State,
    facets=("tenant_id text", "node_id text", "name text", "status text"),
    columns=("due_at bigint", "created_at bigint"),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
