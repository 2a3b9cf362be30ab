"""What became of each command, so that a redelivery runs nothing twice (domain.md §8).

Lines of JSON, each on disk before what it speaks of happens: `begun` before a command runs, `finished` before its
result is sent. A line that was cut short by a crash is the last one, and says nothing.
"""

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from adapters.agent import durable
from adapters.agent.protocol import Outcome

_log = logging.getLogger("better_compute.agent")

KEPT: Final = 1_000
"""Finished commands that are remembered; the plane asks for none that is older."""


class Begun(Struct, frozen=True, rename="camel", tag="begun"):
    """A command is to run now, under this boot id, for the `attempt`-th time."""

    id: str
    name: str
    seq: int
    boot_id: str
    attempt: int = 1


class Finished(Struct, frozen=True, rename="camel", tag="finished"):
    id: str
    outcome: Outcome
    result: dict[str, Any] = {}
    reason: str = ""


Line = Begun | Finished
_decoder = msgspec.json.Decoder(Line)


class Pages(Protocol):
    """Where lines are kept."""

    def read(self) -> Iterable[Line]: ...

    def append(self, line: Line) -> None:
        """Returns once the line outlives the power."""

    def rewrite(self, lines: Iterable[Line]) -> None:
        """Put these in place of all others, at once."""


class Memory:
    """Pages of a simulated node: they outlive its reboots, not this process."""

    def __init__(self) -> None:
        self._lines: list[Line] = []

    def read(self) -> Iterable[Line]:
        return tuple(self._lines)

    def append(self, line: Line) -> None:
        self._lines.append(line)

    def rewrite(self, lines: Iterable[Line]) -> None:
        self._lines = list(lines)


class File:
    """Pages in a file of the agent's own directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def read(self) -> Iterable[Line]:
        """Every line that is whole; what a crash cut off is cut off here too, so that the next line stands alone."""
        content = self._path.read_bytes() if self._path.exists() else b""
        *whole, torn = content.split(b"\n")
        if torn:
            os.truncate(self._path, len(content) - len(torn))
        for number, line in enumerate(whole, 1):
            try:
                yield _decoder.decode(line)
            except msgspec.MsgspecError as damaged:
                fields = {"file": str(self._path), "line": number, "why": str(damaged)}
                _log.error("a line of the command journal cannot be read", extra={"fields": fields})

    def append(self, line: Line) -> None:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            durable.sync_directory(self._path.parent)
        content = msgspec.json.encode(line) + b"\n"
        if os.write(self._file, content) != len(content):
            raise OSError(errno.ENOSPC, "a line of the command journal was cut short", str(self._path))
        os.fsync(self._file)

    def rewrite(self, lines: Iterable[Line]) -> None:
        durable.write(self._path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        self.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Journal:
    """The commands that this node has begun, and what became of those that ended."""

    def __init__(self, pages: Pages, kept: int = KEPT) -> None:
        self._pages = pages
        self._kept = kept
        self._begun: dict[str, Begun] = {}
        self._finished: dict[str, Finished] = {}
        for line in pages.read():
            self._note(line)
        self._forget()

    def begun(self, command_id: str) -> Begun | None:
        """How it began; None when it never did, or has ended."""
        return self._begun.get(command_id)

    def finished(self, command_id: str) -> Finished | None:
        return self._finished.get(command_id)

    def begin(self, line: Begun) -> None:
        self._pages.append(line)
        self._note(line)

    def finish(self, line: Finished) -> None:
        self._pages.append(line)
        self._note(line)
        if len(self._finished) > 2 * self._kept:
            self._forget()

    def _note(self, line: Line) -> None:
        match line:
            case Begun():
                self._begun[line.id] = line
            case Finished():
                self._begun.pop(line.id, None)
                self._finished[line.id] = line

    def _forget(self) -> None:
        """Drop the oldest that ended; what has begun is never dropped."""
        surplus = len(self._finished) - self._kept
        if surplus <= 0:
            return
        for command_id in list(self._finished)[:surplus]:
            del self._finished[command_id]
        self._pages.rewrite([*self._finished.values(), *self._begun.values()])
