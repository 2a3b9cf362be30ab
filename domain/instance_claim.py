"""What an instance claims of a pool: the draft of the reservation that it brings with it (domain.md §5, §6)."""

from typing import Final

from domain import claim, errors, flavor, instance, pool, reservation
from domain.reservation_terms import OPEN_END

BINDING: Final = "instance"


def check(size: flavor.Size, of: pool.State, max_pending_seconds: int | None = None) -> None:
    """Refuse what cannot be, naming the field of the instance's request."""
    if of.retired:
        raise errors.Conflict("the pool is retired and takes nothing new")
    if pool.binding(of) != BINDING:
        raise errors.Invalid("poolId", f"pools of class {of.class_} run no instances; take one of class vps-host")
    sold = pool.device_classes(of)
    if size.gpus is not None and size.gpus.class_ not in sold:
        raise errors.Invalid("flavorId", f"its GPUs are of class {size.gpus.class_}; this pool has {', '.join(sold)}")
    longest = of.policy.max_pending
    if max_pending_seconds is not None and max_pending_seconds > longest:
        raise errors.Invalid("maxPendingSeconds", f"claims of this pool wait at most {longest} seconds")


def draft(asked: instance.Drafted, instance_id: str, of: pool.State) -> reservation.Drafted:
    """Open-ended, on one node, from as soon as it can; its id is the instance's `reservation_id`."""
    wanted = flavor.claim(asked.flavor.size)
    waits = asked.max_pending_seconds
    return reservation.Drafted(
        tenant_id=asked.tenant_id,
        identity_id=asked.identity_id,
        pool_id=asked.pool_id,
        pool_name=of.name,
        claim=wanted,
        duration_seconds=(OPEN_END - asked.at) // 1000,
        binding=BINDING,
        spot=False,
        max_pending_seconds=of.policy.max_pending if waits is None else waits,
        gpu_count=claim.gpu_count(wanted, 0),
        gpu_model=of.gpu_model,
        region=of.region,
        body=asked.body,
        at=asked.at,
        labels=asked.labels,
        project_id=asked.project_id,
        instance_id=instance_id,
        replaced_when_lost=asked.on_node_loss == "replace",
    )
