"""On, off and on again: what a running machine is told over QMP."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from adapters.agent.qemu.qmp import Qmp, QmpError

PRESS_SECONDS: Final = 10.0
"""A guest that is still booting does not notice its power button: it is pressed again."""
BROKEN: Final = ("internal-error", "guest-panicked", "watchdog")
"""States that end with the machine alone."""
_MOMENT_SECONDS: Final = 0.5
_AGAIN_SECONDS: Final = 0.05
_TRIES: Final = 100


async def as_usual(line: Qmp) -> None:
    """When its guest shuts down the machine ends; a reboot that was cut short may have left it otherwise."""
    with contextlib.suppress(QmpError):
        await line.ask("set-action", shutdown="poweroff")


async def goes_on(line: Qmp) -> str:
    """Make it run if it waits, and answer in which state it is a moment later."""
    status = await _status(line)
    if status == "shutdown":
        await _reset(line)
    elif status in ("io-error", "paused", "prelaunch"):
        await line.ask("cont")
    else:
        return status
    await asyncio.sleep(_MOMENT_SECONDS)
    return await _status(line)


async def waits(line: Qmp) -> bool:
    return await _status(line) not in ("running", "suspended")


async def off(line: Qmp, ended: Callable[[float], Awaitable[bool]], seconds: float) -> None:
    """Ask its guest to shut down, for so long; then end it without."""
    if not await waits(line):
        while seconds > 0:
            await line.ask("system_powerdown")
            if await ended(min(seconds, PRESS_SECONDS)):
                return
            seconds -= PRESS_SECONDS
    await line.ask("quit")
    await ended(PRESS_SECONDS)


async def reboot(line: Qmp, off: asyncio.Event, seconds: float) -> None:
    """`off` is set once the guest has shut down, upon which the machine waits for this instead of ending."""
    try:
        await line.ask("set-action", shutdown="pause")
        while seconds > 0 and not off.is_set():
            await line.ask("system_powerdown")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(off.wait(), min(seconds, PRESS_SECONDS))
            seconds -= PRESS_SECONDS
        await _reset(line)
    finally:
        await as_usual(line)


async def _reset(line: Qmp) -> None:
    """The reset is done a moment after it was asked for; until then a machine that was shut down does not go on."""
    await line.ask("system_reset")
    for _ in range(_TRIES):
        with contextlib.suppress(QmpError):
            await line.ask("cont")
            return
        await asyncio.sleep(_AGAIN_SECONDS)
    raise QmpError("it did not go on after it was reset")


async def _status(line: Qmp) -> str:
    return str((await line.ask("query-status"))["status"])
