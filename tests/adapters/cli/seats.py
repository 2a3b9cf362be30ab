"""A person before a terminal, for the tests beside it: sees a screen, presses keys, turns the window."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BINARY = (sys.executable, "-m", "adapters.cli.main")
DEADLINE_S = 30.0

_STEER = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Seat:
    """One command in a terminal of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int, slave: int) -> None:
        self.process = process
        self.written = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._master, self._slave = master, slave
        self.before = termios.tcgetattr(slave)

    @property
    def attributes(self) -> list[Any]:
        """How the terminal is set now."""
        return termios.tcgetattr(self._slave)

    @property
    def screen(self) -> str:
        """What stands on it: lines are written at places, and nothing scrolls."""
        rows: dict[int, str] = {}
        row, at = 1, 0
        for found in _STEER.finditer(self.written):
            rows[row] = rows.get(row, "") + self.written[at : found.start()]
            at = found.end()
            if found[3] == "H":
                row = int(found[2].split(";")[0] or 1)
                rows[row] = ""
            elif found[3] == "J":
                rows, row = {}, 1
        rows[row] = rows.get(row, "") + self.written[at:]
        return "\n".join(rows.get(n, "") for n in range(1, max(rows) + 1))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def turn(self, columns: int, lines: int) -> None:
        """Another size; the kernel tells the command with SIGWINCH."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def sees(self, *texts: str) -> str:
        """The screen once all of the texts are on it."""
        return self.until(lambda: all(text in self.screen for text in texts), f"no {texts}")

    def sees_no(self, text: str) -> str:
        return self.until(lambda: text not in self.screen, f"still {text}")

    def reads(self, text: str, after: int = 0) -> int:
        """Where a text ends that the command wrote, once it has."""
        self.until(lambda: text in self.written[after:], f"never {text!r}")
        return self.written.index(text, after) + len(text)

    def waits(self) -> None:
        """Until it sleeps in reading its keys: Python loses a Ctrl-C that comes just before."""
        doing = Path(f"/proc/{self.process.pid}/syscall")
        self.until(lambda: doing.read_text().split()[1:2] == ["0x0"], "it reads no key")

    def leaves(self) -> int:
        """The exit status, once it has ended."""
        self.until(lambda: self.process.poll() is not None, "it goes on")
        self._read(0)
        return self.process.wait()

    def until(self, holds: Any, trouble: str) -> str:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, f"{trouble}:\n{self.screen}"
            self._read(0.05)
        return self.screen

    def _read(self, seconds: float) -> None:
        while select.select([self._master], [], [], seconds)[0]:
            self.written += self._decoder.decode(os.read(self._master, 65_536))
            seconds = 0


@contextmanager
def seated(
    *words: str, columns: int = 80, lines: int = 24, env: Mapping[str, str] | None = None, shell: str = ""
) -> Iterator[Seat]:
    """A command line, or a shell's script, in a terminal that knows colours; what still runs at the end is killed."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        ("sh", "-c", shell) if shell else (*BINARY, *words),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment | {"TERM": "xterm-256color", "PYTHONUTF8": "1"} | dict(env or {}),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    seat = Seat(process, master, slave)
    try:
        yield seat
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
        os.close(slave)
