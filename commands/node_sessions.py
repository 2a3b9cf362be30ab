"""What is said in a session about commands: handed over, acknowledged, answered (domain.md §8)."""

import logging
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from commands import node_commands
from commands.acting import act, following
from commands.gathering import Gathered, Loads
from commands.node_command_ends import finish
from commands.ports import Store
from domain import errors, ids, node, node_command
from domain.event import Change, Fence, Meta, Seen

log = logging.getLogger(__name__)
Outcome = Literal["succeeded", "failed", "expired"]
New = Callable[[str], str]


def _about(store: Store, node_id: str, command_id: str) -> Meta:
    ids.parse("cmd", command_id, "commandId")
    cause = store.load(command_id)
    issued = store.history(command_id)[0].meta.admission if cause.version else None
    return following(f"agent:{node_id}", issued, cause)


def _current(loads: Loads, node_id: str, session: int) -> tuple[node.State, Seen]:
    loaded = loads.load(node_id)
    if loaded.state.session != session:
        raise errors.Fenced(f"session {session} of {node_id} was superseded")
    return loaded.state, Seen(node_id, loaded.version)


def _known(store: Store, node_id: str, command_id: str) -> tuple[int, node_command.State]:
    loaded = store.load(command_id)
    of: node_command.State = loaded.state
    if loaded.version == 0 or of.node_id != node_id:
        raise errors.Invalid("commandId", "is no command of this node")
    return loaded.version, of


def deliver(store: Store, node_id: str, session: int, command_id: str) -> bool:
    """Record that the command is in this session's hands, before it is: from now on it may run.

    Says whether it is: it may have been called off meanwhile, or would interrupt what has come to run there.
    """

    def decide() -> list[Change | Seen]:
        state, seen = _current(store, node_id, session)
        version, of = _known(store, node_id, command_id)
        if of.status != "queued" or (node_commands.interrupts(of) and store.booked(node_id)):
            return []
        delivered = node_command.Delivered(session, store.now(), state.boot_id)
        return [Change(command_id, version, (delivered,)), seen]

    act(store, _about(store, node_id, command_id), decide)
    return bool(store.load(command_id).state.status == "delivered")


def acknowledge(store: Store, node_id: str, session: int, command_id: str) -> None:
    """The node has it in its journal; saying so again changes nothing."""

    def decide() -> list[Change | Seen]:
        _, seen = _current(store, node_id, session)
        version, of = _known(store, node_id, command_id)
        if of.status != "delivered" or of.acknowledged_at is not None:
            return []
        return [Change(command_id, version, (node_command.Acknowledged(session, store.now()),)), seen]

    act(store, _about(store, node_id, command_id), decide)


def take_result(
    store: Store,
    node_id: str,
    session: int,
    command_id: str,
    outcome: Outcome,
    reason: str,
    result: dict[str, Any],
    new_id: New,
) -> None:
    """Record what became of a command, and what follows for the node; a second answer changes nothing.

    That a machine has booted anew is not its agent's to say: its next boot id shows it.
    """

    def decide() -> tuple[Change, ...]:
        gathered = Gathered(store)
        _current(gathered, node_id, session)
        _, of = _known(store, node_id, command_id)
        if of.status != "delivered" or (of.flags.rejoin and outcome == "succeeded"):
            return ()
        ended = answered(outcome, reason, result, store.now())
        finish(store, gathered, command_id, ended, new_id, store.now())
        return gathered.changes()

    act(store, _about(store, node_id, command_id), decide)


def answered(outcome: Outcome, reason: str, result: dict[str, Any], now: int) -> node_command.Events:
    if len(msgspec.json.encode(result)) > node_command.MAX_RESULT:
        return node_command.Failed("ResultTooLarge", {}, now)
    match outcome:
        case "succeeded":
            return node_command.Succeeded(result, now)
        case "failed":
            return node_command.Failed(reason or "Failed", result, now)
        case "expired":
            return node_command.Expired(now)


def rejoined(store: Store, gathered: Gathered, node_id: str, boot_id: str, new_id: New) -> None:
    """What was to end with a boot is done (O37), but for what was handed over under a boot id that nobody knows."""
    state: node.State = gathered.load(node_id).state
    for queued in state.commands:
        of: node_command.State = gathered.load(queued.id).state
        if of.status == "delivered" and of.flags.rejoin and of.boot_id not in (None, boot_id):
            done = node_command.Succeeded({"bootId": boot_id, "formerBootId": of.boot_id}, store.now())
            finish(store, gathered, queued.id, done, new_id, store.now())


def overdue(of: node_command.State, now: int) -> node_command.Events | None:
    """How time alone ends a command: it was too late to begin, or its node never answered."""
    due = node_command.due_at(of)
    if due is None or due > now:
        return None
    return node_command.Expired(now) if of.status == "queued" else node_command.Failed("TimedOut", {}, now)


def expire(store: Store, command_id: str, fence: Fence, new_id: New) -> int | None:
    """End one command whose time is over; None when it is not."""

    def decide() -> tuple[Change, ...]:
        ended = overdue(store.load(command_id).state, store.now())
        if ended is None:
            return ()
        gathered = Gathered(store)
        finish(store, gathered, command_id, ended, new_id, store.now())
        return gathered.changes()

    cause = store.load(command_id)
    issued = store.history(command_id)[0].meta.admission
    return act(store, following("controller:nodes", issued, cause), decide, fence)
