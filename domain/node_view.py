"""A node as its owner sees it (domain.md §3)."""

from msgspec import Struct
from msgspec.structs import replace

from domain import node, provision
from domain.join_token import Role, Trust


class Reason(Struct, frozen=True, rename="camel"):
    """Why nothing is placed on the node, and since when (epoch ms)."""

    reason: str
    since: int


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """The axes, each answering one question.

    `cordoned` is its reason, null when it is not; `maintenance` has every reason with since when, none when not so;
    `commands` are those that are not settled yet; `session` is the epoch of its agent's latest session.
    """

    id: str
    name: str
    site_id: str
    pool_id: str | None
    owner_tenant_id: str
    region: str
    role: Role
    trust: Trust
    provision_state: provision.Provision
    provision_since: int
    maintenance: tuple[node.Stay, ...]
    planned_maintenance: tuple[node.Plan, ...]
    cordoned: str | None
    cordoned_since: int | None
    drain: node.Drain | None
    power: node.Power
    power_since: int
    connectivity: node.Connectivity
    connectivity_since: int
    session: int
    conditions: tuple[node.Condition, ...]
    schedulable: bool
    unschedulable_reasons: tuple[Reason, ...]
    labels: dict[str, str]
    address: str | None
    gpu_model: str | None
    gpu_count: int
    inventory_hash: str | None
    inventory_at: int
    fingerprint: str | None
    fingerprint_trusted: bool
    generation: int
    observed_generation: int
    layout: int
    boot_id: str | None
    agent_version: str | None
    commands: tuple[str, ...]
    created_at: int
    version: int


def shown(condition: node.Condition) -> node.Condition:
    """Of the twins only those that the message names: others are another tenant's (domain.md §10)."""
    if condition.type != "DuplicateHardware":
        return condition
    said = condition.message.split(", ")
    return replace(condition, names=tuple(name for name in condition.names if name in said))


def view(id: str, state: node.State, version: int) -> View:
    reasons = tuple(Reason(reason, since) for reason, since in sorted(state.reasons.items()))
    return View(
        id=id,
        name=state.name,
        site_id=state.site_id,
        pool_id=state.pool_id,
        owner_tenant_id=state.owner_tenant_id,
        region=state.region,
        role=state.role,
        trust=state.trust,
        provision_state=state.provision_state,
        provision_since=state.provision_since,
        maintenance=state.maintenance,
        planned_maintenance=state.plans,
        cordoned=state.cordoned,
        cordoned_since=state.cordoned_since,
        drain=state.drain,
        power=state.power,
        power_since=state.power_since,
        connectivity=state.connectivity,
        connectivity_since=state.connectivity_since,
        session=state.session,
        conditions=tuple(shown(condition) for condition in state.conditions),
        schedulable=not reasons,
        unschedulable_reasons=reasons,
        labels=state.labels,
        address=state.address,
        gpu_model=state.gpu_model,
        gpu_count=state.gpu_count,
        inventory_hash=state.inventory_hash,
        inventory_at=state.inventory_at,
        fingerprint=state.fingerprint,
        fingerprint_trusted=state.fingerprint_trusted,
        generation=state.generation,
        observed_generation=state.observed_generation,
        layout=state.layout,
        boot_id=state.boot_id,
        agent_version=state.agent_version,
        commands=tuple(queued.id for queued in state.commands),
        created_at=state.created_at,
        version=version,
    )
