"""A terminal that a program has for itself: keys one by one, a screen of its own, given back on every way out."""

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Any, Final, Self

ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
KEYS: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[Z": "back",
    b"\t": "tab",
}
LEAST_COLOURS: Final = 8
FALLBACK: Final = (80, 24)


def usable() -> bool:
    """Whether keys can be read and a picture be drawn."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def colours() -> bool:
    """Whether standard output shows colours, and nobody asked it not to (NO_COLOR)."""
    import curses

    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return False
    try:
        curses.setupterm(fd=sys.stdout.fileno())
    except curses.error:
        return False
    return curses.tigetnum("colors") >= LEAST_COLOURS


def width() -> int:
    """Columns of standard output, which is a terminal."""
    return os.get_terminal_size(sys.stdout.fileno()).columns or FALLBACK[0]


class Terminal:
    """Standard input and output, for as long as the block lasts; `wake` may be called from other threads.

    SIGTERM and SIGHUP leave the block as SystemExit, Ctrl-C as KeyboardInterrupt; Ctrl-Z gives the terminal back until
    the program goes on.
    """

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._kept: Any = None
        self._shown: list[str] = []
        self._signals: dict[signal.Signals, Any] = {}
        self._woken, self._waker = -1, -1

    def __enter__(self) -> Self:
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        handlers: dict[signal.Signals, Any] = {
            signal.SIGTERM: _leave,
            signal.SIGHUP: _leave,
            signal.SIGWINCH: self._resized,
            signal.SIGTSTP: self._suspend,
        }
        self._kept = termios.tcgetattr(self._in)
        self._signals = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()
        for number, handler in self._signals.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)

    def size(self) -> tuple[int, int]:
        """Columns and lines; some terminals say 0 where they do not know."""
        found = os.get_terminal_size(self._out)
        return found.columns or FALLBACK[0], found.lines or FALLBACK[1]

    def wake(self) -> None:
        """Let `keys` return at once. A full pipe wakes as well."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"\0")

    def keys(self, seconds: float) -> list[str]:
        """What was pressed; none after so many seconds, or when something else woke it. Its end is `q`."""
        ready, _, _ = select.select([self._in, self._woken], [], [], seconds)
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._woken, 4096):
                    pass
        return list(pressed(os.read(self._in, 256))) if self._in in ready else []

    def show(self, lines: Sequence[str]) -> None:
        """Write the lines that are not there yet."""
        before = self._shown if len(self._shown) == len(lines) else [""] * len(lines)
        fresh = "" if before is self._shown else "\x1b[2J"
        told = [f"\x1b[{n + 1};1H{line}\x1b[K" for n, line in enumerate(lines) if line != before[n]]
        self._shown = list(lines)
        if fresh or told:
            self._write(fresh + "".join(told))

    def _take(self) -> None:
        tty.setcbreak(self._in, termios.TCSADRAIN)
        self._shown = []
        self._write(ENTER)

    def _give_back(self) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone needs nothing back
            self._write(LEAVE)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._kept)

    def _resized(self, *_: object) -> None:
        self._shown = []

    def _suspend(self, *_: object) -> None:
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspend)
        self._take()

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding, "replace")
        while data:
            data = data[os.write(self._out, data) :]


def pressed(data: bytes) -> Iterator[str]:
    """The keys in what a terminal sent, by name or as the letter that they are."""
    if not data:
        yield "q"
    while data:
        known = next((code for code in KEYS if data.startswith(code)), None)
        if known is not None:
            yield KEYS[known]
        elif data[:1] != b"\x1b":
            yield chr(data[0])
        data = data[len(known or b"?") :]


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)
