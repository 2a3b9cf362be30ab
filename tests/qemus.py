"""Whether this machine can run QEMU, and the machines that run now, found as `ps` would."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from adapters.agent.qemu.settings import QEMU, QEMU_IMG

_MISSING = [tool for tool in (QEMU, QEMU_IMG) if shutil.which(tool) is None]
needed = pytest.mark.skipif(
    bool(_MISSING), reason=f"no {' and no '.join(_MISSING)}: apt-get install qemu-system-x86 qemu-utils"
)


def running(below: Path) -> list[int]:
    """Processes of QEMU whose directory is in this one, and that are no more than dead."""
    return sorted(
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _is_one(entry, below)
    )


def kill(below: Path) -> None:
    """Whatever a test left there."""
    for pid in running(below):
        os.kill(pid, signal.SIGKILL)


def _is_one(process: Path, below: Path) -> bool:
    try:
        program = (process / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        return program.endswith(QEMU) and (process / "cwd").readlink().is_relative_to(below)
    except OSError:
        return False
