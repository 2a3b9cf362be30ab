"""An instance as its tenant sees it (domain.md §6)."""

from msgspec import Struct, field

from domain import flavor, image, instance
from domain.node_spec import Kind


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """`desiredState` is what its tenant wants, `state` what is; instants in epoch ms. User data is never shown.

    One that brings its reservation has none before it is admitted.
    """

    id: str
    tenant_id: str
    owner_id: str
    name: str
    kind: Kind
    pool_id: str
    project_id: str | None
    desired_state: instance.Wish
    state: instance.Status
    state_reason: str | None
    state_detail: str | None
    state_since: int
    flavor_id: str
    flavor_name: str
    vcpu: int
    memory_gib: int = field(name="memoryGiB")
    disk_gib: int = field(name="diskGiB")
    gpus: flavor.Gpus | None
    image_id: str
    image_name: str
    image_version: str
    image_sha256: str
    image_verdict: image.Verdict | None
    reservation_id: str | None
    owns_reservation: bool
    on_node_loss: instance.OnNodeLoss
    node_id: str | None
    node_name: str | None
    allocation_id: str | None
    addresses: tuple[str, ...]
    ssh_keys: tuple[str, ...]
    user_data_sha256: str | None
    labels: dict[str, str]
    admission_id: str | None
    created_at: int
    ended_at: int | None
    version: int


def view(id: str, state: instance.State, version: int) -> View:
    draft = state.draft
    assert draft is not None, "an instance's stream begins with its draft"
    size = draft.flavor.size
    return View(
        id=id,
        tenant_id=draft.tenant_id,
        owner_id=draft.identity_id,
        name=draft.name,
        kind=draft.kind,
        pool_id=draft.pool_id,
        project_id=draft.project_id,
        desired_state=state.desired,
        state=state.status,
        state_reason=state.reason,
        state_detail=state.detail,
        state_since=state.since,
        flavor_id=draft.flavor.id,
        flavor_name=draft.flavor.name,
        vcpu=size.vcpu,
        memory_gib=size.memory_gib,
        disk_gib=size.disk_gib,
        gpus=size.gpus,
        image_id=draft.image.id,
        image_name=draft.image.name,
        image_version=draft.image.version,
        image_sha256=draft.image.sha256,
        image_verdict=draft.image.verdict,
        reservation_id=draft.reservation_id if state.admission_id is not None or not draft.owned else None,
        owns_reservation=draft.owned,
        on_node_loss=draft.on_node_loss,
        node_id=state.node_id,
        node_name=state.node_name,
        allocation_id=state.allocation_id,
        addresses=state.addresses,
        ssh_keys=draft.ssh_keys,
        user_data_sha256=draft.user_data.sha256 if draft.user_data else None,
        labels=draft.labels,
        admission_id=state.admission_id,
        created_at=draft.at,
        ended_at=state.ended_at,
        version=version,
    )
