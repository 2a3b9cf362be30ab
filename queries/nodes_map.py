"""All nodes at a glance: a short row for each (domain.md §3)."""

from typing import Annotated, Final, Literal, LiteralString

from msgspec import Meta, Struct

from domain import errors, node, provision
from domain.join_token import Role
from domain.operation import Answer, Operation, Page
from queries import nodes, past
from queries.reading import Reader, filters

MOST: Final = 20_000
"""Rows of one answer, some 5 MB."""


class Map(nodes.Filtered, frozen=True, kw_only=True):
    """Retired nodes are left out, unless `provisionState`, `retired` or `after` is asked for."""

    limit: Annotated[int, Meta(ge=1, le=MOST, description="rows an answer")] = MOST
    after: Annotated[int, Meta(ge=0, le=2**53, description="nodes that changed after this position")] | None = None


class Standing(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where a node is and how it stands; `drain` is absent where there is none.

    `reasons` are why nothing is placed on it, `conditions` what was observed of it; both with since when (epoch ms).
    """

    site_id: str
    role: Role
    provision_state: provision.Provision
    connectivity: node.Connectivity
    pool_id: str | None = None
    drain: Literal["draining", "drained"] | None = None
    reasons: dict[str, int] = {}
    conditions: dict[str, int] = {}


class Cell(Standing, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`rack` is the value of that label, absent where the node has none."""

    id: str
    name: str
    rack: str | None = None


STANDING: Final[LiteralString] = """
'siteId', site_id, 'poolId', pool_id, 'role', role, 'provisionState', provision_state, 'connectivity', connectivity,
'drain', drain, 'reasons', nullif(reasons, '{}'), 'conditions', nullif(conditions, '{}')
"""
_CELL: LiteralString = (
    "convert_to(jsonb_strip_nulls(jsonb_build_object('id', walked.id, 'name', walked.name, 'rack', rack, "
    + STANDING
    + "))::text, 'UTF8')"
)
NOW: Final[LiteralString] = "FROM nodes AS walked WHERE " + nodes.MINE + " AND " + nodes.WANTED
THEN: Final[LiteralString] = (
    "FROM (SELECT id, name FROM nodes WHERE "
    + nodes.MINE
    + ") AS walked CROSS JOIN LATERAL "
    + past.version_of("nodes")
    + " WHERE "
    + nodes.WANTED
)
_SHOWN: LiteralString = """
AND (provision_state <> 'retired' OR %(provision_state)s::text IS NOT NULL OR %(after)s::bigint IS NOT NULL
     OR %(retired)s::boolean IS NOT NULL)
AND (%(after)s::bigint IS NULL OR """
ROWS: Final = past.Rows(
    "SELECT created_at, walked.id, version, " + _CELL + NOW + _SHOWN + "since > %(after)s)",
    "SELECT walked.id, " + _CELL + THEN + _SHOWN + "from_position > %(after)s)",
)


def map_(query: Map, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), None, "compute-node")


OPERATIONS = (
    Operation(
        name="nodes.map",
        verb="GET",
        path="/v1/nodes/map",
        request=Map,
        response=Page[Cell],
        on=("compute-tenant/{acting}",),
        handle=map_,
        summary="List all nodes at a glance: a short row for each, up to 20,000 in one answer",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "name", "rack", "provisionState", "connectivity", "drain", "reasons"),
    ),
)
