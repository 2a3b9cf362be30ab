"""Commands to the caller's nodes, and what types of them there are (domain.md §8)."""

from typing import Any

import msgspec
from msgspec import Struct

from domain import errors, ids, node_command
from domain.operation import Answer, Known, KnownListing, Operation, Page, Reading
from queries import past
from queries.reading import Reader, filters, one
from queries.sight import Through


class List(KnownListing, frozen=True, kw_only=True):
    node_id: str | None = None
    name: node_command.Name | None = None
    status: node_command.Status | None = None


class Get(Known, frozen=True, kw_only=True):
    id: str


class ShownType(Struct, frozen=True, kw_only=True, rename="camel"):
    """A command type: its flags, and `params` as a JSON Schema."""

    name: node_command.Name
    summary: str
    flags: node_command.Flags
    timeout_seconds: int
    params: dict[str, Any]


class Types(Struct, frozen=True):
    items: tuple[ShownType, ...]


ROWS = past.rows(
    "node_commands",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)",
    wanted="""
    (%(node_id)s::text IS NULL OR node_id = %(node_id)s) AND (%(name)s::text IS NULL OR name = %(name)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
    """,
)


SEEN = Through(
    "compute-node",
    thing="given.node_id",
    joined="LEFT JOIN node_commands AS given ON given.id = listed.id",
)
"""Whoever sees a node sees its commands."""


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), node_command.view, SEEN)


def get(query: Get, read: Reader) -> Answer:
    """A command is seen by whoever may see its node."""
    known = read.load(ids.parse("cmd", query.id))
    of = read.resolve("compute-node", known.state.node_id) if known.version else None
    if of is None:
        raise read.unseen("command", query.id, "id")
    read.decide(of)
    return one(read, query.id, node_command.view)


def types(query: Reading, read: Reader) -> Answer:
    return Answer(body=Types(tuple(_shown(of) for of in node_command.TYPES.values())))


def _shown(of: node_command.Type) -> ShownType:
    (schema,), _ = msgspec.json.schema_components([node_command.params(of.name)])
    whole = msgspec.json.schema(node_command.params(of.name))
    params = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    return ShownType(
        name=of.name, summary=of.summary, flags=of.flags, timeout_seconds=of.timeout_seconds, params=params
    )


OPERATIONS = (
    Operation(
        name="commands.list",
        verb="GET",
        path="/v1/commands",
        request=List,
        response=Page[node_command.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List commands to your nodes",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "nodeId", "seq", "name", "status", "reason", "createdAt"),
    ),
    Operation(
        name="commands.get",
        verb="GET",
        path="/v1/commands/{id}",
        request=Get,
        response=node_command.View,
        on=("compute-node/{nodeId}",),
        decided_inside=True,
        handle=get,
        summary="Show a command and its result",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
    Operation(
        name="commands.types",
        verb="GET",
        path="/v1/command-types",
        request=Reading,
        response=Types,
        on=("compute-tenant/{acting}",),
        handle=types,
        summary="List the types of commands and their parameters",
        refusals=(errors.AccessDenied,),
        columns=("name", "summary", "timeoutSeconds"),
    ),
)
