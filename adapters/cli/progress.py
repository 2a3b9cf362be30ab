"""How far a fold of the log, or an upload, has come: on a terminal one line, elsewhere nothing before its end."""

import math
import time
from collections.abc import Callable
from typing import Final, Self, TextIO

EVERY_S: Final = 0.25
WIDTH: Final = 79
"""Of a line at most: one that a terminal broke in two could not be taken back."""


def line(name: str, read: int, left: int, seconds: float) -> str:
    """Events folded, their rate, and what is left of the log with the time that it takes at this rate."""
    rate = _rate(read, seconds)
    rest = f"{left:,} left" + (f", about {_span(left / rate)}" if rate else "")
    return f"{name}: {read:,} events, {rate:,.0f}/s, {rest if left else 'all of the log read'}"[:WIDTH]


def total(read: int, seconds: float) -> str:
    return f"{seconds:.1f} s ({_rate(read, seconds):,.0f}/s)"


def sent(name: str, done: int, left: int, seconds: float) -> str:
    """Bytes of a file that went, their rate, and the time that the rest takes at this rate."""
    rate = _rate(done, seconds)
    rest = f", about {_span(left / rate)} left" if rate and left else ""
    return f"{name}: {_mib(done)} of {_mib(done + left)} MiB, {_mib(rate)} MiB/s{rest}"[:WIDTH]


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f}" if size >= 2**20 * 10 else f"{size / 2**20:,.1f}"


def _rate(read: int, seconds: float) -> float:
    return read / max(seconds, 0.001)


def _span(seconds: float) -> str:
    """Rounded up, in the unit that leaves two digits or so."""
    for unit, size, most in (("s", 1, 90), ("min", 60, 90 * 60), ("h", 3600, 48 * 3600)):
        if seconds <= most:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{math.ceil(seconds / 86_400)} days"


class Progress:
    """To be called after each batch, and the watch of its fold; leaving the block takes the line back.

    `seconds` runs to the latest batch: to wait for a lock, or to compare rows, is no folding.
    """

    def __init__(
        self,
        name: str,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        line: Callable[[str, int, int, float], str] = line,
    ) -> None:
        self._name, self._stream, self._clock, self._line = name, stream, clock, line
        self._begun = clock()
        self._due = 0.0
        self._ended = False
        self._shown = ""
        self.seconds = 0.0

    def __call__(self, read: int, left: int) -> None:
        self.seconds = self._clock() - self._begun
        ends = left == 0 and not self._ended  # at once: what comes then can take long, and calls no more
        if (ends or self.seconds >= self._due) and self._stream.isatty():
            self._due, self._ended = self.seconds + EVERY_S, left == 0 or self._ended
            self._show(self._line(self._name, read, left, self.seconds))

    def _show(self, text: str) -> None:
        """Over what stands there; blanks cover its rest, for not every terminal knows how to erase."""
        self._stream.write(f"\r{text:<{len(self._shown)}}")
        self._stream.flush()
        self._shown = text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._show("")
            self._stream.write("\r")
            self._stream.flush()
