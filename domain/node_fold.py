"""How a node's events come to its state (node.py has both)."""

from typing import assert_never

from msgspec.structs import replace

from domain import node


def evolve(state: node.State, event: node.Events) -> node.State:
    if isinstance(event, node.Identity):
        return _identified(state, event)
    if isinstance(event, node.Service):
        return _served(state, event)
    if isinstance(event, node.Desired):
        return _desired(state, event)
    return _found(state, event)


def _identified(state: node.State, event: node.Identity) -> node.State:
    match event:
        case node.Joined():
            return node.State(
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
                provision_since=event.at,
                power_since=event.at,
            )
        case node.Enrolled(at=at):
            return replace(state, provision_state="enrolling", provision_since=at)
        case node.Rekeyed():
            return replace(state, public_key=event.public_key, join_token_id=event.join_token_id)
        case node.Booted():
            return replace(state, boot_id=event.boot_id, agent_version=event.agent_version)
        case node.Inventoried():
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
                expected_gpus=max(state.expected_gpus, event.gpu_count),
            )
        case node.DuplicateSettled(nodes=nodes):
            return replace(state, settled=tuple(sorted({*state.settled, *nodes})))
        case node.ConnectivityChanged():
            return _connected(state, event)
        case _:
            assert_never(event)


def _connected(state: node.State, event: node.ConnectivityChanged) -> node.State:
    """A machine that speaks is not off, whatever was said of it before."""
    spoke = event.connectivity == "connected" and state.power == "off"
    return replace(
        state,
        connectivity=event.connectivity,
        connectivity_since=event.at,
        session=event.session,
        gateway=event.gateway,
        power="unknown" if spoke else state.power,
        power_since=event.at if spoke else state.power_since,
    )


def _served(state: node.State, event: node.Service) -> node.State:
    match event:
        case node.Assigned():
            return replace(
                state,
                role=event.role,
                pool_id=event.pool_id,
                pool_owner_id=event.pool_owner_id,
                expected_gpus=state.gpu_count,
            )
        case node.Moved():
            return replace(state, provision_state=event.provision, provision_since=event.at)
        case node.Cordoned(reason=reason, at=at):
            return replace(state, cordoned=reason, cordoned_since=at)
        case node.Uncordoned():
            return replace(state, cordoned=None, cordoned_since=None)
        case node.MaintenanceEntered(reason=reason, at=at, plan=plan):
            return replace(state, maintenance=(*state.maintenance, node.Stay(reason, at, plan)))
        case node.MaintenanceLeft():
            return replace(state, maintenance=tuple(stay for stay in state.maintenance if not _over(stay, event)))
        case node.MaintenancePlanned(plan=plan):
            return replace(state, plans=(*state.plans, plan))
        case node.PlanEnded(id=id):
            return replace(state, plans=tuple(plan for plan in state.plans if plan.id != id))
        case node.DrainStarted():
            before = state.drain or node.Drain(event.reason, event.at)
            changed = replace(before, reason=event.reason, deadline=event.deadline, forced=event.forced)
            return replace(state, drain=changed)
        case node.Drained(at=at):
            return replace(state, drain=replace(state.drain, drained_at=at) if state.drain else None)
        case node.DrainEnded():
            return replace(state, drain=None)
        case node.Fenced(at=at):
            return replace(state, power="off", power_since=at)
        case _:
            assert_never(event)


def _over(stay: node.Stay, left: node.MaintenanceLeft) -> bool:
    if left.plan is not None:
        return stay.plan == left.plan
    return not left.reasons or stay.reason in left.reasons


def _desired(state: node.State, event: node.Desired) -> node.State:
    match event:
        case node.SpecChanged():
            return _specified(state, event)
        case node.SpecShaped():
            return replace(state, generation=event.generation, sharing=event.sharing)
        case node.SpecObserved(generation=generation):
            return replace(state, observed_generation=generation)
        case node.SpecReported():
            return replace(state, observed_generation=event.generation, items=event.items)
        case node.CommandQueued():
            queued = node.Queued(event.id, event.seq)
            return replace(state, command_seq=event.seq, commands=(*state.commands, queued))
        case node.CommandSettled(id=id):
            return replace(state, commands=tuple(queued for queued in state.commands if queued.id != id))
        case _:
            assert_never(event)


def _specified(state: node.State, event: node.SpecChanged) -> node.State:
    kept = tuple(a for a in state.allocations if a.id not in event.removed)
    gone = {*event.without, *(instance.id for instance in event.instances)}
    still = tuple(i for i in state.instances if i.id not in gone and i.allocation_id not in event.removed)
    return replace(
        state,
        generation=event.generation,
        allocations=(*kept, *event.added),
        instances=(*still, *event.instances),
    )


def _found(state: node.State, event: node.Found) -> node.State:
    match event:
        case node.DevicesChanged():
            return replace(state, devices=event.devices, layout=event.layout, scalars=event.scalars)
        case node.ConditionRaised(condition=condition):
            return replace(state, conditions=(*_without(state, condition.type), condition))
        case node.ConditionCleared(condition=condition_type):
            return replace(state, conditions=_without(state, condition_type))
        case node.Labelled(labels=labels):
            return replace(state, labels=labels)
        case node.SchedulabilityChanged(reasons=reasons):
            return replace(state, reasons=reasons)
        case _:
            assert_never(event)


def _without(state: node.State, condition_type: str) -> tuple[node.Condition, ...]:
    return tuple(c for c in state.conditions if c.type != condition_type)
