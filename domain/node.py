"""A node: a server or provider machine, as independent axes, each answering one question (domain.md §3)."""

from collections.abc import Mapping
from typing import Final, Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from domain import errors
from domain.device import Device
from domain.event import Event
from domain.inventory import NodeInventory
from domain.join_token import Role, Trust

Provision = Literal[
    "adopting",
    "adopted",
    "enrolling",
    "inspecting",
    "commissioning",
    "ready",
    "deploying",
    "deployed",
    "releasing",
    "rescue",
    "failed",
    "retiring",
    "retired",
]
Power = Literal["on", "off", "unknown"]
Connectivity = Literal["connected", "disconnected", "unreachable", "lost"]

MOVES: Final[Mapping[Provision, tuple[Provision, ...]]] = {
    "adopting": ("adopted", "failed", "retiring"),
    "adopted": ("retiring", "failed", "rescue"),
    "enrolling": ("inspecting", "failed", "retiring"),
    "inspecting": ("commissioning", "failed"),
    "commissioning": ("ready", "failed"),
    "ready": ("deploying", "inspecting", "retiring"),
    "deploying": ("deployed", "failed"),
    "deployed": ("releasing", "rescue", "failed", "retiring"),
    "releasing": ("ready", "failed"),
    "rescue": ("deployed", "adopted", "failed"),
    "failed": ("inspecting", "adopting", "enrolling", "releasing", "retiring"),
    "retiring": ("retired",),
    "retired": (),
}

BLOCKING: Final = frozenset(
    {"DuplicateHardware", "GpuModelUnknown", "GpuModelMismatch", "AcceptanceFailed", "PartitionPending"}
)
"""Conditions that put a reason of their name into noScheduleReasons; all others only inform."""


class Condition(Struct, frozen=True, rename="camel"):
    """Something observed of the node; `since` in epoch ms. `names` are what it is about, `message` is for people."""

    type: str
    reason: str
    message: str
    since: int
    status: Literal["true", "false", "unknown"] = "true"
    names: tuple[str, ...] = ()


class SpecAllocation(Struct, frozen=True, rename="camel"):
    """What the node must have prepared: the CDI devices of one allocation."""

    id: str
    reservation_id: str
    cdi_devices: tuple[str, ...]


class Joined(Event, frozen=True, tag="node.joined.1"):
    name: str
    site_id: str
    owner_tenant_id: str
    region: str
    role: Role
    trust: Trust
    public_key: str
    join_token_id: str
    labels: dict[str, str]
    at: int
    address: str | None = None
    admission_id: str | None = None


class Inventoried(Event, frozen=True, tag="node.inventoried.1"):
    """A new inventory snapshot; `model_table` is the version of gpu-models.json that named the GPUs.

    `shared_with` are the live nodes that already hold one of its identifiers.
    """

    inventory: NodeInventory
    hash: str
    fingerprint: str | None
    trusted: bool
    identifiers: tuple[str, ...]
    gpu_model: str | None
    gpu_count: int
    model_table: int
    shared_with: tuple[str, ...]
    at: int


class Assigned(Event, frozen=True, tag="node.assigned.1"):
    """The node now belongs to a pool (None: to none) in a role."""

    role: Role
    pool_id: str | None
    pool_owner_id: str | None
    former_pool_id: str | None = None


class DevicesChanged(Event, frozen=True, tag="node.devices_changed.1"):
    """What the inventory makes bookable under the pool's sharing; `layout` is its generation.

    `scalars` are what the node can sell: vcpu and memoryMiB after the pool's overcommit.
    """

    pool_id: str | None
    layout: int
    devices: tuple[Device, ...]
    scalars: dict[str, int]


class Moved(Event, frozen=True, tag="node.provision_moved.1"):
    provision: Provision
    reason: str
    at: int


class Cordoned(Event, frozen=True, tag="node.cordoned.1"):
    reason: str
    at: int


class Uncordoned(Event, frozen=True, tag="node.uncordoned.1"):
    at: int


class MaintenanceEntered(Event, frozen=True, tag="node.maintenance_entered.1"):
    reason: str
    at: int


class MaintenanceLeft(Event, frozen=True, tag="node.maintenance_left.1"):
    at: int


class ConnectivityChanged(Event, frozen=True, tag="node.connectivity_changed.1"):
    """`session` is the agent session's epoch: what an older session says is refused (api.md §4).

    `gateway` is the id of the gateway that holds the session; empty when none does.
    """

    connectivity: Connectivity
    session: int
    at: int
    gateway: str = ""


class ConditionRaised(Event, frozen=True, tag="node.condition_raised.1"):
    condition: Condition


class ConditionCleared(Event, frozen=True, tag="node.condition_cleared.1"):
    condition: str
    at: int


class SpecChanged(Event, frozen=True, tag="node.spec_changed.1"):
    """The next generation of the NodeSpec: allocations that came and went (domain.md §8)."""

    generation: int
    added: tuple[SpecAllocation, ...] = ()
    removed: tuple[str, ...] = ()


class SpecObserved(Event, frozen=True, tag="node.spec_observed.1"):
    generation: int


class Labelled(Event, frozen=True, tag="node.labelled.1"):
    labels: dict[str, str]


class Fenced(Event, frozen=True, tag="node.fenced.1"):
    """An operator's or driver's statement that the machine is off: its atoms are proved free."""

    reason: str
    at: int


class SchedulabilityChanged(Event, frozen=True, tag="node.schedulability_changed.1"):
    """The result of the axes: each reason why nothing is placed here, with since when (epoch ms)."""

    reasons: dict[str, int]


