"""A node: a server or provider machine, as independent axes, each answering one question (domain.md §3)."""

from typing import Literal

from msgspec import Struct, field

from domain import node_spec, provision
from domain.device import Device
from domain.event import Event
from domain.inventory import NodeInventory
from domain.join_token import Role, Trust
from domain.provision import Provision

Power = Literal["on", "off", "unknown"]
Connectivity = Literal["connected", "disconnected", "unreachable", "lost"]


class Condition(Struct, frozen=True, rename="camel"):
    """Something observed of the node; `since` in epoch ms. `names` are what it is about, `message` is for people."""

    type: str
    reason: str
    message: str
    since: int
    status: Literal["true", "false", "unknown"] = "true"
    names: tuple[str, ...] = ()


class Stay(Struct, frozen=True, rename="camel"):
    """One reason for which a node is in maintenance; `since` in epoch ms. `plan` is the planned one that it is of."""

    reason: str
    since: int
    plan: str | None = None


class Plan(Struct, frozen=True, rename="camel"):
    """Planned maintenance over `[from, until)` in epoch ms: its atoms are booked, as the allocation of this id."""

    id: str
    reason: str
    from_: int = field(name="from")
    until: int
    atoms: tuple[str, ...]


class Drain(Struct, frozen=True, rename="camel"):
    """A drain under way, or done: `drained_at` says since when nothing is booked here any more (epoch ms).

    At `deadline` what is still active is released.
    """

    reason: str
    since: int
    deadline: int | None = None
    forced: bool = False
    drained_at: int | None = None


class Queued(Struct, frozen=True, rename="camel"):
    """A command that this node has not settled yet."""

    id: str
    seq: int


class Joined(Event, frozen=True, tag="node.joined.1"):
    """A machine became a node. It begins as adopting: it runs already; `Enrolled` says that it does not."""

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


class Enrolled(Event, frozen=True, tag="node.enrolled.1"):
    """It has nothing installed: it will be inspected, commissioned and deployed."""

    at: int


class Rekeyed(Event, frozen=True, tag="node.rekeyed.1"):
    """The machine was installed anew and joined with a token made for this node: from now on this key is its own."""

    public_key: str
    former_key: str
    join_token_id: str
    at: int


class Booted(Event, frozen=True, tag="node.booted.1"):
    """The agent came with a boot id, or in a version, that the node did not have before."""

    boot_id: str
    agent_version: str
    at: int


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


class DuplicateSettled(Event, frozen=True, tag="node.duplicate_settled.1"):
    """An operator's statement that these nodes are other machines, whatever identifiers they share with this one."""

    nodes: tuple[str, ...]
    reason: str
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


class MaintenanceEntered(Event, frozen=True, tag="node.maintenance_entered.2"):
    reason: str
    at: int
    plan: str | None = None


class MaintenanceLeft(Event, frozen=True, tag="node.maintenance_left.2"):
    """These reasons are over, or what this plan brought alone; without either all are. `still`: others hold on."""

    at: int
    reasons: tuple[str, ...] = ()
    plan: str | None = None
    still: bool = False


class MaintenancePlanned(Event, frozen=True, tag="node.maintenance_planned.1"):
    """Its atoms are booked for it; a node without a pool has none."""

    pool_id: str | None
    owner_tenant_id: str
    plan: Plan


class PlanEnded(Event, frozen=True, tag="node.plan_ended.1"):
    """Planned maintenance is over, or was called off: what it booked is free from `at` on."""

    id: str
    at: int


class DrainStarted(Event, frozen=True, tag="node.drain_started.1"):
    """Nothing new is placed, what is placed goes elsewhere, what runs ends by itself or at `deadline`.

    `budget` is the share of the pool's nodes that may be disrupted at once; `forced` is beyond it.
    """

    reason: str
    at: int
    pool_id: str | None
    budget: float
    forced: bool = False
    deadline: int | None = None


class Drained(Event, frozen=True, tag="node.drained.1"):
    """Nothing is booked on it any more."""

    at: int


class DrainEnded(Event, frozen=True, tag="node.drain_ended.1"):
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
    """The next generation of the NodeSpec: allocations and instances that came and went (domain.md §8).

    An instance of `instances` takes the place of what was there under its id. With an allocation goes its instance.
    """

    generation: int
    added: tuple[node_spec.Allocation, ...] = ()
    removed: tuple[str, ...] = ()
    instances: tuple[node_spec.Instance, ...] = ()
    without: tuple[str, ...] = ()


class SpecShaped(Event, frozen=True, tag="node.spec_shaped.1"):
    """The next generation of the NodeSpec: how its GPUs are to be shared."""

    generation: int
    sharing: node_spec.Sharing


class SpecObserved(Event, frozen=True, tag="node.spec_observed.1"):
    generation: int


class SpecReported(Event, frozen=True, tag="node.spec_reported.1"):
    """What the node says of its NodeSpec: the generation that it has seen, and the status of each item."""

    generation: int
    items: dict[str, node_spec.Status]


class CommandQueued(Event, frozen=True, tag="node.command_queued.1"):
    """A command got the node's next number (domain.md §8)."""

    id: str
    seq: int


class CommandSettled(Event, frozen=True, tag="node.command_settled.1"):
    """A command reached its final state."""

    id: str


class Labelled(Event, frozen=True, tag="node.labelled.1"):
    labels: dict[str, str]


class Fenced(Event, frozen=True, tag="node.fenced.1"):
    """An operator's or driver's statement that the machine is off: its atoms are proved free."""

    reason: str
    at: int


class SchedulabilityChanged(Event, frozen=True, tag="node.schedulability_changed.1"):
    """The result of the axes: each reason why nothing is placed here, with since when (epoch ms)."""

    reasons: dict[str, int]


Identity = Joined | Enrolled | Rekeyed | Booted | Inventoried | DuplicateSettled | ConnectivityChanged
Service = (
    Assigned
    | Moved
    | Cordoned
    | Uncordoned
    | MaintenanceEntered
    | MaintenanceLeft
    | MaintenancePlanned
    | PlanEnded
    | DrainStarted
    | Drained
    | DrainEnded
    | Fenced
)
Desired = SpecChanged | SpecShaped | SpecObserved | SpecReported | CommandQueued | CommandSettled
Found = DevicesChanged | ConditionRaised | ConditionCleared | Labelled | SchedulabilityChanged
Events = Identity | Service | Desired | Found


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
    provision_since: int = 0
    maintenance: tuple[Stay, ...] = ()
    plans: tuple[Plan, ...] = ()
    cordoned: str | None = None
    cordoned_since: int | None = None
    drain: Drain | None = None
    power: Power = "unknown"
    power_since: int = 0
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
    expected_gpus: int = 0
    """As many as it has had at once since it was assigned."""
    layout: int = 0
    devices: tuple[Device, ...] = ()
    scalars: dict[str, int] = {}
    generation: int = 0
    observed_generation: int = 0
    allocations: tuple[node_spec.Allocation, ...] = ()
    instances: tuple[node_spec.Instance, ...] = ()
    sharing: node_spec.Sharing = node_spec.Sharing()
    items: dict[str, node_spec.Status] = {}
    command_seq: int = 0
    commands: tuple[Queued, ...] = ()
    boot_id: str | None = None
    agent_version: str | None = None
    settled: tuple[str, ...] = ()
    reasons: dict[str, int] = {}
    gateway: str = ""


def move(state: State, to: Provision, reason: str, now: int) -> Moved:
    """The legal next provision state, or a refusal that names the legal ones."""
    provision.check(state.provision_state, to)
    return Moved(to, reason, now)
