"""Pools: create, change, retire (domain.md §2)."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Final, get_args

from msgspec import UNSET, Meta, UnsetType

from commands import hardware
from commands.ports import Loaded
from commands.unit import Outcome, Unit, changed
from domain import errors, gpu, ids, mig, node_command, pool, registry, schedulability, site
from domain.event import Change
from domain.operation import Operation, Request


class Create(Request, frozen=True, kw_only=True):
    """All but name and policy is fixed for ever, so that no attribute of the pool goes stale."""

    name: Annotated[str, Meta(max_length=63)]
    site_id: str
    class_: Annotated[pool.Class, Meta(description="how its machines are run")]
    gpu_model: Annotated[str, Meta(max_length=64, description="one GPU family, as H100")]
    gpu_memory_gb: Annotated[int, Meta(ge=1, le=4096)]
    sharing: pool.Sharing = "exclusive"
    agent: pool.Agent = "bcd"
    provider_account_id: str | None = None
    policy: pool.Policy = pool.Policy()


SHORTEST_LOST_AFTER: Final = 10
"""Seconds: whoever declares a node lost must have looked several times in a quarter of it (domain.md §5)."""

_PLAIN: Final = pool.Policy()
_NOT_BUILT: Final = {
    "hardwareProfile": attrgetter("hardware_profile"),
    "tenantRoot": attrgetter("tenant_root"),
}
"""Fields of the policy that nothing acts on yet (decision 7); `tenantRoot` waits for binding node."""


class Update(Request, frozen=True, kw_only=True):
    id: str
    name: Annotated[str, Meta(max_length=63)] | UnsetType = UNSET
    policy: pool.Policy | UnsetType = UNSET


class Retire(Request, frozen=True, kw_only=True):
    id: str


def create(command: Create, unit: Unit) -> Outcome:
    place = unit.resolve("compute-site", command.site_id, "siteId")
    state: site.State = unit.existing(place.id, "siteId").state
    event = build(command, state, unit.now)
    if command.provider_account_id is not None:
        unit.resolve("compute-provider-account", command.provider_account_id, "providerAccountId")
    return Outcome((Change(unit.new_id("pool"), 0, (event,)),))


def build(command: Create, place: site.State, now: int) -> pool.Created:
    """A pool belongs to its site's owner and lies in its region."""
    ids.name(command.name)
    if command.gpu_model not in gpu.families():
        raise errors.Invalid("gpuModel", f"no such family; known: {', '.join(sorted(gpu.families()))}")
    if command.agent == "none" and command.class_ != "provider":
        raise errors.Invalid("agent", "only pools of class provider can do without the agent: use bcd")
    if (command.class_ == "provider") != (command.provider_account_id is not None):
        raise errors.Invalid("providerAccountId", "class provider needs it, no other class takes it")
    check_policy(command.policy, command.sharing, command.gpu_model, command.gpu_memory_gb)
    return pool.Created(
        name=command.name,
        site_id=command.site_id,
        owner_tenant_id=place.owner_tenant_id,
        region=place.iam_region,
        class_=command.class_,
        gpu_model=command.gpu_model,
        gpu_memory_gb=command.gpu_memory_gb,
        sharing=command.sharing,
        agent=command.agent,
        policy=command.policy,
        at=now,
        provider_account_id=command.provider_account_id,
    )


def check_policy(policy: pool.Policy, sharing: pool.Sharing, gpu_model: str, memory_gb: int) -> None:
    for name, of in _NOT_BUILT.items():
        if of(policy) != of(_PLAIN):
            raise errors.Invalid(f"policy.{name}", "is not built yet: leave it out")
    checks = get_args(node_command.Check)
    for index, name in enumerate(policy.acceptance):
        if name not in checks:
            raise errors.Invalid(f"policy.acceptance[{index}]", f"no such check; known: {', '.join(checks)}")
    if policy.lost_after < SHORTEST_LOST_AFTER:
        raise errors.Invalid("policy.lostAfter", f"expected at least {SHORTEST_LOST_AFTER} seconds")
    if (sharing == "mig") != (policy.mig_layout is not None):
        raise errors.Invalid("policy.migLayout", "sharing mig needs a layout, no other sharing takes one")
    if (sharing in ("timeslice", "mps")) != (policy.sharing is not None):
        raise errors.Invalid("policy.sharing.replicas", "timeslice and mps need 2 to 64 slots per GPU, no other")
    if policy.mig_layout is not None:
        try:
            mig.check_layout(gpu_model, memory_gb, policy.mig_layout)
        except mig.IllegalLayout as illegal:
            raise errors.Invalid(f"policy.migLayout[{illegal.index}]", illegal.message) from illegal


