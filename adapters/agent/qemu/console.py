"""What a machine wrote to its serial line, or QEMU of it: a file whose old part is given back to the disk.

The file's length goes on counting, so that it says how much was ever written.
"""

from pathlib import Path
from typing import Final

from adapters.agent import program
from adapters.agent.driver import Console
from adapters.agent.protocol import MAX_CONSOLE

KEPT_BYTES: Final = 262_144
"""What is kept of it at least."""
_SPARE_BYTES: Final = 1_048_576
_BLOCK: Final = 4_096


def read(path: Path) -> Console | None:
    """None where nothing was written. Bytes that are no UTF-8 are replaced."""
    try:
        with path.open("rb") as file:
            total = file.seek(0, 2)
            file.seek(max(0, total - MAX_CONSOLE))
            tail = file.read(MAX_CONSOLE)
    except OSError:
        return None
    return Console(total, tail.decode(errors="replace")) if total else None


async def bound(path: Path, run: program.Run = program.run) -> None:
    """Give back what is older than the last KEPT_BYTES, once that is worth it."""
    try:
        about = path.stat()
    except OSError:
        return
    old = (about.st_size - KEPT_BYTES) // _BLOCK * _BLOCK
    if about.st_blocks * 512 <= KEPT_BYTES + _SPARE_BYTES or old <= 0:
        return
    done = await run(("fallocate", "--punch-hole", "--offset", "0", "--length", str(old), str(path)))
    if done.code != 0:
        path.write_bytes(b"")
