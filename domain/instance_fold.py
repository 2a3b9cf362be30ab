"""What each event makes of an instance (domain.md §6)."""

from typing import assert_never

from msgspec.structs import replace

from domain import instance


def evolve(state: instance.State, event: instance.Events) -> instance.State:
    match event:
        case instance.Drafted(at=at):
            return instance.State(draft=event, since=at)
        case instance.Denied(reason=reason, detail=detail, at=at):
            return replace(_now(state, "denied", at, reason, detail), denied=event, ended_at=at)
        case instance.Admitted(admission_id=admission_id, reason=reason):
            return replace(state, status="pending", reason=reason, admission_id=admission_id)
        case instance.Wished(desired=desired):
            return replace(state, desired=desired)
        case instance.Placed(at=at):
            placed = replace(
                state,
                node_id=event.node_id,
                node_name=event.node_name,
                allocation_id=event.allocation_id,
                generation=event.generation,
                observed=None,
                addresses=(),
            )
            return _now(placed, "provisioning", at)
        case instance.Displaced(reason=reason, at=at):
            gone = replace(state, node_id=None, node_name=None, allocation_id=None, generation=None)
            return _now(replace(gone, observed=None, addresses=()), "pending", at, reason)
        case instance.Reported(state=observed, at=at, reason=reason, detail=detail):
            heard = replace(state, observed=observed, addresses=event.addresses)
            return heard if state.status == "deleting" else _now(heard, observed, at, reason, detail)
        case instance.Unheard(reason=reason, at=at):
            return _now(state, "unknown", at, reason)
        case instance.Rebooted(command_id=command_id):
            return replace(state, reboot=command_id)
        case instance.Deleting(reason=reason, at=at, wished=wished, generation=generation):
            ending = replace(state, desired="deleted" if wished else state.desired, generation=generation)
            return _now(ending, "deleting", at, reason)
        case instance.Deleted(reason=reason, at=at):
            gone = replace(state, desired="deleted", addresses=(), ended_at=at)
            return _now(gone, "deleted", at, reason)
        case instance.Failed(reason=reason, at=at):
            return _now(replace(state, addresses=(), ended_at=at), "failed", at, reason)
        case _:
            assert_never(event)


def _now(
    state: instance.State, status: instance.Status, at: int, reason: str | None = None, detail: str | None = None
) -> instance.State:
    since = state.since if state.status == status else at
    return replace(state, status=status, reason=reason, detail=detail, since=since)
