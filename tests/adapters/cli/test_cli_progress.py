"""How far a long fold has come is shown where somebody looks, and nowhere else."""

import contextlib
import io
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from adapters.cli import progress
from facts import facts

ROOT = Path(__file__).parents[3]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Reads what a test set it to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fold(stream: io.StringIO, batches: Sequence[tuple[float, int, int]]) -> progress.Progress:
    """Batches as (seconds since the last one, events read, positions left)."""
    clock = Clock()
    with progress.Progress("nodes", stream, clock) as shown:
        for after, read, left in batches:
            clock.now += after
            shown(read, left)
        clock.now += 5
    return shown


@pytest.mark.parametrize(
    ("read", "left", "seconds", "expected"),
    [
        (44_809, 1_955_191, 1.5, "nodes: 44,809 events, 29,873/s, 1,955,191 left, about 66 s"),
        (500, 1, 10, "nodes: 500 events, 50/s, 1 left, about 1 s"),
        (1000, 120_000, 10, "nodes: 1,000 events, 100/s, 120,000 left, about 20 min"),
        (1000, 2_000_000, 10, "nodes: 1,000 events, 100/s, 2,000,000 left, about 6 h"),
        (1000, 100_000_000, 10, "nodes: 1,000 events, 100/s, 100,000,000 left, about 12 days"),
        (44_809, 0, 1.5, "nodes: 44,809 events, 29,873/s, all of the log read"),
        (500, 500, 0, "nodes: 500 events, 500,000/s, 500 left, about 1 s"),
        (0, 0, 0, "nodes: 0 events, 0/s, all of the log read"),
        (0, 7, 0, "nodes: 0 events, 0/s, 7 left"),
    ],
)
def test_a_line_says_what_was_folded_and_what_is_left(read: int, left: int, seconds: float, expected: str) -> None:
    assert progress.line("nodes", read, left, seconds) == expected


def test_a_line_stays_on_one_line() -> None:
    assert len(progress.line("n" * 40, 10**12, 10**12, 10**6)) < 80


@pytest.mark.parametrize(
    ("read", "seconds", "expected"),
    [(44_809, 1.3367, "1.3 s (33,522/s)"), (7, 0.0, "0.0 s (7,000/s)"), (0, 0.0, "0.0 s (0/s)")],
)
def test_the_end_says_how_long_it_took(read: int, seconds: float, expected: str) -> None:
    assert progress.total(read, seconds) == expected


def test_a_terminal_shows_the_latest_a_few_times_a_second_and_the_end_at_once() -> None:
    screen = Terminal()
    batches = [(1 / 64, 500 * n, 25_000 - 500 * n) for n in range(1, 51)]
    fold(screen, batches)
    shown = [text.strip() for text in screen.getvalue().split("\r") if text.strip()]
    assert [text.split()[1] for text in shown] == ["500", "8,500", "16,500", "24,500", "25,000"]
    assert shown[-1].endswith("all of the log read")


def test_each_line_covers_the_one_before_and_the_last_is_taken_back() -> None:
    screen = Terminal()
    fold(screen, [(0.5, 500, 1_000_000), (0.5, 1000, 0)])
    nothing, first, second, blank, rest = screen.getvalue().split("\r")
    assert (nothing, blank.strip(), rest) == ("", "", "")
    assert len(first) == len(second) > len(second.strip())
    assert len(blank) == len(second.strip())


def test_a_failure_takes_the_line_back_too() -> None:
    screen = Terminal()
    with contextlib.suppress(ValueError), progress.Progress("nodes", screen) as shown:
        shown(1, 1)
        raise ValueError
    assert screen.getvalue().endswith(" \r")


def test_elsewhere_nothing_is_shown_and_the_time_is_that_of_the_folding() -> None:
    file = io.StringIO()
    assert fold(file, [(0.5, 500, 500), (0.5, 1000, 0)]).seconds == 1.0
    assert file.getvalue() == ""


@pytest.mark.parametrize(("command", "name"), [("projections rebuild sites", "sites"), ("audit diff", "audit diff")])
def test_the_commands_show_it_on_stderr_when_that_is_a_terminal(database: str, command: str, name: str) -> None:
    with facts(database, size=2) as given:
        given.site()
    ours, theirs = pty.openpty()
    line = [sys.executable, "-m", "adapters.cli.main", *command.split(), "--database-url", database]
    ran = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=60, check=True)
    os.close(theirs)
    shown = read_all(ours)
    assert shown.startswith(f"\r{name}: 1 events, ")
    assert shown.endswith(" \r")
    assert ran.stdout.count("\n") == 1


def read_all(terminal: int) -> str:
    """What was written to a terminal that all others have closed; at its end Linux says EIO."""
    shown = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 10_000):
            shown += chunk
    os.close(terminal)
    return shown.decode()
