"""Nodes: list, get with its unschedulable reasons, inventory, spec, devices (domain.md §3)."""

from typing import Any, LiteralString

from msgspec import Struct

from domain import device, errors, inventory_diff, node, node_spec, node_view, provision
from domain import inventory as document
from domain.inventory import NodeInventory
from domain.operation import Answer, AsOf, Known, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters, one


class List(KnownListing, frozen=True, kw_only=True):
    pool_id: str | None = None
    site_id: str | None = None
    provision_state: provision.Provision | None = None
    connectivity: node.Connectivity | None = None
    schedulable: bool | None = None


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


ROWS = past.rows(
    "nodes",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)",
    wanted="""
    (%(pool_id)s::text IS NULL OR pool_id = %(pool_id)s) AND (%(site_id)s::text IS NULL OR site_id = %(site_id)s)
    AND (%(provision_state)s::text IS NULL OR provision_state = %(provision_state)s)
    AND (%(connectivity)s::text IS NULL OR connectivity = %(connectivity)s)
    AND (%(schedulable)s::boolean IS NULL OR schedulable = %(schedulable)s)
    """,
)


_SEEN: LiteralString = "SELECT inventory_at FROM node_sightings WHERE node_id = %s"


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), node_view.view, "compute-node")


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
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=(
            "id",
            "name",
            "provisionState",
            "connectivity",
            "schedulable",
            "why=unschedulableReasons.reason",
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
