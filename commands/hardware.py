"""What an inventory means for a node: snapshot, fingerprint, conditions, devices (domain.md §3, §4)."""

from collections.abc import Collection, Sequence
from math import floor

from domain import device, errors, fingerprint, gpu, inventory, join_token, node, node_fold, node_spec, pool

BOOKED_MISSING = "BookedDeviceMissing"
SETTLED = ("GpuModelUnknown", "GpuModelMismatch", "PartitionPending", "GpuCountMismatch", BOOKED_MISSING)
"""The conditions that this module decides; others belong to health, liveness and twins."""


def snapshot(
    found: inventory.NodeInventory, shared: Collection[str], taken: Collection[str], now: int
) -> node.Inventoried:
    """`shared` are live nodes that hold one of the identifiers `taken`; such identifiers count for neither (O29)."""
    identity = fingerprint.fingerprint(found, excluding=taken)
    models = sorted({gpu.lookup(card.name, card.memory_mib).model for card in found.gpus})
    return node.Inventoried(
        inventory=found,
        hash=inventory.document_hash(found),
        fingerprint=identity.fingerprint,
        trusted=identity.trusted,
        identifiers=fingerprint.fingerprint(found).identifiers,
        gpu_model=models[0] if len(models) == 1 else (gpu.OTHER if models else None),
        gpu_count=len(found.gpus),
        model_table=gpu.TABLE_VERSION,
        shared_with=tuple(sorted(shared)),
        at=now,
    )


def observe(
    state: node.State, seen: node.Inventoried, pool_state: pool.State | None, booked: Sequence[str], now: int
) -> list[node.Events]:
    """The events that a new snapshot brings; an unchanged one brings none. `booked` are devices with a live booking."""
    events: list[node.Events] = []
    known = (state.inventory_hash, state.fingerprint, state.fingerprint_trusted)
    if (seen.hash, seen.fingerprint, seen.trusted) != known:
        events.append(seen)
    after = node_fold.evolve(state, seen)
    if pool_state is not None:
        events += _devices(after, pool_state)
    for event in events:
        after = node_fold.evolve(after, event)
    return events + conditions(after, pool_state, now, _missing(state, seen.inventory), unbookable(after, booked))


def assign(
    node_id: str, state: node.State, pool_id: str, pool_state: pool.State, role: join_token.Role, now: int
) -> list[node.Events]:
    """Put a node into a pool: its atoms follow from the pool's sharing mode, and its NodeSpec begins anew."""
    fits(state, pool_state)
    owner = pool_state.owner_tenant_id
    assigned = node.Assigned(role, pool_id, owner, former_pool_id=state.pool_id)
    after = node_fold.evolve(state, assigned)
    events: list[node.Events] = [assigned, *_devices(after, pool_state, node_id)]
    events.append(node.SpecShaped(state.generation + 1, shape(pool_state)))
    return events + conditions(after, pool_state, now)


def repartition(node_id: str, state: node.State, of: pool.State, now: int) -> list[node.Events]:
    """Cut a node's GPUs up as its pool wants them now; the append refuses it while the node carries bookings."""
    events: list[node.Events] = _devices(state, of, node_id)
    events.append(node.SpecShaped(state.generation + 1, shape(of)))
    after = state
    for event in events:
        after = node_fold.evolve(after, event)
    return events + conditions(after, of, now, _named(state, "GpuCountMismatch"))


def shape(of: pool.State) -> node_spec.Sharing:
    """How a pool wants the GPUs of its nodes cut up."""
    slots = of.policy.sharing.replicas if of.policy.sharing else 1
    layout = tuple(node_spec.Slice(piece.profile, piece.start) for piece in of.policy.mig_layout or ())
    return node_spec.Sharing(of.sharing, slots, layout)


def fits(state: node.State, pool_state: pool.State) -> None:
    """A pool has exactly one GPU family, of a nominal size; anything else is refused (domain.md §2, §10)."""
    if state.inventory is None:
        raise errors.Conflict("the node has sent no inventory yet")
    for index, card in enumerate(state.inventory.gpus):
        model = gpu.lookup(card.name, card.memory_mib)
        if model.model != pool_state.gpu_model:
            raise errors.Conflict(
                f"gpus[{index}] is {card.name!r} of family {model.model}; the pool takes {pool_state.gpu_model} only"
            )
        if model.memory_gb is not None and model.memory_gb < pool_state.gpu_memory_gb:
            raise errors.Conflict(
                f"gpus[{index}] has {model.memory_gb} GB; the pool promises {pool_state.gpu_memory_gb} GB"
            )
    if not state.inventory.gpus and pool.binding(pool_state) == "hold":
        raise errors.Conflict("the node has no GPU; in this pool GPUs are what is booked")


