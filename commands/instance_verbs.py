"""What is done to an instance that there is: start, stop, reboot, delete; it keeps its size (domain.md §6)."""

from collections.abc import Callable
from typing import Final

from commands import ending, node_commands
from commands.ports import Loaded
from commands.unit import Outcome, Unit, changed
from domain import errors, instance, instance_fold, instance_life, instance_view, node, reservation, reservation_life
from domain.node_spec import Desired
from domain.operation import Key, Operation, Request

REASON: Final = "InstanceDeleted"
REBOOT_WITHIN_MS: Final = 600_000
"""A reboot that its node did not begin by then is not wanted any more."""
MOST_REBOOTS: Final = node_commands.MOST_OUTSTANDING // 2
"""With more to do a node takes no reboot: the rest is for whoever runs the node."""


class Act(Request, frozen=True, kw_only=True):
    id: str


class Resize(Request, frozen=True, kw_only=True):
    id: str
    flavor_id: str


def start(command: Act, unit: Unit) -> Outcome:
    return _wish(command, unit, "start", "running")


def stop(command: Act, unit: Unit) -> Outcome:
    return _wish(command, unit, "stop", "stopped")


def _wish(command: Act, unit: Unit, verb: str, desired: Desired) -> Outcome:
    """Its node is told by the next NodeSpec; one that has no node yet begins as is wished."""
    loaded = unit.existing(command.id)
    state: instance.State = loaded.state
    instance_life.must_take(state, verb)
    if state.desired == desired:
        return Outcome((changed(command.id, loaded, []),))
    wished = instance.Wished(desired, unit.now)
    told = []
    on_node = _on_node(command.id, state, unit)
    if on_node is not None and state.node_id is not None and state.allocation_id is not None:
        spec = instance_life.specified(command.id, instance_fold.evolve(state, wished), state.allocation_id)
        event = node.SpecChanged(on_node.state.generation + 1, instances=(spec,))
        told.append(changed(state.node_id, on_node, [event]))
    return Outcome((changed(command.id, loaded, [wished]), *told))


def _on_node(id: str, state: instance.State, unit: Unit) -> Loaded | None:
    """The node whose NodeSpec has it."""
    if state.node_id is None:
        return None
    loaded = unit.load(state.node_id)
    return loaded if any(one.id == id for one in loaded.state.instances) else None


def reboot(command: Act, unit: Unit) -> Outcome:
    """One at a time of an instance: its node does its commands in turn, for all whose instances it has."""
    loaded = unit.existing(command.id)
    state: instance.State = loaded.state
    instance_life.must_take(state, "reboot")
    on_node = _on_node(command.id, state, unit)
    if state.desired != "running" or on_node is None or state.node_id is None:
        raise errors.Conflict("it is being stopped or moved; start it, or wait until it runs")
    if any(queued.id == state.reboot for queued in on_node.state.commands):
        return Outcome((changed(command.id, loaded, []),))
    if len(on_node.state.commands) >= MOST_REBOOTS:
        raise errors.Conflict("its node has too much to do to take a reboot; try again")
    issued, queued = node_commands.queue(
        on_node.state,
        state.node_id,
        unit.new_id("cmd"),
        "instance-reboot",
        unit.now,
        params={"instanceId": command.id},
        not_after=unit.now + REBOOT_WITHIN_MS,
    )
    rebooted = changed(command.id, loaded, [instance.Rebooted(issued.stream, unit.now)])
    return Outcome((rebooted, issued, changed(state.node_id, on_node, [queued])))


def delete(command: Act, unit: Unit) -> Outcome:
    """At once where no node has it; else its node takes it away first, and its atoms stay taken until that."""
    loaded = unit.existing(command.id)
    state: instance.State = loaded.state
    instance_life.must_take(state, "delete")
    if state.status == "deleted" or (state.status == "deleting" and state.desired == "deleted"):
        return Outcome((changed(command.id, loaded, []),))
    deleted = instance.Deleted("Deleted", unit.now)
    if state.status == "draft" or state.ended_at is not None:
        return Outcome((changed(command.id, loaded, [deleted]),))
    assert state.draft is not None
    under = unit.load(state.draft.reservation_id)
    going = under.state.status == "releasing" or under.state.status in reservation_life.FINAL
    if state.status == "deleting" or going:
        return Outcome((changed(command.id, loaded, [_deleting(unit, state.generation)]),))
    if state.draft.owned:
        return _with_its_own(command.id, loaded, under, unit)
    on_node = _on_node(command.id, state, unit)
    if on_node is not None and state.node_id is not None:
        generation = on_node.state.generation + 1
        told = changed(state.node_id, on_node, [node.SpecChanged(generation, without=(command.id,))])
        return Outcome((changed(command.id, loaded, [_deleting(unit, generation)]), told))
    freed = changed(state.draft.reservation_id, under, [_detached(command.id, unit)])
    return Outcome((changed(command.id, loaded, [deleted]), freed))


def _with_its_own(id: str, loaded: Loaded, under: Loaded, unit: Unit) -> Outcome:
    """The reservation that it brought ends with it."""
    draft = loaded.state.draft
    if under.state.status in ("binding", "active"):
        changes = ending.end(unit.ports.store, draft.reservation_id, under, REASON, unit.now, wished=True)
        return Outcome(tuple(sorted(changes, key=lambda change: change.stream != id)))
    over = [reservation.Cancelled(REASON, unit.now), _detached(id, unit)]
    deleted = changed(id, loaded, [instance.Deleted("Deleted", unit.now)])
    return Outcome((deleted, changed(draft.reservation_id, under, over)))


def _detached(id: str, unit: Unit) -> reservation.InstanceDetached:
    return reservation.InstanceDetached(id, unit.now)


def _deleting(unit: Unit, generation: int | None) -> instance.Deleting:
    return instance.Deleting("Deleted", unit.now, True, generation)


def resize(command: Resize, unit: Unit) -> Outcome:
    unit.existing(command.id)
    raise errors.Conflict(
        "an instance keeps the flavor that it was made with: its devices and memory are booked for it; "
        "make another of the size that you want, and delete this one"
    )


def _declare(
    verb: str,
    handle: Callable[..., Outcome],
    summary: str,
    *more: type[errors.Refusal],
    request: type[Request] = Act,
    key: Key = "none",
) -> Operation:
    return Operation(
        name=f"instances.{verb}",
        verb="POST",
        path=f"/v1/instances/{{id}}/{verb}",
        request=request,
        response=instance_view.View,
        on=("compute-instance/{id}",),
        handle=handle,
        view=instance_view.view,
        summary=summary,
        refusals=(errors.AccessDenied, errors.NotFound, errors.IllegalTransition, errors.StaleVersion, *more),
        key=key,
    )


OPERATIONS = (
    _declare("start", start, "Start an instance that was stopped"),
    _declare("stop", stop, "Stop an instance; it keeps its disk and its devices"),
    _declare("reboot", reboot, "Reboot a running instance", errors.Conflict, errors.KeyReused, key="accepted"),
    _declare("delete", delete, "Delete an instance, its disk and its user data"),
    _declare("resize", resize, "Refused: an instance keeps its flavor", errors.Conflict, request=Resize),
)
