"""Looks at the machine again and again, and says when it is another (domain.md §4, "Inventory")."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from adapters.inventory.fragment import InventoryError
from domain import inventory
from domain.inventory import NodeInventory

_log = logging.getLogger("better_compute.agent")

AT_LEAST_SECONDS: Final = 3_600.0
"""An inventory is told that often even when nothing changed, well within the day after which it counts as stale."""


class Watch:
    """`found` is the newest look. `look` takes seconds, so it runs in a thread; one at a time is enough."""

    def __init__(
        self,
        look: Callable[[], NodeInventory],
        seconds: float,
        at_least: float = AT_LEAST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._seconds = seconds
        self._at_least = at_least
        self._clock = clock
        self._lock = asyncio.Lock()
        self._told = clock()
        self.found = NodeInventory()

    async def look(self) -> bool:
        """Look now, and say whether any section is another; raises InventoryError for a machine that cannot be read."""
        async with self._lock:
            found = await asyncio.to_thread(self._look)
            changed = inventory.section_hashes(found) != inventory.section_hashes(self.found)
            self.found = found
        return changed

    async def run(self, tell: Callable[[], Awaitable[None]], looked: Callable[[], None]) -> None:
        """Until cancelled. `tell` is called for news, `looked` after every look."""
        while True:
            await asyncio.sleep(self._seconds)
            try:
                changed = await self.look()
            except InventoryError as wrong:
                _log.warning("the machine could not be read", extra={"fields": {"why": str(wrong)}})
                continue
            if changed or self._clock() - self._told >= self._at_least:
                self._told = self._clock()
                await tell()
            looked()
