"""What a node says of the instances that it has (domain.md §6, §8)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from commands.gathering import Loads
from domain import instance, reservation
from domain.event import Change
from domain.node_spec import InstanceStatus

Instances = Mapping[str, InstanceStatus]
NONE: Final[Instances] = MappingProxyType({})
ABSENT: Final = InstanceStatus("provisioning", "NotThere")
"""What is said of an instance by leaving it out that had been there."""


def heard(
    loads: Loads, reservation_id: str, state: reservation.State, node_id: str, observed: int, said: Instances, now: int
) -> list[Change]:
    """What a node's word brings of the instance on a reservation that is bound there."""
    if state.instance_id is None:
        return []
    loaded = loads.load(state.instance_id)
    on: instance.State = loaded.state
    if on.ended_at is not None or on.node_id != node_id or on.generation is None or observed < on.generation:
        return []
    if on.status == "deleting":
        if state.instance_id in said or not _leaves_alone(on):
            return []
        gone = instance.Deleted(on.reason or "Deleted", now)
        detached = reservation.InstanceDetached(state.instance_id, now)
        own = Change(reservation_id, loads.load(reservation_id).version, (detached,))
        return [own, Change(state.instance_id, loaded.version, (gone,))]
    told = news(on, said.get(state.instance_id), now)
    return [Change(state.instance_id, loaded.version, (told,))] if told else []


def _leaves_alone(on: instance.State) -> bool:
    """Whether it goes and the reservation stays: what goes with its reservation is gone when that has ended."""
    return on.draft is not None and not on.draft.owned and on.desired == "deleted"


def news(on: instance.State, said: InstanceStatus | None, now: int) -> instance.Reported | None:
    """The event of a word that is news; another `detail` alone is none: it may be another with every word.

    What is left out was not begun yet, or is not there any more.
    """
    if said is None:
        begun = on.observed is not None or on.status == "unknown"
        said = ABSENT if begun else InstanceStatus("provisioning")
    same = (on.status, on.reason, on.addresses) == (said.state, said.reason, said.addresses)
    return None if same else instance.Reported(said.state, now, said.reason, said.detail, said.addresses)
