"""Whether anything may be placed on a node, and if not, why and since when (domain.md §3)."""

from typing import Final

from domain import node, node_fold

BLOCKING: Final = frozenset(
    {"DuplicateHardware", "GpuModelUnknown", "GpuModelMismatch", "AcceptanceFailed", "PartitionPending"}
)
"""Conditions that put a reason of their name into noScheduleReasons; all others only inform."""


def unschedulable(state: node.State) -> tuple[str, ...]:
    """Every reason why nothing may be placed here; none means schedulable (domain.md §3)."""
    trusted = state.trust == "platform" or (
        state.trust == "tenant-owned" and state.pool_owner_id == state.owner_tenant_id
    )
    checks = {
        "NotProvisioned": state.provision_state not in ("adopted", "deployed"),
        "NotHost": state.role != "host",
        "Maintenance": bool(state.maintenance),
        "Cordoned": state.cordoned is not None,
        "NotConnected": state.connectivity != "connected",
        "SpecNotObserved": state.observed_generation < 1,
        "NotTrusted": not trusted,
    }
    blocking = sorted(c.type for c in state.conditions if c.type in BLOCKING)
    return (*(name for name, holds in checks.items() if holds), *blocking)


def settle(state: node.State, events: list[node.Events], now: int) -> list[node.Events]:
    """Add the schedulability that follows from `events`, if it differs: events carry results."""
    after = state
    for event in events:
        after = node_fold.evolve(after, event)
    reasons = {reason: after.reasons.get(reason, now) for reason in unschedulable(after)}
    if reasons == after.reasons and state.created_at:
        return events
    return [*events, node.SchedulabilityChanged(reasons)]
