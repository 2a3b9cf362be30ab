"""Whether anything may be placed on a node, and if not, why and since when (domain.md §3)."""

from collections.abc import Callable, Mapping
from typing import Final

from domain import node, node_fold

BLOCKING: Final = frozenset(
    {"DuplicateHardware", "GpuModelUnknown", "GpuModelMismatch", "AcceptanceFailed", "PartitionPending"}
)
"""Conditions that put a reason of their name into noScheduleReasons; all others only inform."""


CHECKS: Final[Mapping[str, Callable[[node.State], bool]]] = {
    "NotProvisioned": lambda state: state.provision_state not in ("adopted", "deployed"),
    "NotHost": lambda state: state.role != "host",
    "Maintenance": lambda state: bool(state.maintenance),
    "Cordoned": lambda state: state.cordoned is not None,
    "NotConnected": lambda state: state.connectivity != "connected",
    "SpecNotObserved": lambda state: state.observed_generation < 1,
    "NotTrusted": lambda state: not _trusted(state),
}
REASONS: Final = frozenset(CHECKS) | BLOCKING
"""Everything that can stand against placing something on a node."""


def unschedulable(state: node.State) -> tuple[str, ...]:
    """Every reason why nothing may be placed here; none means schedulable (domain.md §3)."""
    blocking = sorted(c.type for c in state.conditions if c.type in BLOCKING)
    return (*(name for name, holds in CHECKS.items() if holds(state)), *blocking)


def _trusted(state: node.State) -> bool:
    own = state.trust == "tenant-owned" and state.pool_owner_id == state.owner_tenant_id
    return state.trust == "platform" or own


def settle(state: node.State, events: list[node.Events], now: int) -> list[node.Events]:
    """Add the schedulability that follows from `events`, if it differs: events carry results."""
    after = state
    for event in events:
        after = node_fold.evolve(after, event)
    reasons = {reason: after.reasons.get(reason, now) for reason in unschedulable(after)}
    if reasons == after.reasons and state.created_at:
        return events
    return [*events, node.SchedulabilityChanged(reasons)]
