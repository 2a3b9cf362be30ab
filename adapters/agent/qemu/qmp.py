"""The QEMU Machine Protocol: commands and events of one running machine, as JSON lines on a socket."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.agent.qemu.machine import SOCKET

_ANSWER_SECONDS: Final = 15.0
_LIMIT: Final = 1 << 22

Heard = Callable[[str, dict[str, Any]], None]
"""Told the name and the data of every event."""


class QmpError(Exception):
    """QEMU refused a command, did not answer, or is gone."""


class Qmp:
    """One connection; QEMU serves one at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Heard) -> None:
        self._reader = reader
        self._writer = writer
        self._heard = heard
        self._next = 0
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._listening = asyncio.create_task(self._listen())

    async def ask(self, command: str, **arguments: Any) -> Any:
        """What the command returns; raises QmpError."""
        if not self.open:
            raise QmpError("the connection is closed")
        self._next += 1
        number, answer = self._next, asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        message = {"execute": command, "arguments": arguments, "id": number}
        try:
            self._writer.write(msgspec.json.encode(message) + b"\n")
            return await asyncio.wait_for(answer, _ANSWER_SECONDS)
        except TimeoutError:
            raise QmpError(f"{command} was not answered within {_ANSWER_SECONDS:g} s") from None
        except OSError as problem:
            raise QmpError(str(problem)) from None
        finally:
            self._asked.pop(number, None)

    @property
    def open(self) -> bool:
        return not self._listening.done()

    async def finished(self) -> None:
        """Until QEMU has said all that it had to say."""
        await asyncio.wait([self._listening], timeout=_ANSWER_SECONDS)

    async def close(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(msgspec.json.decode(line))
        except (OSError, ValueError):
            pass  # ValueError: a line without end or that is no JSON, after which nothing can be told apart
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(QmpError("the machine is gone"))
            self._writer.close()

    def _take(self, message: dict[str, Any]) -> None:
        if "event" in message:
            self._heard(message["event"], message.get("data", {}))
            return
        answer = self._asked.get(message.get("id", 0))
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(QmpError(str(message["error"].get("desc", message["error"]))))
        else:
            answer.set_result(message.get("return"))


async def connect(directory: Path, heard: Heard) -> Qmp:
    """To the machine that runs in `directory`; raises QmpError.

    The name of a socket may have 107 bytes, so it is reached by its directory's handle.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{handle}/{SOCKET}", limit=_LIMIT)
        finally:
            os.close(handle)
    except OSError as problem:
        raise QmpError(str(problem)) from None
    try:
        greeting = await asyncio.wait_for(reader.readline(), _ANSWER_SECONDS)
        if b'"QMP"' not in greeting:
            raise QmpError("it does not speak QMP")
    except BaseException as problem:
        writer.close()
        if isinstance(problem, TimeoutError | OSError | ValueError):
            raise QmpError("it is not ready") from None
        raise
    made = Qmp(reader, writer, heard)
    try:
        await made.ask("qmp_capabilities")
    except BaseException:
        with contextlib.suppress(QmpError):
            await made.close()
        raise
    return made