def owned(unit: Unit, pool_id: str, field: str = "id") -> Loaded:
    """A pool resolves wherever it is offered; only its owner's tenant runs it (domain.md §10)."""
    loaded = unit.existing(pool_id, field)
    unit.only_owner(loaded.state.owner_tenant_id, f"compute-pool/{pool_id}")
    return loaded


def update(command: Update, unit: Unit) -> Outcome:
    """A pool that is cut up anew takes its nodes along in the same append."""
    loaded = owned(unit, command.id)
    nodes = unit.ports.store.nodes_of(command.id)
    events = change(command, loaded.state, nodes)
    after = registry.fold(command.id, events, loaded.state)
    cut = [] if pool.cut(after.policy) == pool.cut(loaded.state.policy) else _cut_up(nodes, after, unit)
    return Outcome((changed(command.id, loaded, events), *cut))


def _cut_up(nodes: Sequence[str], of: pool.State, unit: Unit) -> list[Change]:
    loaded = {node_id: unit.load(node_id) for node_id in nodes}
    if planned := sorted(node_id for node_id, here in loaded.items() if here.state.plans):
        raise errors.Conflict(
            f"planned maintenance has the slices booked: call it off first on {', '.join(planned)}",
            extra={"nodes": tuple(planned)},
        )
    return [
        changed(
            node_id,
            here,
            schedulability.settle(here.state, hardware.repartition(node_id, here.state, of, unit.now), unit.now),
        )
        for node_id, here in loaded.items()
    ]


def change(command: Update, state: pool.State, nodes: Sequence[str]) -> list[pool.Events]:
    if state.retired:
        raise errors.IllegalTransition("retired", "an update", ())
    events: list[pool.Events] = []
    if command.name is not UNSET and command.name != state.name:
        events.append(pool.Renamed(ids.name(command.name), state.name, state.owner_tenant_id))
    if command.policy is not UNSET and command.policy != state.policy:
        check_policy(command.policy, state.sharing, state.gpu_model, state.gpu_memory_gb)
        if command.policy.overcommit != state.policy.overcommit and nodes:
            raise errors.Conflict("a pool's overcommit does not change under its nodes: take them out of it first")
        events.append(pool.PolicyChanged(command.policy))
    return events


def retire(command: Retire, unit: Unit) -> Outcome:
    loaded = owned(unit, command.id)
    state: pool.State = loaded.state
    events = [] if state.retired else [pool.Retired(state.name, state.owner_tenant_id, unit.now)]
    return Outcome((changed(command.id, loaded, events),))


OPERATIONS = (
    Operation(
        name="pools.create",
        verb="POST",
        path="/v1/pools",
        request=Create,
        response=pool.View,
        on=("compute-tenant/{acting}",),
        handle=create,
        view=pool.view,
        summary="Create a pool in a site of yours",
        status=201,
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.KeyReused),
        key="accepted",
    ),
    Operation(
        name="pools.update",
        verb="PATCH",
        path="/v1/pools/{id}",
        request=Update,
        response=pool.View,
        on=("compute-pool/{id}",),
        handle=update,
        view=pool.view,
        summary="Rename a pool, or replace its whole policy: what is left out gets its default. "
        "Its partitioning changes only while none of its nodes has bookings",
        example={"name": "h100-sxm"},
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion),
    ),
    Operation(
        name="pools.retire",
        verb="DELETE",
        path="/v1/pools/{id}",
        request=Retire,
        response=pool.View,
        on=("compute-pool/{id}",),
        handle=retire,
        view=pool.view,
        summary="Retire a pool that has no nodes and no waiting claims",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion),
    ),
)
