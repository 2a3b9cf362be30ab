"""Nodes: list, get with its unschedulable reasons, inventory, spec, devices (domain.md §3)."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, LiteralString

import msgspec
from msgspec import Meta, Struct

from domain import device, errors, inventory_diff, node, node_spec, node_view, provision
from domain import inventory as document
from domain.inventory import NodeInventory
from domain.join_token import Role
from domain.operation import Answer, AsOf, Known, KnownListing, Operation, Page
from queries import past, reading
from queries.reading import Reader, Row, filters, one
from queries.sight import Through

Rack = Annotated[str, Meta(max_length=255, description="the value of the label `rack`")]
Reason = Annotated[str, Meta(max_length=64, description="nodes on which nothing is placed for this reason")]
Condition = Annotated[str, Meta(max_length=64, description="nodes that have this condition")]
Sort = Literal["age", "name", "changed"]
Text = Annotated[str, Meta(max_length=128, description="part of the name, or of a label's value")]
Drain = Annotated[Literal["none", "draining", "drained"], Meta(description="none: nodes without a drain")]


class Filtered(KnownListing, frozen=True, kw_only=True):
    role: Role | None = None
    power: node.Power | None = None
    gpu_model: Annotated[str, Meta(max_length=64)] | None = None
    text: Text | None = None
    retired: bool | None = None
    pool_id: str | None = None
    site_id: str | None = None
    rack: Rack | None = None
    provision_state: provision.Provision | None = None
    connectivity: node.Connectivity | None = None
    schedulable: bool | None = None
    drain: Drain | None = None
    reason: Reason | None = None
    condition: Condition | None = None


class List(Filtered, frozen=True, kw_only=True):
    sort: Annotated[Sort, Meta(description="changed: by the last change of a field that lists filter by")] = "age"


class Get(Known, frozen=True, kw_only=True):
    id: str


class Inventory(Get, frozen=True, kw_only=True):
    diff: AsOf | None = None


class Snapshot(Struct, frozen=True, kw_only=True, rename="camel"):
    """The node's latest inventory, the hash of each section, and the hash over those (SHA-256).

    `changes` is what differs from the inventory at `diff`; null when no `diff` is asked for. `last_seen_at` is when the
    node last reported, changed or not (epoch ms); it is not in the log, so null for an earlier time.
    """

    node_id: str
    hash: str | None
    sections: dict[str, str]
    taken_at: int
    last_seen_at: int | None
    inventory: NodeInventory | None
    changes: tuple[inventory_diff.Change, ...] | None


class Spec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the node shall look like, how far it got, and what it says of each allocation."""

    node_id: str
    generation: int
    observed_generation: int
    sharing: node_spec.Sharing
    allocations: tuple[node_spec.Allocation, ...]
    instances: tuple[node_spec.Instance, ...]
    status: dict[str, node_spec.Status]


class Devices(Struct, frozen=True, kw_only=True, rename="camel"):
    """Devices of a node under the layout of this generation; only bookable ones are atoms."""

    node_id: str
    layout: int
    items: tuple[device.Device, ...]


MINE: LiteralString = "(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)"
WANTED: LiteralString = """
    (%(role)s::text IS NULL OR role = %(role)s) AND (%(power)s::text IS NULL OR power = %(power)s)
    AND (%(gpu_model)s::text IS NULL OR gpu_model = %(gpu_model)s)
    AND (%(retired)s::boolean IS NULL OR (provision_state = 'retired') = %(retired)s)
    AND (%(text)s::text IS NULL OR position(lower(%(text)s) IN words) > 0) AND
    (%(pool_id)s::text IS NULL OR pool_id = %(pool_id)s) AND (%(site_id)s::text IS NULL OR site_id = %(site_id)s)
    AND (%(provision_state)s::text IS NULL OR provision_state = %(provision_state)s)
    AND (%(connectivity)s::text IS NULL OR connectivity = %(connectivity)s)
    AND (%(schedulable)s::boolean IS NULL OR schedulable = %(schedulable)s)
    AND (%(rack)s::text IS NULL OR rack = %(rack)s) AND (%(drain)s::text IS NULL OR coalesce(drain, 'none') = %(drain)s)
    AND (%(reason)s::text IS NULL OR reasons ? %(reason)s::text)
    AND (%(condition)s::text IS NULL OR conditions ? %(condition)s::text)
"""
ROWS = past.rows("nodes", mine=MINE, wanted=WANTED)

