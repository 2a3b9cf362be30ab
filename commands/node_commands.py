"""Commands to nodes: issued, cancelled, delivered in order, answered (domain.md §8)."""

from typing import Annotated, Any, Final

from msgspec import Meta

from commands.of_nodes import alive
from commands.ports import Loaded, Store
from commands.unit import Outcome, Unit
from domain import errors, node, node_command, pool, schedulability
from domain.event import Change
from domain.operation import Operation, Request

HOUR_MS: Final = 3_600_000
AHEAD_MS: Final = 366 * 24 * HOUR_MS
MOST_OUTSTANDING: Final = 100
Instant = Annotated[int, Meta(ge=0, le=2**53, description="epoch ms")]


class Issue(Request, frozen=True, kw_only=True):
    """`notAfter`, an hour after it may begin unless said, is the last instant to begin.

    `minGeneration` waits until the node has seen its NodeSpec of that generation. `force` lets a disruptive one through
    although reservations run on the node.
    """

    id: str
    name: node_command.Name
    params: Annotated[dict[str, Any], Meta(description="what the type takes: see commands.types")] = {}
    not_before: Instant | None = None
    not_after: Instant | None = None
    min_generation: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    force: bool = False


def queue(
    state: node.State,
    node_id: str,
    command_id: str,
    name: node_command.Name,
    now: int,
    *,
    params: dict[str, Any] | None = None,
    not_before: int | None = None,
    not_after: int | None = None,
    min_generation: int | None = None,
    purpose: node_command.Purpose | None = None,
    force: bool = False,
) -> tuple[Change, node.CommandQueued]:
    """A new command, and the event by which the node's stream numbers it: both belong into one append."""
    of = node_command.TYPES[name]
    seq = state.command_seq + 1
    issued = node_command.Issued(
        node_id=node_id,
        owner_tenant_id=state.owner_tenant_id,
        seq=seq,
        name=name,
        params=params or {},
        flags=of.flags,
        timeout_seconds=of.timeout_seconds,
        not_after=max(not_before or 0, now) + HOUR_MS if not_after is None else not_after,
        at=now,
        not_before=not_before,
        min_generation=min_generation,
        purpose=purpose,
        force=force,
    )
    return Change(command_id, 0, (issued,)), node.CommandQueued(command_id, seq)


def issue(command: Issue, unit: Unit) -> Outcome:
    loaded = unit.existing(command.id)
    state: node.State = loaded.state
    alive(state, "a command")
    of: pool.Policy = unit.load(state.pool_id).state.policy if state.pool_id else pool.Policy()
    params = with_pools_checks(check(command, state, unit.now), command.name, of.acceptance)
    if node_command.TYPES[command.name].flags.disruptive and not command.force:
        held = tuple(unit.ports.store.booked(command.id))
        if held:
            raise errors.Conflict(
                f"{command.name} would interrupt {', '.join(held)}; drain the node first, or force it",
                extra={"reservations": held},
            )
    made, queued = queue(
        state,
        command.id,
        unit.new_id("cmd"),
        command.name,
        unit.now,
        params=params,
        not_before=command.not_before,
        not_after=command.not_after,
        min_generation=command.min_generation,
        force=command.force,
    )
    return Outcome((made, Change(command.id, loaded.version, (queued,))))


