"""What a node says of its NodeSpec, and what follows: drift, and the end of deploying and releasing (domain.md §8)."""

from collections.abc import Mapping

from domain import node
from domain.node_spec import Status

DRIFT = "SpecDrift"


def report(state: node.State, observed: int, items: Mapping[str, Status], now: int) -> list[node.Events]:
    """The events that a status brings; one that says nothing new, or is of an older generation, brings none."""
    if observed < state.observed_generation:
        return []
    events: list[node.Events] = []
    if (observed, items) != (state.observed_generation, state.items):
        events.append(node.SpecReported(observed, dict(items)))
    if observed == state.generation:
        events += drift(state, items, now)
        events += arrive(state, items, now)
    return events


def drift(state: node.State, items: Mapping[str, Status], now: int) -> list[node.Events]:
    """SpecDrift names what the node has not although it should, cannot prepare, or has although it should not."""
    wanted = {allocation.id for allocation in state.allocations}
    failed = {id for id, status in items.items() if status == "failed"}
    names = tuple(sorted(failed | (wanted ^ items.keys())))
    raised = next((one for one in state.conditions if one.type == DRIFT), None)
    if not names:
        return [] if raised is None else [node.ConditionCleared(DRIFT, now)]
    if raised is not None and raised.names == names:
        return []
    reason = "ItemFailed" if failed else "ReportedOtherwise"
    return [node.ConditionRaised(node.Condition(DRIFT, reason, ", ".join(names), now, names=names))]


def arrive(state: node.State, items: Mapping[str, Status], now: int) -> list[node.Events]:
    """A node is deployed once it has prepared what it should, and released once it holds nothing any more."""
    if state.provision_state == "deploying" and all(status == "prepared" for status in items.values()):
        return [node.move(state, "deployed", "SpecObserved", now)]
    if state.provision_state == "releasing" and not items:
        return [node.move(state, "ready", "Released", now)]
    return []


def broken(state: node.State, reason: str, now: int) -> list[node.Events]:
    """A node that is lost or off on its way into service or out of it will not get there by itself: it has failed."""
    return [node.move(state, "failed", reason, now)] if state.provision_state in ("deploying", "releasing") else []
