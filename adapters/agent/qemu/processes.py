"""QEMU's processes: found by the instance that they name and where they began, as numbers are given anew."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from adapters.agent.driver import Failed
from adapters.agent.qemu import disk
from adapters.agent.qemu.machine import CONSOLE, LOG

_PROC: Final = Path("/proc")
_DELETED: Final = " (deleted)"
_KILL_SECONDS: Final = 10.0


class Process:
    """One process, held by a handle that means no other even after it ended."""

    def __init__(self, pid: int, handle: int, child: "subprocess.Popen[bytes] | None" = None) -> None:
        self.pid = pid
        self._handle = handle
        self._child = child
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(handle, self._note)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended within that time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)
        return self.ended

    async def kill(self) -> None:
        """Cut its power; raises Failed while it will not go."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        if not await self.wait(_KILL_SECONDS):
            raise Failed("StillRunning", f"process {self.pid} does not end; it waits for a disk or device")

    def let_go(self) -> None:
        """Watch no longer; it runs on."""
        if self._handle >= 0:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1
            if self._child is not None:
                self._child.returncode = self._child.poll() or 0  # else Python warns of it when it forgets it

    def _note(self) -> None:
        """An agent that became another by an upgrade has children that it did not start."""
        asyncio.get_running_loop().remove_reader(self._handle)
        if self._child is not None:
            self._child.wait()
        else:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._handle, os.WEXITED | os.WNOHANG)
        self._ended.set()


def find(directory: Path) -> Process | None:
    """The machine of the instance whose directory this is, whoever started it; another agent's are its own affair."""
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or not _is_of(int(entry.name), directory):
            continue
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(int(entry.name))
            if _is_of(int(entry.name), directory):
                return Process(int(entry.name), handle)
            os.close(handle)
    return None


def start(command: Sequence[str], directory: Path) -> Process:
    """In a session of its own, so that it goes on when the agent ends. Its complaints are in a file."""
    found = shutil.which(command[0])
    if found is None:
        raise disk.missing(command[0])
    for name in (LOG, CONSOLE):
        os.close(os.open(directory / name, os.O_WRONLY | os.O_CREAT, 0o600))
    with (directory / LOG).open("wb") as log:
        child = subprocess.Popen(
            (found, *command[1:]),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {"LC_ALL": "C"},
            start_new_session=True,
        )
    return Process(child.pid, os.pidfd_open(child.pid), child)


def complaint(directory: Path) -> str:
    """The last thing that QEMU said, as one line."""
    try:
        with (directory / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4_096))
            said = file.read(4_096).decode(errors="replace").strip()
    except OSError:
        return ""
    return " ".join(said.rpartition("\n")[2].split())[-200:]


def _is_of(pid: int, directory: Path) -> bool:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        where = (_PROC / str(pid) / "cwd").readlink()
    except OSError:
        return False
    named = b"-name" in words and f"guest={directory.name}".encode() in words
    return named and str(where).removesuffix(_DELETED) == str(directory.resolve())
