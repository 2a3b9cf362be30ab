"""What holds of instances: each event as it comes, and what nodes are told (domain.md §6, §8)."""

from collections import Counter
from collections.abc import Iterable

from commands.ports import Loaded
from domain import instance, node
from domain.event import Recorded
from histories.model import FINAL, RUNNING, Model


def of_event(model: Model, recorded: Recorded) -> None:
    """What must hold once the append that brought the event is in the log."""
    of = model.instances.get(recorded.stream)
    if of is None:
        return
    under = model.reservations.get(of.draft.reservation_id)
    match recorded.event:
        case instance.Placed(node_id=node_id, allocation_id=allocation_id):
            assert under is not None
            hold = under.holds[allocation_id]
            assert under.status in RUNNING, f"{of.id} is placed on a reservation that is {under.status}"
            assert (hold.node_id, hold.bound, hold.live) == (node_id, True, True)
            alone_on(model, of.draft.reservation_id)
        case instance.Deleted() | instance.Failed() if under is not None and of.draft.owned:
            assert under.status in FINAL, f"{of.id} is over, what it brought is {under.status}"
        case instance.Failed():
            raise AssertionError(f"{of.id} ran on a reservation of its tenant's: it is deleted with it")


def alone_on(model: Model, reservation_id: str) -> None:
    on = [of.id for of in model.instances.values() if of.draft.reservation_id == reservation_id and not of.over]
    assert len(on) <= 1, f"{on} are on {reservation_id}"


def nodes_have_what_they_should(model: Model, nodes: Iterable[Loaded]) -> None:
    """An instance that is on a node is in its NodeSpec and in no other, with its allocation, as it is wished."""
    told: Counter[str] = Counter()
    for loaded in nodes:
        state: node.State = loaded.state
        allocations = {one.id for one in state.allocations}
        for one in state.instances:
            of = model.instances[one.id]
            assert one.allocation_id in allocations, f"{one.id} has no allocation in the NodeSpec"
            assert not of.over
            assert of.status != "deleting"
            assert one.desired == of.wished
            told[one.id] += 1
    there = {of.id for of in model.instances.values() if of.on and not of.over and of.status != "deleting"}
    assert told == Counter(there)


def none_outlives_its_reservation(model: Model) -> None:
    """Once the controller has looked."""
    for of in model.instances.values():
        under = model.reservations.get(of.draft.reservation_id)
        assert of.over or under is None or under.status not in FINAL, f"{of.id} is {of.status} on what has ended"
