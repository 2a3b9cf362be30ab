"""A reservation as its tenant sees it (domain.md §5)."""

from msgspec import Struct

from domain import reservation
from domain.claim import DeviceLine, Scalar, Topology


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """A reservation as its tenant sees it; instants in epoch ms."""

    id: str
    tenant_id: str
    pool_id: str
    project_id: str | None
    state: reservation.Status
    state_reason: str | None
    state_detail: str | None
    degraded: str | None
    starts_at: int | None
    ends_at: int | None
    duration_seconds: int
    earliest_start: int | None
    ending_at: int | None
    ending_reason: str | None
    lease_until: int | None
    confirm_until: int | None
    devices: tuple[DeviceLine, ...]
    nodes: int
    topology: Topology | None
    scalars: dict[Scalar, int]
    binding: reservation.Binding
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
    return View(
        id=id,
        tenant_id=draft.tenant_id,
        pool_id=draft.pool_id,
        project_id=draft.project_id,
        state=state.status,
        state_reason=state.reason,
        state_detail=state.awaits.detail if state.awaits and state.status == "awaiting-confirmation" else state.detail,
        degraded=state.degraded,
        starts_at=state.starts_at,
        ends_at=state.ends_at,
        duration_seconds=draft.duration_seconds,
        earliest_start=state.earliest_start,
        ending_at=state.ending.at if state.ending else None,
        ending_reason=state.ending.reason if state.ending else None,
        lease_until=state.lease_until,
        confirm_until=state.awaits.until if state.awaits and state.status == "awaiting-confirmation" else None,
        devices=draft.claim.devices,
        nodes=draft.claim.nodes,
        topology=draft.claim.topology,
        scalars=draft.claim.scalars,
        binding=draft.binding,
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
