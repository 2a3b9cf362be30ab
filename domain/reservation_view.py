"""A reservation as its tenant sees it (domain.md §5)."""

from typing import Annotated

from msgspec import Meta, Struct

from domain import reservation, reservation_life, reservation_terms
from domain.claim import DeviceLine, Scalar, Topology


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """A reservation as its tenant sees it; instants in epoch ms."""

    id: str
    tenant_id: str
    owner_id: Annotated[str, Meta(description="the identity that asked for it")]
    pool_id: str
    project_id: str | None
    state: reservation.Status
    state_reason: str | None
    state_detail: str | None
    degraded: str | None
    starts_at: int | None
    ends_at: int | None
    duration_seconds: Annotated[int | None, Meta(description="null: as long as the instance that it came with")]
    earliest_start: int | None
    queue_position: Annotated[int, Meta(description="1 is next; only `reservations.get` tells it")] | None = None
    ending_at: int | None
    ending_reason: str | None
    lease_until: int | None
    confirm_until: int | None
    devices: tuple[DeviceLine, ...]
    nodes: int
    topology: Topology | None
    scalars: dict[Scalar, int]
    binding: reservation.Binding
    instance_id: Annotated[str | None, Meta(description="the instance that runs on it")]
    spot: bool
    lease_seconds: int | None
    max_pending_seconds: int
    gpu_count: int
    gpu_model: str
    labels: dict[str, str]
    allocations: tuple[reservation.Allocation, ...]
    admission_id: str | None
    created_at: int
    version: int


def view(id: str, state: reservation.State, version: int) -> View:
    draft = state.draft
    assert draft is not None, "a reservation's stream begins with its draft"
    ending = None if state.status in reservation_life.FINAL else state.ending
    return View(
        id=id,
        tenant_id=draft.tenant_id,
        owner_id=draft.identity_id,
        pool_id=draft.pool_id,
        project_id=draft.project_id,
        state=state.status,
        state_reason=state.reason,
        state_detail=_detail(state),
        degraded=state.degraded,
        starts_at=state.starts_at,
        ends_at=reservation_terms.shown_end(state.ends_at),
        duration_seconds=None if draft.instance_id else draft.duration_seconds,
        earliest_start=state.earliest_start if state.status == "pending" else None,
        ending_at=ending.at if ending else None,
        ending_reason=ending.reason if ending else None,
        lease_until=state.lease_until,
        confirm_until=state.awaits.until if state.awaits and state.status == "awaiting-confirmation" else None,
        devices=draft.claim.devices,
        nodes=draft.claim.nodes,
        topology=draft.claim.topology,
        scalars=draft.claim.scalars,
        binding=draft.binding,
        instance_id=state.instance_id,
        spot=draft.spot,
        lease_seconds=draft.lease_seconds,
        max_pending_seconds=draft.max_pending_seconds,
        gpu_count=draft.gpu_count,
        gpu_model=draft.gpu_model,
        labels=draft.labels,
        allocations=state.allocations,
        admission_id=state.admission_id,
        created_at=draft.at,
        version=version,
    )


def _detail(state: reservation.State) -> str | None:
    """What a claim waited for says nothing any more of one that was called off, or failed for another reason."""
    if state.awaits and state.status == "awaiting-confirmation":
        return state.awaits.detail
    stale = state.status == "cancelled" or (state.status == "failed" and state.reason != "Evicted")
    return None if stale else state.detail
