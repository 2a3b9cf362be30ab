"""What policies read of a thing, told plainly from its history; the catalog must say just that (domain.md §10)."""

from collections.abc import Sequence
from typing import Any

from domain import extension, image, instance, node, pool, project, registry, reservation, site
from domain.event import Event

HOUR = 3_600_000
Row = tuple[str, str, str | None, dict[str, Any]]
"""Type, tenant, parent, attributes."""


def expected(stream: str, events: Sequence[Event]) -> Row | None:
    """None of what has no row: it is no resource, or no more."""
    if not events:
        return None
    told: dict[str, Any]
    match registry.fold(stream, events):
        case site.State() as of:
            told = {"region": of.iam_region, "iamRegion": of.iam_region, "kind": of.kind}
            return "compute-site", of.owner_tenant_id, None, told
        case project.State() as of:
            return "compute-project", of.owner_tenant_id, None, {}
        case pool.State() as of:
            gpu = {"gpuModel": of.gpu_model, "gpuMemoryGb": of.gpu_memory_gb}
            told = {"region": of.region, "class": of.class_, "sharing": of.sharing} | gpu
            return "compute-pool", of.owner_tenant_id, None, told
        case node.State() as of:
            told = {"region": of.region, "lifecycle": of.provision_state, "trust": of.trust, "gpuCount": of.gpu_count}
            told |= {} if of.gpu_model is None else {"gpuModel": of.gpu_model}
            return "compute-node", of.owner_tenant_id, of.pool_id, told
        case image.State() as of:
            told = {"visibility": of.visibility, "verified": of.verified}
            return "compute-image", of.owner_tenant_id, None, told
        case instance.State(draft=draft) if draft is not None:
            return "compute-instance", draft.tenant_id, draft.pool_id, _of_instance(draft)
        case reservation.State(draft=draft) if draft is not None:
            return "compute-reservation", draft.tenant_id, draft.pool_id, _of_draft(draft) | _hours(draft, events)
        case _:
            return None


def of_extension(events: Sequence[Event], of: Row) -> Row | None:
    """While it is open it is the reservation as it would be."""
    match events:
        case [extension.Drafted(committed=True, duration_hours=hours)]:
            return *of[:3], of[3] | {"durationHours": hours}
        case _:
            return None


def _of_instance(draft: instance.Drafted) -> dict[str, Any]:
    size = draft.flavor.size
    told = {
        "vcpu": size.vcpu,
        "memoryGiB": size.memory_gib,
        "gpus": 0 if size.gpus is None else size.gpus.count,
        "imageId": draft.image.id,
        "imageVerified": draft.image.verdict is not None,
        "ownerId": draft.identity_id,
    }
    return told if draft.project_id is None else told | {"projectId": draft.project_id}


def _of_draft(draft: reservation.Drafted) -> dict[str, Any]:
    told = {
        "region": draft.region,
        "gpuModel": draft.gpu_model,
        "gpuCount": draft.gpu_count,
        "binding": draft.binding,
        "ownerId": draft.identity_id,
        "spot": draft.spot,
    }
    return told if draft.project_id is None else told | {"projectId": draft.project_id}


def _hours(draft: reservation.Drafted, events: Sequence[Event]) -> dict[str, float]:
    """As asked for, or the total since it was last extended or shortened; what came with an instance has no end."""
    moved = [event.claimed for event in events if isinstance(event, reservation.Extended)]
    if not moved and draft.instance_id is not None:
        return {}
    seconds = (moved[-1].until - moved[-1].from_) / 1000 if moved else draft.duration_seconds
    return {"durationHours": seconds / 3600}