def check(command: Issue, state: node.State, now: int) -> dict[str, Any]:
    """The params as they are kept; refuses what the type or this node cannot take, naming the field."""
    params = node_command.checked(command.name, command.params)
    if len(state.commands) >= MOST_OUTSTANDING:
        raise errors.Conflict(f"the node has {MOST_OUTSTANDING} commands to do; cancel some or wait")
    if command.name == "apply-mig-layout" and state.sharing.mode != "mig":
        raise errors.Invalid("name", "the node's GPUs are not to be partitioned: its pool is not of sharing mig")
    if command.name == "gpu-reset":
        known = [card.uuid for card in state.inventory.gpus] if state.inventory else []
        if params["gpuUuid"] not in known:
            raise errors.Invalid("params.gpuUuid", f"the node has {', '.join(known) or 'no GPU'}")
    if command.name == "instance-reboot":
        there = [instance.id for instance in state.instances]
        if params["instanceId"] not in there:
            raise errors.Invalid("params.instanceId", f"the node has {', '.join(there) or 'no instance'}")
    begin = max(command.not_before or 0, now)
    if command.not_after is not None and command.not_after <= begin:
        raise errors.Invalid("notAfter", f"lies at or before the instant at which it may begin, {begin}")
    if max(command.not_after or 0, begin) > now + AHEAD_MS:
        raise errors.Invalid("notAfter", "lies more than 366 days ahead")
    if command.min_generation is not None and command.min_generation > state.generation:
        raise errors.Invalid("minGeneration", f"the NodeSpec is at generation {state.generation}")
    return params


def with_pools_checks(params: dict[str, Any], name: node_command.Name, checks: tuple[str, ...]) -> dict[str, Any]:
    """An acceptance that names no checks runs those of the node's pool."""
    asked = name != "run-acceptance" or params.get("checks") or not checks
    return params if asked else {**params, "checks": list(checks)}


def drop_all(store: Store, state: node.State, reason: str, now: int) -> tuple[list[Change], list[node.Events]]:
    """Whatever a node has to do is off: changes of the commands, and the events of the node's own stream."""
    changes: list[Change] = []
    events: list[node.Events] = []
    for queued in state.commands:
        loaded: Loaded = store.load(queued.id)
        of: node_command.State = loaded.state
        event: node_command.Events = node_command.Cancelled(reason, now)
        if of.status == "delivered":
            event = node_command.Failed(reason, {}, now)
        changes.append(Change(queued.id, loaded.version, (event,)))
        events.append(node.CommandSettled(queued.id))
    return changes, events


def outstanding(store: Store, state: node.State, purpose: node_command.Purpose) -> bool:
    """Whether the node has a command of this purpose to do."""
    return any(store.load(queued.id).state.purpose == purpose for queued in state.commands)


def interrupts(of: node_command.State) -> bool:
    """Whether it may not be begun while reservations run on the node."""
    return of.flags.disruptive and not of.force


def ready(
    state: node.State, commands: list[tuple[str, node_command.State]], now: int, busy: bool
) -> tuple[list[str], bool]:
    """Which queued commands are to be delivered now, in order, and whether others wait for their time.

    One that may not begin yet is passed over by those behind it: it is early, the node has not seen its generation, or
    it would interrupt a node that is `busy`. An exclusive one waits until nothing runs, and while it runs nothing else
    is begun.
    """
    running = [of for _, of in commands if of.status == "delivered"]
    deliver: list[str] = []
    if any(of.flags.exclusive for of in running):
        return deliver, False
    waits = False
    for command_id, of in commands:
        if of.status != "queued" or of.not_after < now:
            continue
        early = of.not_before is not None and of.not_before > now
        if early or (of.min_generation or 0) > state.observed_generation or (busy and interrupts(of)):
            waits = True
            continue
        if of.flags.exclusive and (running or deliver):
            break
        deliver.append(command_id)
        if of.flags.exclusive:
            break
    return deliver, waits


def settled(state: node.State, events: list[node.Events], now: int) -> tuple[node.Events, ...]:
    return tuple(schedulability.settle(state, events, now))


_REFUSALS = (errors.AccessDenied, errors.NotFound, errors.Conflict, errors.IllegalTransition, errors.StaleVersion)

OPERATIONS = (
    Operation(
        name="commands.issue",
        verb="POST",
        path="/v1/nodes/{id}/commands",
        request=Issue,
        response=node_command.View,
        on=("compute-node/{id}",),
        handle=issue,
        view=node_command.view,
        summary="Issue a command to a node",
        status=201,
        refusals=(*_REFUSALS, errors.KeyReused),
        key="accepted",
    ),
)