_SORTED: Final[Mapping[Sort, LiteralString]] = {
    "age": "created_at, id",
    "name": "0::bigint, (name || ' ' || id) COLLATE \"C\"",
    "changed": "since, id",
}
"""A row's place, and what comes next in the order, which ends with the node's id."""

_BY_ID: Final = Through("compute-node", thing="substring(listed.id from '[^ ]+$')")

_SEEN: LiteralString = "SELECT inventory_at FROM node_sightings WHERE node_id = %s"


def list_(query: List, read: Reader) -> Answer:
    wanted = filters(query, read)
    if query.sort == "age":
        return past.listed(read, query, ROWS, wanted, node_view.view, "compute-node")
    if query.as_of is not None:
        raise errors.Invalid("sort", "lists of the past go by id; leave it out")
    sql = ROWS.now.replace(_SORTED["age"], _SORTED[query.sort], 1)
    return reading.listed(read, query, sql, wanted, _BY_ID, _shown, f" {query.sort}")


def _shown(row: Row) -> Row:
    at, place, version, kept = row
    state = msgspec.json.decode(kept, type=node.State)
    return at, place, version, msgspec.json.encode(node_view.view(place.rpartition(" ")[2], state, version))


def get(query: Get, read: Reader) -> Answer:
    return one(read, query.id, node_view.view)


def inventory(query: Inventory, read: Reader) -> Answer:
    """Before it joined a node had no inventory: then all is new."""
    before = None if read.earlier is None else read.load_as_of(query.id, read.earlier).state
    seen = None if read.as_of is not None else read.connection.execute(_SEEN, (query.id,), prepare=True).fetchone()

    def view(id: str, state: node.State, version: int) -> Snapshot:
        found = state.inventory
        return Snapshot(
            node_id=id,
            hash=state.inventory_hash,
            sections=document.section_hashes(found) if found else {},
            taken_at=state.inventory_at,
            last_seen_at=seen[0] if seen else None,
            inventory=found,
            changes=None if before is None else inventory_diff.changes(before.inventory, found),
        )

    return one(read, query.id, view)


def spec(query: Get, read: Reader) -> Answer:
    def view(id: str, state: node.State, version: int) -> Spec:
        return Spec(
            node_id=id,
            generation=state.generation,
            observed_generation=state.observed_generation,
            sharing=state.sharing,
            allocations=state.allocations,
            instances=state.instances,
            status=state.items,
        )

    return one(read, query.id, view)


def devices(query: Get, read: Reader) -> Answer:
    def view(id: str, state: node.State, version: int) -> Devices:
        return Devices(node_id=id, layout=state.layout, items=state.devices)

    return one(read, query.id, view)


def _declare(name: str, below: str, response: Any, handle: Any, summary: str, request: type[Get] = Get) -> Operation:
    return Operation(
        name=name,
        verb="GET",
        path=f"/v1/nodes/{{id}}{below}",
        request=request,
        response=response,
        on=("compute-node/{id}",),
        handle=handle,
        summary=summary,
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    )


OPERATIONS = (
    Operation(
        name="nodes.list",
        verb="GET",
        path="/v1/nodes",
        request=List,
        response=Page[node_view.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List nodes",
        example={"schedulable": False},
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=(
            "id",
            "name",
            "schedulable",
            "why=unschedulableReasons.reason",
            "provisionState",
            "connectivity",
            "gpuModel",
            "gpuCount",
            "poolId",
        ),
    ),
    _declare("nodes.get", "", node_view.View, get, "Show a node and why nothing is placed on it"),
    _declare(
        "nodes.inventory",
        "/inventory",
        Snapshot,
        inventory,
        "Show a node's latest inventory, and what differs from an earlier one",
        Inventory,
    ),
    _declare("nodes.spec", "/spec", Spec, spec, "Show a node's desired state and how far it got"),
    _declare("nodes.devices", "/devices", Devices, devices, "Show a node's devices"),
)