Events = (
    Joined
    | Inventoried
    | Assigned
    | DevicesChanged
    | Moved
    | Cordoned
    | Uncordoned
    | MaintenanceEntered
    | MaintenanceLeft
    | ConnectivityChanged
    | ConditionRaised
    | ConditionCleared
    | SpecChanged
    | SpecObserved
    | Labelled
    | Fenced
    | SchedulabilityChanged
)


class State(Struct, frozen=True, rename="camel"):
    name: str = ""
    site_id: str = ""
    owner_tenant_id: str = ""
    region: str = ""
    role: Role = "unassigned"
    trust: Trust = "platform"
    public_key: str = ""
    join_token_id: str = ""
    admission_id: str | None = None
    address: str | None = None
    labels: dict[str, str] = {}
    created_at: int = 0
    pool_id: str | None = None
    pool_owner_id: str | None = None
    provision_state: Provision = "adopting"
    maintenance: str | None = None
    cordoned: str | None = None
    power: Power = "unknown"
    connectivity: Connectivity = "disconnected"
    connectivity_since: int = 0
    session: int = 0
    conditions: tuple[Condition, ...] = ()
    inventory: NodeInventory | None = None
    inventory_hash: str | None = None
    inventory_at: int = 0
    fingerprint: str | None = None
    fingerprint_trusted: bool = False
    identifiers: tuple[str, ...] = ()
    gpu_model: str | None = None
    gpu_count: int = 0
    layout: int = 0
    devices: tuple[Device, ...] = ()
    scalars: dict[str, int] = {}
    generation: int = 0
    observed_generation: int = 0
    allocations: tuple[SpecAllocation, ...] = ()
    reasons: dict[str, int] = {}
    gateway: str = ""


def evolve(state: State, event: Events) -> State:
    match event:
        case Joined():
            return State(
                name=event.name,
                site_id=event.site_id,
                owner_tenant_id=event.owner_tenant_id,
                region=event.region,
                role=event.role,
                trust=event.trust,
                public_key=event.public_key,
                join_token_id=event.join_token_id,
                admission_id=event.admission_id,
                address=event.address,
                labels=event.labels,
                created_at=event.at,
            )
        case Inventoried():
            return replace(
                state,
                inventory=event.inventory,
                inventory_hash=event.hash,
                inventory_at=event.at,
                fingerprint=event.fingerprint,
                fingerprint_trusted=event.trusted,
                identifiers=event.identifiers,
                gpu_model=event.gpu_model,
                gpu_count=event.gpu_count,
            )
        case Assigned():
            return replace(state, role=event.role, pool_id=event.pool_id, pool_owner_id=event.pool_owner_id)
        case DevicesChanged():
            return replace(state, devices=event.devices, layout=event.layout, scalars=event.scalars)
        case Moved(provision=provision):
            return replace(state, provision_state=provision)
        case Cordoned(reason=reason):
            return replace(state, cordoned=reason)
        case Uncordoned():
            return replace(state, cordoned=None)
        case MaintenanceEntered(reason=reason):
            return replace(state, maintenance=reason)
        case MaintenanceLeft():
            return replace(state, maintenance=None)
        case ConnectivityChanged():
            spoke = event.connectivity == "connected" and state.power == "off"
            return replace(
                state,
                connectivity=event.connectivity,
                connectivity_since=event.at,
                session=event.session,
                gateway=event.gateway,
                power="unknown" if spoke else state.power,
            )
        case ConditionRaised(condition=condition):
            return replace(state, conditions=(*_without(state, condition.type), condition))
        case ConditionCleared(condition=condition_type):
            return replace(state, conditions=_without(state, condition_type))
        case SpecChanged():
            kept = tuple(a for a in state.allocations if a.id not in event.removed)
            return replace(state, generation=event.generation, allocations=(*kept, *event.added))
        case SpecObserved(generation=generation):
            return replace(state, observed_generation=generation)
        case Labelled(labels=labels):
            return replace(state, labels=labels)
        case Fenced():
            return replace(state, power="off")
        case SchedulabilityChanged(reasons=reasons):
            return replace(state, reasons=reasons)
        case _:
            assert_never(event)


def _without(state: State, condition_type: str) -> tuple[Condition, ...]:
    return tuple(c for c in state.conditions if c.type != condition_type)


def move(state: State, to: Provision, reason: str, now: int) -> Moved:
    """The legal next provision state, or a refusal that names the legal ones."""
    if to not in MOVES[state.provision_state]:
        raise errors.IllegalTransition(state.provision_state, f"a move to {to}", MOVES[state.provision_state])
    return Moved(to, reason, now)


def unschedulable(state: State) -> tuple[str, ...]:
    """Every reason why nothing may be placed here; none means schedulable (domain.md §3)."""
    trusted = state.trust == "platform" or (
        state.trust == "tenant-owned" and state.pool_owner_id == state.owner_tenant_id
    )
    checks = {
        "NotProvisioned": state.provision_state not in ("adopted", "deployed"),
        "NotHost": state.role != "host",
        "Maintenance": state.maintenance is not None,
        "Cordoned": state.cordoned is not None,
        "NotConnected": state.connectivity != "connected",
        "SpecNotObserved": state.observed_generation < 1,
        "NotTrusted": not trusted,
    }
    blocking = sorted(c.type for c in state.conditions if c.type in BLOCKING)
    return (*(name for name, holds in checks.items() if holds), *blocking)


def settle(state: State, events: list[Events], now: int) -> list[Events]:
    """Add the schedulability that follows from `events`, if it differs: events carry results."""
    after = state
    for event in events:
        after = evolve(after, event)
    reasons = {reason: after.reasons.get(reason, now) for reason in unschedulable(after)}
    if reasons == after.reasons and state.created_at:
        return events
    return [*events, SchedulabilityChanged(reasons)]
