"""Keeps one instance as its NodeSpec says: one act of the driver at a time, and again after a pause where it failed."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from adapters.agent.driver import Driver, Failed, Held, Wanted
from domain.node_spec import InstanceStatus, Status

_log = logging.getLogger("better_compute.agent")

STEADY_SECONDS: Final = 60.0
"""What went well for so long begins with the shortest pause again."""
LONGEST_RETRY: Final = 6.0
"""Pauses double from the first one up to so many times it."""
_REASON, _DETAIL, _ADDRESS, _ADDRESSES = 63, 255, 64, 16
_Due = Literal["bring", "take away"]


class Keeper:
    """`want` says what shall be; `run` sees to it until nothing is wanted and nothing is here.

    `told` hears of news, with True where something of it may have gone.
    """

    def __init__(self, id: str, driver: Driver, told: Callable[[bool], None], retry_seconds: float) -> None:
        self._id = id
        self._driver = driver
        self._told = told
        self._retry_seconds = retry_seconds
        self._wanted: Wanted | None = None
        self._allocation: Status = "preparing"
        self._problem: InstanceStatus | None = None
        self._seen: Held | None = None
        self._news = asyncio.Event()
        self._lock = asyncio.Lock()
        self._act: asyncio.Task[None] | None = None
        self._acts_on: str | None = None
        self._failures = 0
        self._again_at = 0.0
        self._ended_at = 0.0

    @property
    def held(self) -> Held | None:
        return self._driver.held().get(self._id)

    def leaving(self, held: Held | None) -> set[str]:
        """Allocations that it must be off before they are torn down."""
        on = {self._acts_on} if self._acts_on else set()
        if held is not None:
            on.add(held.allocation_id)
        return on - ({self._wanted.instance.allocation_id} if self._wanted else set())

    def want(self, wanted: Wanted | None) -> None:
        """Another wish than before is seen to at once, and what was being done for the old one is broken off.

        What is being taken away goes to the end.
        """
        if _wish(wanted) != _wish(self._wanted):
            self._failures, self._again_at, self._problem = 0, 0.0, None
            if self._act is not None and self._acts_on is not None:
                self._act.cancel()
        self._wanted = wanted
        self._news.set()

    def prepared(self, allocation: Status) -> None:
        """How the devices of its allocation are: nothing is brought before they are prepared."""
        self._allocation = allocation
        self._news.set()

    def look(self, held: Held | None) -> None:
        """What the driver has of it now; only what is news wakes it."""
        if held != self._seen:
            self._news.set()

    def status(self, held: Held | None) -> InstanceStatus | None:
        """What its node says of it; None where it is neither wanted nor here."""
        if held is not None and self._as_wanted(held):
            return clipped(held.status)
        if self._problem is not None:
            return self._problem
        if held is not None:
            return clipped(held.status)
        if self._wanted is None:
            return None
        if self._allocation == "failed":
            return InstanceStatus("failed", "DevicesNotPrepared", "the devices of its allocation cannot be prepared")
        return InstanceStatus("provisioning")

    async def run(self) -> None:
        while True:
            self._news.clear()
            due, self._seen = self._due(), self.held
            if due is None and self._wanted is None and self.held is None:
                return
            pause = self._again_at - time.monotonic()
            if due is None or pause > 0:
                await self._wait(None if due is None else pause)
                continue
            async with self._lock:
                if self._due() == due:
                    await self._do(due)
            self._told(self._wanted is None or due == "take away")

    async def reboot(self) -> None:
        """Raises Failed where it does not run."""
        async with self._lock:
            held = self.held
            if held is None or held.status.state != "running":
                raise Failed("NotRunning", f"it is {held.status.state if held else 'not here'}")
            act = await self._alone(lambda: self._driver.reboot(self._id), held.allocation_id)
        self._told(self._wanted is None)
        if act.cancelled():
            raise Failed("Interrupted", "it shall be otherwise by now")
        act.result()

    def _due(self) -> _Due | None:
        held, wanted = self.held, self._wanted
        if held is not None and (wanted is None or held.allocation_id != wanted.instance.allocation_id):
            return "take away"
        if wanted is None or self._allocation != "prepared" or (held is not None and self._as_wanted(held)):
            return None
        return "bring"

    def _as_wanted(self, held: Held) -> bool:
        wanted = self._wanted.instance if self._wanted else None
        if wanted is None or held.allocation_id != wanted.allocation_id:
            return False
        return held.status.state == wanted.desired

    async def _do(self, due: _Due) -> None:
        """What a wish that is none any more came to says nothing."""
        if time.monotonic() - self._ended_at > STEADY_SECONDS:
            self._failures = 0
        wish = _wish(self._wanted)
        if due == "bring":
            wanted = self._wanted
            assert wanted is not None
            act = await self._alone(lambda: self._driver.bring(wanted), wanted.instance.allocation_id)
        else:
            act = await self._alone(lambda: self._driver.take_away(self._id), None)
        if act.cancelled() or (wish != _wish(self._wanted) and due == "bring"):
            return
        problem = act.exception()
        self._problem = self._why(due, problem)
        if due == "take away" and problem is None:
            self._failures, self._again_at = 0, 0.0
            return
        self._ended_at = time.monotonic()
        self._again_at = self._ended_at + self._retry_seconds * min(LONGEST_RETRY, 2.0**self._failures)
        self._failures += 1

    def _why(self, due: _Due, problem: BaseException | None) -> InstanceStatus | None:
        """What went wrong, in words for the plane."""
        if problem is None:
            return None
        known = isinstance(problem, Failed)
        fields = {"instance": self._id, "why": str(problem)}
        _log.warning(
            "a node could not %s an instance", due, extra={"fields": fields}, exc_info=None if known else problem
        )
        if isinstance(problem, Failed):
            return clipped(InstanceStatus("failed", problem.reason, problem.detail or None))
        return clipped(InstanceStatus("failed", "Crashed", f"{type(problem).__name__}: {problem}"))

    async def _alone(self, work: Callable[[], Awaitable[None]], allocation_id: str | None) -> "asyncio.Task[None]":
        """Do it as a task that `want` can cancel, and answer the task when it has ended."""
        act = asyncio.create_task(_awaited(work))
        self._act, self._acts_on = act, allocation_id
        try:
            await asyncio.wait([act])
        finally:
            if not act.done():
                act.cancel()
                await asyncio.gather(act, return_exceptions=True)
            self._act = self._acts_on = None
        return act

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _wish(wanted: Wanted | None) -> Any:
    return wanted and (wanted.instance, wanted.cdi_devices)


def clipped(status: InstanceStatus) -> InstanceStatus:
    """As bcd/v1 takes it, whatever a driver says."""
    return InstanceStatus(
        status.state,
        status.reason and status.reason[:_REASON],
        status.detail and status.detail[:_DETAIL],
        tuple(one[:_ADDRESS] for one in status.addresses[:_ADDRESSES]),
    )
