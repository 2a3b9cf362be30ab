"""Sends the ends of instances' consoles to the plane, each when there is more of it."""

import asyncio
from typing import Final

from adapters.agent import protocol
from adapters.agent.driver import Driver
from adapters.agent.protocol import Tell

AT_ONCE: Final = 64
"""The plane drops what comes in larger heaps. Who was told longest ago is next."""


class Consoles:
    def __init__(self, driver: Driver, seconds: float) -> None:
        self._driver = driver
        self._seconds = seconds
        self._told: dict[str, int] = {}

    def begin(self) -> None:
        """A session begins: what the one before was told may not have been kept."""
        self._told.clear()

    async def run(self, tell: Tell) -> None:
        """Until cancelled."""
        while True:
            await self.look(tell)
            await asyncio.sleep(self._seconds)

    async def look(self, tell: Tell) -> None:
        held = self._driver.held()
        self._told = {id: total for id, total in self._told.items() if id in held}
        left = AT_ONCE
        for id in [*(held.keys() - self._told.keys()), *self._told]:
            console = self._driver.console(id)
            if console is None or self._told.get(id) == console.total_bytes:
                continue
            self._told.pop(id, None)
            self._told[id] = console.total_bytes
            said = protocol.Console(id, console.total_bytes, console.tail[-protocol.MAX_CONSOLE :])
            await tell(lambda _, said=said: said)  # type: ignore[misc]
            left -= 1
            if not left:
                return
