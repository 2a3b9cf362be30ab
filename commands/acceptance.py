"""What the result of a command means for its node: acceptance decides commissioning and adoption (domain.md §3, §8)."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from commands import node_commands
from domain import node, node_command, provision
from domain.event import Change

FAILED = "AcceptanceFailed"


class Followed(Struct, frozen=True):
    """Events of the node's own stream, and the commands that they bring with them."""

    events: list[node.Events]
    changes: list[Change]


def follow(
    node_id: str,
    state: node.State,
    of: node_command.State,
    ended: node_command.Events,
    checks: tuple[str, ...],
    new_id: Callable[[str], str],
    now: int,
) -> Followed:
    """What a finished command brings to its node; `checks` are those that the node's pool demands."""
    passed = isinstance(ended, node_command.Succeeded)
    result: dict[str, Any] = ended.result if isinstance(ended, node_command.Succeeded | node_command.Failed) else {}
    events: list[node.Events] = _judge(state, result, passed, now) if of.name == "run-acceptance" else []
    match of.purpose:
        case "adoption":
            events += _move(state, "adopted" if passed else "failed", "AcceptancePassed" if passed else FAILED, now)
        case "commissioning":
            events += _move(state, "ready" if passed else "failed", "AcceptancePassed" if passed else FAILED, now)
        case "inspection" if not passed:
            events += _move(state, "failed", "InspectionFailed", now)
        case "inspection" if state.provision_state == "inspecting":
            return commission(node_id, state, events, checks, new_id, now)
        case _:
            pass
    return Followed(events, [])


def commission(
    node_id: str,
    state: node.State,
    events: list[node.Events],
    checks: tuple[str, ...],
    new_id: Callable[[str], str],
    now: int,
) -> Followed:
    """Into commissioning: ready at once where nothing is demanded, else once the checks are passed."""
    events = [*events, node.move(state, "commissioning", "Inspected", now)]
    if not checks:
        return Followed([*events, node.Moved("ready", "NothingToCheck", now)], [])
    issued, queued = demand(node_id, state, checks, "commissioning", new_id, now)
    return Followed([*events, queued], [issued])


def demand(
    node_id: str,
    state: node.State,
    checks: tuple[str, ...],
    purpose: node_command.Purpose,
    new_id: Callable[[str], str],
    now: int,
) -> tuple[Change, node.CommandQueued]:
    """The command by which the node shows that it passes its pool's checks."""
    params = {"checks": list(checks)}
    return node_commands.queue(state, node_id, new_id("cmd"), "run-acceptance", now, params=params, purpose=purpose)


def _judge(state: node.State, result: dict[str, Any], passed: bool, now: int) -> list[node.Events]:
    raised = next((one for one in state.conditions if one.type == FAILED), None)
    if passed:
        return [] if raised is None else [node.ConditionCleared(FAILED, now)]
    names = _failed(result)
    if raised is not None and raised.names == names:
        return []
    return [node.ConditionRaised(node.Condition(FAILED, "ChecksFailed", ", ".join(names), now, names=names))]


def _failed(result: dict[str, Any]) -> tuple[str, ...]:
    """The names of the checks that were not passed, of whatever a node sent."""
    checks = result.get("checks")
    found = [one for one in checks if isinstance(one, dict)] if isinstance(checks, list) else []
    return tuple(sorted({str(one.get("name"))[:63] for one in found if one.get("ok") is not True}))


def _move(state: node.State, to: provision.Provision, reason: str, now: int) -> list[node.Events]:
    """Skipped where an operator has moved the node on meanwhile."""
    return [node.Moved(to, reason, now)] if to in provision.MOVES[state.provision_state] else []
