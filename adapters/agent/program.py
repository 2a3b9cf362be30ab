"""Programs that the agent runs for a command: they end with it, and never print without bound."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

MAX_OUTPUT: Final = 1_048_576
"""Bytes of each output that are kept; what comes after is read and dropped."""


class Done(Struct, frozen=True):
    """How a program ended: its exit code, 127 when there is none of that name, and what it printed."""

    code: int
    printed: bytes = b""
    complained: bytes = b""

    def why(self, limit: int = 300) -> str:
        """What it said of its failure, as one line; some say it on standard output."""
        said = (self.complained.strip() or self.printed.strip()).decode(errors="replace")
        return " ".join(said.split())[-limit:] or f"exit code {self.code}"


Run = Callable[[Sequence[str]], Awaitable[Done]]


async def run(command: Sequence[str]) -> Done:
    """Run to its end. When the caller is cancelled, it and all that it started are killed first."""
    found = shutil.which(command[0])
    if found is None:
        return Done(127, complained=f"{command[0]}: not found".encode())
    process = await asyncio.create_subprocess_exec(
        found,
        *command[1:],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"LC_ALL": "C"},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        printed, complained = await asyncio.gather(_read(process.stdout), _read(process.stderr))
        return Done(await process.wait(), printed, complained)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise


async def _read(stream: asyncio.StreamReader) -> bytes:
    kept = bytearray()
    while chunk := await stream.read(65_536):
        kept += chunk[: MAX_OUTPUT - len(kept)]
    return bytes(kept)
