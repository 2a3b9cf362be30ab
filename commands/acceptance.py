"""What the result of a command means for its node: acceptance decides commissioning and adoption (domain.md §3, §8)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from commands import node_commands
from domain import node, node_command, provision
from domain.event import Change

FAILED: Final = "AcceptanceFailed"
MOST_NAMES: Final = 32
MOST_SAID: Final = 512

_WAYS: Final[Mapping[str, tuple[provision.Provision, provision.Provision]]] = {
    "adoption": ("adopting", "adopted"),
    "inspection": ("inspecting", "commissioning"),
    "commissioning": ("commissioning", "ready"),
}
"""Where a node is while a command of this purpose decides, and where success brings it."""


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
    """What a finished command brings to its node; `checks` are those that the node's pool demands now.

    A node that an operator moved on meanwhile stays where it is. One that passed other checks than its pool demands
    is asked again.
    """
    verdicts = _verdicts(ended)
    passed = isinstance(ended, node_command.Succeeded) and _passed(of, verdicts)
    events: list[node.Events] = []
    if of.name == "run-acceptance" and _tells(of, ended):
        events += _judge(state, passed, verdicts, checks, now)
    if of.purpose is None:
        return Followed(events, [])
    lacking = of.name == "run-acceptance" and not {*checks} <= verdicts.keys()
    if of.purpose == "assignment" and passed and lacking:
        return _again(node_id, state, events, checks, of.purpose, new_id, now)
    if of.purpose == "assignment":
        return Followed(events, [])
    at, onward = _WAYS[of.purpose]
    called_off = isinstance(ended, node_command.Cancelled) and of.purpose == "adoption"
    if state.provision_state != at or called_off:
        return Followed(events, [])
    if not passed:
        return Followed([*events, node.Moved("failed", type(ended).__name__, now)], [])
    if of.purpose == "inspection":
        return commission(node_id, state, events, checks, new_id, now)
    if lacking:
        return _again(node_id, state, events, checks, of.purpose, new_id, now)
    return Followed([*events, node.Moved(onward, "AcceptancePassed", now)], [])


def _again(
    node_id: str,
    state: node.State,
    events: list[node.Events],
    checks: tuple[str, ...],
    purpose: node_command.Purpose,
    new_id: Callable[[str], str],
    now: int,
) -> Followed:
    issued, queued = demand(node_id, state, checks, purpose, new_id, now)
    return Followed([*events, queued], [issued])


def _passed(of: node_command.State, verdicts: Mapping[str, str | None]) -> bool:
    """Every check that was asked for was passed, and none failed; without a verdict there is no pass."""
    if of.name != "run-acceptance":
        return True
    asked = of.params.get("checks") or []
    return bool(verdicts) and {*asked} <= verdicts.keys() and all(said is None for said in verdicts.values())


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


def owed(state: node.State, checks: tuple[str, ...], now: int) -> list[node.Events]:
    """A node that comes to a pool whose checks it has yet to pass takes nothing until it did."""
    return [node.ConditionRaised(node.Condition(FAILED, "NotRun", ", ".join(checks), now, names=checks))]


def _judge(
    state: node.State, passed: bool, verdicts: Mapping[str, str | None], checks: tuple[str, ...], now: int
) -> list[node.Events]:
    """It goes once all that it names, and all that the pool demands, is passed; passing something else does not do."""
    raised = next((one for one in state.conditions if one.type == FAILED), None)
    if passed:
        covered = raised is not None and {*raised.names, *checks} <= verdicts.keys()
        return [node.ConditionCleared(FAILED, now)] if covered else []
    failures = {name: said for name, said in verdicts.items() if said is not None}
    text = "; ".join(f"{name}: {detail}" if detail else name for name, detail in failures.items())[:MOST_SAID]
    since = raised.since if raised else now
    reason = "ChecksFailed" if failures else "NoVerdict"
    found = node.Condition(FAILED, reason, text, since, names=tuple(failures))
    return [] if found == raised else [node.ConditionRaised(found)]


def _verdicts(ended: node_command.Events) -> dict[str, str | None]:
    """Of each check that was run: None where it was passed, else what is said of it; an agent's word, of any shape."""
    result: dict[str, Any] = ended.result if isinstance(ended, node_command.Succeeded | node_command.Failed) else {}
    checks = result.get("checks")
    said: dict[str, str | None] = {}
    for check in checks if isinstance(checks, list) else ():
        if isinstance(check, dict) and isinstance(name := check.get("name"), str):
            detail = check.get("detail")
            failed = detail if isinstance(detail, str) else ""
            said[name[:63]] = None if check.get("ok") is True else failed
    return dict(sorted(said.items())[:MOST_NAMES])


def _tells(of: node_command.State, ended: node_command.Events) -> bool:
    """One that never began says nothing of the node, unless something waits for its word."""
    begun = isinstance(ended, node_command.Succeeded | node_command.Failed)
    return begun or (isinstance(ended, node_command.Expired) and of.purpose is not None)