def derive(node_id: str, state: node.State, of: pool.State) -> device.Derived:
    assert state.inventory is not None
    return device.devices(
        state.inventory,
        node_id=node_id,
        pool_class=of.class_,
        sharing=of.sharing,
        replicas=of.policy.sharing.replicas if of.policy.sharing else 2,
        mig_layout=of.policy.mig_layout or (),
    )


def _devices(after: node.State, of: pool.State, node_id: str | None = None) -> list[node.Events]:
    known = next((d.id for d in after.devices if d.class_ == "node"), None)
    derived = derive(node_id or known or "", after, of)
    over = of.policy.overcommit
    ratios = {"vcpu": over.vcpu, "memoryMiB": over.memory_mib}
    scalars = {name: floor(amount * ratios[name]) for name, amount in derived.scalars.items()}
    layout = after.layout + 1 if node_id is not None else after.layout
    if (derived.devices, scalars, layout) == (after.devices, after.scalars, after.layout):
        return []
    return [node.DevicesChanged(after.pool_id, layout, derived.devices, scalars)]


def _named(state: node.State, condition_type: str) -> tuple[str, ...]:
    """What a condition of this type names, nothing where it is not raised."""
    held = next((c for c in state.conditions if c.type == condition_type), None)
    return held.names if held else ()


def _missing(state: node.State, found: inventory.NodeInventory) -> tuple[str, ...]:
    """GPUs that the node had and has not: each alone is unbookable, and a booking of it is never dropped (O25).

    None once it has as many as it had: they were replaced. Until then all are named, as nobody says which one was;
    what is booked on one that will not come back is BookedDeviceMissing's to name.
    """
    if state.inventory is None or len(found.gpus) >= state.expected_gpus:
        return ()
    had = {card.uuid for card in state.inventory.gpus} | set(_named(state, "GpuCountMismatch"))
    return tuple(sorted(had - {card.uuid for card in found.gpus}))


def unbookable(state: node.State, booked: Sequence[str]) -> tuple[str, ...]:
    """Of these devices those that the node cannot hand over now; their bookings stay."""
    atoms = {one.id for one in state.devices if one.bookable}
    return tuple(sorted(set(booked) - atoms))


def recheck(state: node.State, booked: Sequence[str], now: int) -> list[node.Events]:
    """What was booked and missing may be booked no more: the condition names the rest, or goes."""
    named, left = _named(state, BOOKED_MISSING), unbookable(state, booked)
    if not named or left == named:
        return []
    if not left:
        return [node.ConditionCleared(BOOKED_MISSING, now)]
    return [node.ConditionRaised(node.Condition(BOOKED_MISSING, "DeviceMissing", ", ".join(left), now, names=left))]


def conditions(
    state: node.State,
    of: pool.State | None,
    now: int,
    missing: Sequence[str] = (),
    gone: Sequence[str] = (),
) -> list[node.Events]:
    """Raise what holds and was not raised, clear what was and does not hold any more.

    `missing` are GPUs that the node had, `gone` booked devices that are none of its atoms now.
    """
    found = {type_: (reason, tuple(names)) for type_, reason, names in _holding(state, of)}
    if missing:
        found["GpuCountMismatch"] = ("GpuMissing", tuple(missing))
    if gone:
        found[BOOKED_MISSING] = ("DeviceMissing", tuple(gone))
    raised = {c.type: c for c in state.conditions}
    events: list[node.Events] = [
        node.ConditionRaised(node.Condition(type_, reason, ", ".join(names), now, names=names))
        for type_, (reason, names) in found.items()
        if type_ not in raised or raised[type_].names != names
    ]
    over = [t for t in SETTLED if t in raised and t not in found]
    return events + [node.ConditionCleared(type_, now) for type_ in over]


def _holding(state: node.State, of: pool.State | None) -> list[tuple[str, str, Sequence[str]]]:
    """Type, reason and names of what holds."""
    holding: list[tuple[str, str, Sequence[str]]] = []
    if state.inventory is None:
        return holding
    models = {gpu.lookup(card.name, card.memory_mib).model: card.name for card in state.inventory.gpus}
    if gpu.OTHER in models:
        holding.append(("GpuModelUnknown", "NotInTable", [models[gpu.OTHER] or "(no name)"]))
    if of is not None:
        strange = sorted(set(models) - {of.gpu_model, gpu.OTHER})
        if strange:
            holding.append(("GpuModelMismatch", "OtherFamily", strange))
        pending = derive("", state, of).partition_pending
        if pending:
            holding.append(("PartitionPending", "LayoutNotReported", pending))
    return holding
