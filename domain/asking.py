"""A claim as it is asked for, to have it or to preview it: its fields, what cannot be, and the draft it makes."""

from typing import Annotated, Final

from msgspec import Meta

from domain import claim, errors, pool, reservation
from domain.access import Session
from domain.labels import Labels
from domain.operation import Request
from domain.policy.instant import written
from domain.reservation_terms import OPEN_END
from domain.selector import Selectors

LATE_MS: Final = 5_000
AHEAD_MS: Final = 5 * 366 * 86_400_000

Window = tuple[int, int]
"""`[from, until)` in epoch ms."""


class Asking(Request, frozen=True, kw_only=True):
    """A claim on a pool, per node of the gang; without `startsAt` it starts now or as soon as it can."""

    pool_id: str
    devices: Annotated[tuple[claim.DeviceLine, ...], Meta(min_length=1, max_length=16)]
    nodes: Annotated[int, Meta(ge=1, le=1024, description="gang size")] = 1
    topology: claim.Topology | None = None
    scalars: dict[claim.Scalar, Annotated[int, Meta(ge=0, le=2**40)]] = {}
    starts_at: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms")] | None = None
    duration_seconds: Annotated[int, Meta(ge=60, le=366 * 86_400)]
    binding: reservation.Binding = "hold"
    lease_seconds: Annotated[int, Meta(ge=30, le=86_400, description="it ends unless renewed in time")] | None = None
    spot: bool = False
    max_pending_seconds: Annotated[int, Meta(ge=0, le=366 * 86_400, description="0: now or never")] | None = None
    project_id: str | None = None
    labels: Labels = {}


def wanted(asked: Asking) -> claim.Claim:
    return claim.Claim(asked.devices, asked.nodes, asked.topology, asked.scalars)


def check(asked: Asking, of: pool.State, now: int, selectors: Selectors) -> None:
    """Refuse what cannot be, naming the field."""
    claim.check(wanted(asked))
    if of.retired:
        raise errors.Conflict("the pool is retired and takes nothing new")
    _binds(asked, of)
    sold = pool.device_classes(of)
    for index, line in enumerate(asked.devices):
        if line.class_ not in sold:
            raise errors.Invalid(f"devices[{index}].class", f"this pool has {', '.join(sold)}")
        if line.selector is not None:
            selectors.compile(line.selector, f"devices[{index}].selector")
    if asked.starts_at is not None:
        if asked.starts_at < now - LATE_MS:
            raise errors.Invalid("startsAt", f"lies in the past; now is {written(now)}")
        if asked.starts_at > now + AHEAD_MS:
            raise errors.Invalid("startsAt", "lies more than five years ahead")
    longest = of.policy.max_pending
    if asked.max_pending_seconds is not None and asked.max_pending_seconds > longest:
        raise errors.Invalid("maxPendingSeconds", f"claims of this pool wait at most {longest} seconds")


def _binds(asked: Asking, of: pool.State) -> None:
    """What an instance shall run on is one node, and may be scalars alone."""
    binding = pool.binding(of)
    if binding not in ("hold", "instance"):
        raise errors.Invalid("poolId", f"pools of class {of.class_} cannot be reserved yet: binding node is not built")
    if asked.binding != binding:
        raise errors.Invalid("binding", f"reservations of this pool have binding {binding}")
    if binding == "instance" and asked.nodes > 1:
        raise errors.Invalid("nodes", "an instance runs on one node; make a reservation for each")
    if binding == "hold" and not any(line.count for line in asked.devices):
        raise errors.Invalid("devices[0].count", "ask for at least one device")


def draft(
    asked: Asking, of: pool.State, session: Session, now: int, largest: int, body: str = ""
) -> reservation.Drafted:
    """What would be decided on; `largest` are the GPUs of the pool's largest node."""
    waits, starts_at = asked.max_pending_seconds, asked.starts_at
    return reservation.Drafted(
        tenant_id=session.tenant_id,
        identity_id=session.identity_id,
        pool_id=asked.pool_id,
        pool_name=of.name,
        claim=wanted(asked),
        duration_seconds=asked.duration_seconds,
        binding=asked.binding,
        spot=asked.spot,
        max_pending_seconds=of.policy.max_pending if waits is None else waits,
        gpu_count=claim.gpu_count(wanted(asked), largest),
        gpu_model=of.gpu_model,
        region=of.region,
        body=body,
        at=now,
        labels=asked.labels,
        lease_seconds=asked.lease_seconds,
        starts_at=starts_at if starts_at is None else max(starts_at, now),
        project_id=asked.project_id,
    )


def attributes(draft: reservation.Drafted) -> dict[str, str | int | float | bool | list[str]]:
    """What a policy reads of a draft; durationHours is the exact seconds / 3600, none where it is open-ended."""
    known: dict[str, str | int | float | bool | None] = {
        "region": draft.region,
        "gpuModel": draft.gpu_model,
        "gpuCount": draft.gpu_count,
        "durationHours": None if draft.instance_id else draft.duration_seconds / 3600,
        "binding": draft.binding,
        "projectId": draft.project_id,
        "ownerId": draft.identity_id,
        "spot": draft.spot,
    }
    return {name: value for name, value in known.items() if value is not None}


def asked_for(draft: reservation.Drafted) -> Window:
    """The time that it asks for, were it to begin when it was asked."""
    start = draft.at if draft.starts_at is None else draft.starts_at
    return start, OPEN_END if draft.instance_id is not None else start + draft.duration_seconds * 1000


def at_once(draft: reservation.Drafted, now: int) -> Window:
    """When it runs if it need not wait; a start that comes late keeps its end, and leaves less or nothing."""
    if draft.instance_id is not None:
        return now, OPEN_END
    start = now if draft.starts_at is None else draft.starts_at
    return max(start, now), start + draft.duration_seconds * 1000


def waiting(draft: reservation.Drafted, now: int) -> tuple[Window, int]:
    """While it waits: what it claims of its quotas, and the instant at which it gives up."""
    duration_ms, give_up_at = draft.duration_seconds * 1000, now + draft.max_pending_seconds * 1000
    if draft.instance_id is not None:
        return (now, OPEN_END), give_up_at
    if draft.starts_at is None:
        return (now, give_up_at + duration_ms), give_up_at
    window = (draft.starts_at, draft.starts_at + duration_ms)
    return window, min(give_up_at, window[1])
