"""What each event makes of a reservation (domain.md §5)."""

from typing import assert_never

from msgspec.structs import replace

from domain import reservation


def evolve(state: reservation.State, event: reservation.Events) -> reservation.State:
    match event:
        case reservation.Drafted():
            return reservation.State(
                draft=event, starts_at=event.starts_at, since=event.at, instance_id=event.instance_id
            )
        case reservation.Denied(reason=reason):
            return replace(state, status="denied", reason=reason, denied=event)
        case reservation.ConfirmationAwaited(reason=reason):
            return replace(state, status="awaiting-confirmation", reason=reason, awaits=event)
        case reservation.Admitted():
            return replace(state, admission_id=event.admission_id, claimed=event.claimed, priority=event.priority)
        case reservation.Queued():
            return replace(
                state,
                status="pending",
                reason=event.reason,
                detail=None,
                give_up_at=event.give_up_at,
                earliest_start=event.earliest_start,
                waits=None,
                allocations=(),
            )
        case reservation.Waits(reason=reason):
            earliest_start = event.earliest_start
            return replace(state, reason=reason, detail=event.detail, earliest_start=earliest_start, waits=event)
        case reservation.Placed():
            return replace(
                state,
                status="placed",
                reason=None,
                detail=None,
                earliest_start=None,
                waits=None,
                starts_at=event.starts_at,
                ends_at=event.ends_at,
                allocations=event.allocations,
                claimed=event.claimed,
            )
        case reservation.BindingStarted(generations=generations, fail_at=fail_at, reason=reason):
            return replace(state, status="binding", generations=generations, fail_at=fail_at, reason=reason)
        case reservation.Prepared(allocation_id=allocation_id):
            marked = _mark(state.allocations, allocation_id, prepared=True)
            return replace(state, allocations=marked, prepare_by=_without(state.prepare_by, allocation_id))
        case reservation.Activated(at=at):
            return replace(state, status="active", reason=None, lease_until=_lease(state, at))
        case reservation.Ending():
            return replace(state, ending=event)
        case reservation.Stays():
            return replace(state, ending=_left(state))
        case reservation.Extended(ends_at=ends_at, claimed=claimed):
            return replace(state, ends_at=ends_at, claimed=claimed, ending=_still(state, ends_at))
        case reservation.Renewed(until=until):
            return replace(state, lease_until=until)
        case reservation.Preempted(ends_at=ends_at):
            ending = reservation.Ending(ends_at, "Preempted")
            cut = _until(state.claimed, ends_at)
            return replace(state, ends_at=ends_at, ending=ending, preempted_at=ends_at, claimed=cut)
        case reservation.MemberLost() | reservation.MemberPlaced():
            return _of_member(state, event)
        case reservation.Degraded(reason=reason, names=names):
            return replace(state, degraded=reason, missing=names)
        case reservation.Mended():
            return replace(state, degraded=None, missing=())
        case reservation.InstanceAttached(instance_id=instance_id):
            return replace(state, instance_id=instance_id)
        case reservation.InstanceDetached():
            return replace(state, instance_id=None)
        case reservation.Evicted(reason=reason):
            return replace(state, detail=reason)
        case reservation.Backfilled() | reservation.Budgeted():
            return state
        case reservation.ReleaseStarted(reason=reason, at=at, generations=told):
            generations = state.generations | told
            return replace(state, status="releasing", reason=reason, ends_at=at, generations=generations)
        case reservation.TornDown(allocation_id=allocation_id):
            return replace(
                state,
                allocations=_mark(state.allocations, allocation_id, torn_down=True),
                lost=_mark(state.lost, allocation_id, torn_down=True),
            )
        case reservation.Released(reason=reason):
            return replace(state, status="released", reason=reason)
        case reservation.Failed(reason=reason, at=at, generations=told):
            generations = state.generations | told
            return replace(state, status="failed", reason=reason, ends_at=at, generations=generations)
        case reservation.Cancelled(reason=reason):
            return replace(state, status="cancelled", reason=reason)
        case reservation.Expired(reason=reason):
            return replace(state, status="expired", reason=reason)
        case _:
            assert_never(event)


def _mark(
    allocations: tuple[reservation.Allocation, ...], allocation_id: str, **marks: bool
) -> tuple[reservation.Allocation, ...]:
    return tuple(replace(a, **marks) if a.id == allocation_id else a for a in allocations)


def _until(claimed: reservation.Claimed | None, ends_at: int) -> reservation.Claimed | None:
    return None if claimed is None else replace(claimed, until=min(claimed.until, ends_at))


def _lease(state: reservation.State, at: int) -> int | None:
    """An allocation lease runs from active on (domain.md §5)."""
    seconds = state.draft.lease_seconds if state.draft else None
    return None if seconds is None else at + seconds * 1000


def _still(state: reservation.State, ends_at: int) -> reservation.Ending | None:
    """A notice of its own former end is void; that of another end holds while it comes first."""
    told = state.ending
    return None if told is None or told.at == state.ends_at or told.at >= ends_at else told


def _left(state: reservation.State) -> reservation.Ending | None:
    """What was told last is void; that it is preempted stays true."""
    preempted = state.preempted_at is not None and state.preempted_at == state.ends_at
    return reservation.Ending(state.preempted_at, "Preempted") if preempted and state.preempted_at else None


def _of_member(state: reservation.State, event: reservation.MemberLost | reservation.MemberPlaced) -> reservation.State:
    """A lost member is kept apart until its atoms are proved free; the gang is degraded until another is prepared."""
    if isinstance(event, reservation.MemberPlaced):
        return replace(
            state,
            allocations=(*state.allocations, event.allocation),
            generations=state.generations | {event.allocation.node_id: event.generation},
            prepare_by=state.prepare_by | {event.allocation.id: event.prepare_by},
        )
    generations = state.generations
    if event.generation is not None:
        generations = generations | {event.node_id: event.generation}
    gone = tuple(a for a in state.allocations if a.id == event.allocation_id)
    return replace(
        state,
        allocations=tuple(a for a in state.allocations if a.id != event.allocation_id),
        lost=state.lost + gone,
        degraded=event.reason,
        missing=tuple(name for name in state.missing if not any(name in a.atoms for a in gone)),
        prepare_by=_without(state.prepare_by, event.allocation_id),
        generations=generations,
    )


def _without(instants: dict[str, int], allocation_id: str) -> dict[str, int]:
    return {id: at for id, at in instants.items() if id != allocation_id}
