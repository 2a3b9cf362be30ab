"""The instances of a node: a keeper for each, and what the plane is told of them (domain.md §6, §8)."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from adapters.agent import protocol
from adapters.agent.driver import Driver, Failed, Held, Wanted
from adapters.agent.keeper import Keeper
from domain.node_spec import InstanceStatus, Status

RETRY_SECONDS: Final = 5.0
_GONE_SECONDS: Final = 0.5
"""What goes quickly is waited for, so that the report of its allocation need not come later."""
_NO_DRIVER: Final = InstanceStatus("failed", "NoDriver", "the agent of this node was started without --driver")


class Instances:
    """`follow` a NodeSpec, and say when allocations are `prepared`; all else happens beside that.

    `told` hears of news, with True where something may have gone. Without a driver nothing runs here.
    """

    def __init__(self, driver: Driver | None = None, retry_seconds: float = RETRY_SECONDS) -> None:
        self.driver = driver
        self.told: Callable[[bool], None] = lambda _: None
        self._retry_seconds = retry_seconds
        self._wanted: dict[str, Wanted] = {}
        self._keepers: dict[str, Keeper] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def changed(self) -> None:
        """The driver has news."""
        held = self._held()
        for id, keeper in self._keepers.items():
            keeper.look(held.get(id))
        self.told(False)

    def follow(self, spec: protocol.Spec, without: Collection[str] = ()) -> None:
        """Begin to take away what the spec has not, or has on an allocation of `without`, or that is not in it."""
        devices = {one.id: one.cdi_devices for one in spec.allocations if one.id not in without}
        self._wanted = {
            one.id: Wanted(one, devices[one.allocation_id], spec.tokens.get(one.allocation_id, ""))
            for one in spec.instances
            if one.allocation_id in devices
        }
        if self.driver is None:
            return
        for id in {*self._wanted, *self.driver.held(), *self._keepers}:
            self._keeper(id, self.driver).want(self._wanted.get(id))

    def prepared(self, items: Mapping[str, Status]) -> None:
        """How allocations are: what is on them is brought once they are prepared."""
        for id, wanted in self._wanted.items():
            if id in self._keepers:
                self._keepers[id].prepared(items.get(wanted.instance.allocation_id, "preparing"))

    def leaving(self) -> set[str]:
        """Allocations that something is still on which is to leave them."""
        held = self._held()
        return {one for id, keeper in self._keepers.items() for one in keeper.leaving(held.get(id))}

    def staying(self) -> set[str]:
        """Allocations that something is on which shall be there."""
        return {one.allocation_id for one in self._held().values()} - self.leaving()

    async def gone(self, seconds: float = _GONE_SECONDS) -> set[str]:
        """The allocations that are `leaving` still, after a moment in which that may end."""
        held = self._held()
        going = [self._tasks[id] for id, keeper in self._keepers.items() if keeper.leaving(held.get(id))]
        if going:
            await asyncio.wait(going, timeout=seconds)
        return self.leaving()

    def statuses(self) -> dict[str, InstanceStatus]:
        if self.driver is None:
            return dict.fromkeys(self._wanted, _NO_DRIVER)
        held = self._held()
        known = ((id, keeper.status(held.get(id))) for id, keeper in self._keepers.items())
        return {id: status for id, status in known if status is not None}

    async def reboot(self, instance_id: str) -> None:
        """Raises Failed where it does not run here."""
        keeper = self._keepers.get(instance_id)
        if keeper is None:
            raise Failed("NoSuchInstance", "nothing is known of it here")
        await keeper.reboot()

    async def close(self) -> None:
        """Break off what is being done. Instances stay as they are."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _held(self) -> Mapping[str, Held]:
        return self.driver.held() if self.driver is not None else {}

    def _keeper(self, id: str, driver: Driver) -> Keeper:
        known = self._keepers.get(id)
        if known is not None:
            return known
        keeper = Keeper(id, driver, lambda gone: self.told(gone), self._retry_seconds)
        self._keepers[id] = keeper
        task = asyncio.create_task(keeper.run())
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._ended(id, task))
        return keeper

    def _ended(self, id: str, task: "asyncio.Task[None]") -> None:
        """Nothing of it is here or wanted; one that crashed is kept anew at the next spec."""
        if self._tasks.get(id) is task:
            del self._tasks[id], self._keepers[id]
        if not task.cancelled():
            self.told(True)
