"""Whether a reservation that its tenant made before can carry an instance (domain.md §6)."""

from collections.abc import Iterator
from typing import Final

from domain import errors, flavor, reservation

CARRIES: Final[tuple[reservation.Status, ...]] = ("pending", "placed", "binding", "active")
_FIELD: Final = "reservationId"


def check(size: flavor.Size, pool_id: str, state: reservation.State) -> None:
    """Refuse what cannot be, naming the field; the flavor's GPUs are all that the reservation has, and no others."""
    draft = state.draft
    assert draft is not None
    if draft.binding != "instance":
        raise errors.Invalid(_FIELD, f"its binding is {draft.binding}; instances run on those with binding instance")
    if draft.instance_id is not None:
        raise _conflict(f"it came with {draft.instance_id} and ends with it")
    if draft.pool_id != pool_id:
        raise errors.Invalid("poolId", f"the reservation is of {draft.pool_id}")
    if state.status not in CARRIES:
        raise _conflict(f"it is {state.status}; an instance needs one that is {', '.join(CARRIES)}")
    if state.instance_id is not None:
        raise _conflict(f"{state.instance_id} runs on it")
    lacks = "; ".join(_lacks(size, draft))
    if lacks:
        raise errors.Invalid("flavorId", f"the reservation is not what the flavor needs: {lacks}")


def _lacks(size: flavor.Size, draft: reservation.Drafted) -> Iterator[str]:
    """An instance is given every GPU of its allocation: another count would be another instance than was decided on."""
    of_class: dict[str, int] = {}
    for line in draft.claim.devices:
        if line.class_.startswith("gpu"):
            of_class[line.class_] = of_class.get(line.class_, 0) + line.count
    needed: dict[str, int] = {} if size.gpus is None else {size.gpus.class_: size.gpus.count}
    for name in sorted(of_class | needed):
        if of_class.get(name, 0) != needed.get(name, 0):
            yield f"{needed.get(name, 0)} {name}, it has {of_class.get(name, 0)}"
    for scalar, amount in flavor.claim(size).scalars.items():
        if draft.claim.scalars.get(scalar, 0) < amount:
            yield f"{amount} {scalar}, it has {draft.claim.scalars.get(scalar, 0)}"


def carried(state: reservation.State) -> reservation.Allocation | None:
    """The allocation that its node has, or is to have, prepared by now."""
    bound = state.status in ("binding", "active")
    return state.allocations[0] if bound and state.allocations else None


def _conflict(message: str) -> errors.Conflict:
    return errors.Conflict(f"{_FIELD}: {message}", errors=(errors.FieldError(_FIELD, message),))
