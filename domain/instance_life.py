"""The verbs that an instance takes, and what a node and a policy are told of it (domain.md §6, §10)."""

from collections.abc import Mapping
from typing import Final

from domain import errors, flavor, instance, node_spec
from domain.instance import State, Status

LIVE: Final[tuple[Status, ...]] = ("pending", "provisioning", "running", "stopping", "stopped", "unknown", "failed")
VERBS: Final[Mapping[str, tuple[Status, ...]]] = {
    "start": LIVE,
    "stop": LIVE,
    "reboot": ("running",),
    "delete": ("draft", *LIVE, "deleting", "deleted"),
}
"""The states in which each verb is legal. What has ended for good takes delete alone."""


def must_take(state: State, verb: str) -> None:
    """Refuse a verb that the state does not take, naming those that it does."""
    ended = state.ended_at is not None
    legal = [name for name, states in VERBS.items() if state.status in states and (not ended or name == "delete")]
    if verb not in legal:
        raise errors.IllegalTransition(state.status, verb, legal, final=state.status in ("denied", "deleted"))


def attributes(draft: instance.Drafted) -> dict[str, str | int | float | bool | list[str]]:
    """What a policy reads of a draft (domain.md §10)."""
    size = draft.flavor.size
    known: dict[str, str | int | float | bool | None] = {
        "vcpu": size.vcpu,
        "memoryGiB": size.memory_gib,
        "gpus": size.gpus.count if size.gpus else 0,
        "imageId": draft.image.id,
        "imageVerified": draft.image.verdict is not None,
        "projectId": draft.project_id,
        "ownerId": draft.identity_id,
    }
    return {name: value for name, value in known.items() if value is not None}


def specified(id: str, state: State, allocation_id: str) -> node_spec.Instance:
    """What its node is told of it."""
    draft = state.draft
    assert draft is not None
    size = draft.flavor.size
    return node_spec.Instance(
        id=id,
        name=draft.name,
        allocation_id=allocation_id,
        kind=draft.kind,
        desired="stopped" if state.desired == "stopped" else "running",
        vcpu=size.vcpu,
        memory_mib=size.memory_gib * flavor.MIB_A_GIB,
        disk_gib=size.disk_gib,
        image=node_spec.Image(draft.image.sha256, draft.image.size_bytes, draft.image.format),
    )
