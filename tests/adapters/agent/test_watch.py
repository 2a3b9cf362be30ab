"""The machine is looked at again and again, and told of when it is another, or when an hour has passed."""

import pytest
from fake_plane import scenario

from adapters.agent import machines
from adapters.agent.watch import Watch
from adapters.inventory.fragment import InventoryError
from domain.inventory import NodeInventory

FIRST, OTHER = (NodeInventory.convert(machines.inventory_for("L4", index=n)) for n in range(2))


class Looks:
    """What each look finds; the last for ever. An exception is raised."""

    def __init__(self, *found):
        self.found = list(found)
        self.count = 0
        self.told = 0

    def __call__(self):
        self.count += 1
        found = self.found[0] if len(self.found) == 1 else self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def tell(self):
        self.told += 1


class Enough(Exception):
    pass


async def watched(watch, looks, times):
    """Until it has looked so often."""
    left = iter(range(times - 1))

    def looked():
        if next(left, None) is None:
            raise Enough

    with pytest.raises(Enough):
        await watch.run(looks.tell, looked)


@scenario
async def test_what_is_the_same_is_told_once_and_what_is_another_again():
    looks = Looks(FIRST, FIRST, OTHER)
    watch = Watch(looks, 0.001)
    assert await watch.look()
    assert not await watch.look()
    await watched(watch, looks, 4)
    assert (looks.told, watch.found) == (1, OTHER)


@scenario
async def test_an_hour_without_news_is_told_too():
    looks, times = Looks(FIRST), iter(range(0, 1_000_000, 1_800))
    watch = Watch(looks, 0.001, clock=lambda: float(next(times)))
    await watch.look()
    await watched(watch, looks, 6)
    assert looks.told == 3


@scenario
async def test_a_look_that_fails_changes_nothing():
    looks = Looks(FIRST, InventoryError("lsblk", "is odd", "mend it"), FIRST)
    watch = Watch(looks, 0.001)
    await watch.look()
    await watched(watch, looks, 4)
    assert (looks.told, watch.found) == (0, FIRST)


@scenario
async def test_a_machine_that_cannot_be_read_at_all_is_an_error():
    with pytest.raises(InventoryError):
        await Watch(Looks(InventoryError("lsblk", "is odd", "mend it")), 1).look()
