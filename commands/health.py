"""What informs about a node and stops nothing: its clock, and how old what is known of it is (domain.md §3)."""

from collections.abc import Callable
from typing import Final

from commands.acting import act, following
from commands.ports import Store
from domain import node, schedulability
from domain.event import Change, Fence, Meta
from domain.policy.instant import written

SKEW_MS: Final = 5_000
STALE_MS: Final = 24 * 3_600_000
SKEW, STALE = "ClockSkew", "InventoryStale"


def _told(state: node.State, condition: node.Condition | None, type: str, now: int) -> list[node.Events]:
    """Raise it where it holds and was not raised, clear it where it was and does not hold."""
    raised = any(one.type == type for one in state.conditions)
    if condition is not None and not raised:
        return [node.ConditionRaised(condition)]
    return [node.ConditionCleared(type, now)] if raised and condition is None else []


def skewed(state: node.State, skew_ms: int, now: int) -> list[node.Events]:
    """`skew_ms` is how far the node's clock is ahead of the plane's, negative when it is behind."""
    if abs(skew_ms) <= SKEW_MS:
        return _told(state, None, SKEW, now)
    side = "ahead" if skew_ms > 0 else "behind"
    message = f"its clock is {abs(skew_ms) / 1000:.1f} s {side}"
    return _told(state, node.Condition(SKEW, "ClockOff", message, now), SKEW, now)


def report_clock(store: Store, node_id: str, session: int, shows: Callable[[], int]) -> None:
    """Take what the node's clock shows now (epoch ms); it is reported, never judged."""

    def decide() -> list[Change]:
        loaded = store.load(node_id)
        state: node.State = loaded.state
        if state.session != session:
            return []
        now = store.now()
        return [Change(node_id, loaded.version, tuple(skewed(state, shows() - now, now)))]

    state: node.State = store.load(node_id).state
    act(store, Meta(f"agent:{node_id}", state.admission_id), decide)


def grow_stale(store: Store, node_id: str, seen_at: int, fence: Fence) -> int | None:
    """Say that a node has reported no inventory since `seen_at` (epoch ms); its next report clears it."""

    def decide() -> list[Change]:
        loaded, now = store.load(node_id), store.now()
        state: node.State = loaded.state
        if state.provision_state == "retired":
            return []
        stale = node.Condition(STALE, "NoReport", f"no inventory since {written(seen_at)}", now)
        events = schedulability.settle(state, _told(state, stale, STALE, now), now)
        return [Change(node_id, loaded.version, tuple(events))]

    cause = store.load(node_id)
    return act(store, following("controller:nodes", cause.state.admission_id, cause), decide, fence)


def fresh(state: node.State, now: int) -> list[node.Events]:
    """A report came: whatever was old is new."""
    return _told(state, None, STALE, now)
