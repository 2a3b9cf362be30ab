"""What processes cost, read from /proc, and those that the benchmark starts for itself."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench.crew import END_S, ROOT

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """Seconds of processor time of one process so far, and of those that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def tree(pid: int) -> float:
    """The same with its living children."""
    spent = cpu(pid)
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            spent += cpu(int(child))
        except OSError:
            continue
    return spent


def resident(pid: int) -> int:
    """Bytes of memory that the process holds."""
    line = next(s for s in Path(f"/proc/{pid}/status").read_text().splitlines() if s.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


class Worker:
    """A process that answers each line with a line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def send(self, **order: Any) -> None:
        assert self.process.stdin is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        said: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"problem": "a process died"}')
        if "problem" in said:
            raise RuntimeError(said["problem"])
        return said


@contextmanager
def running(module: str) -> "Iterator[subprocess.Popen[str]]":
    """`python -m module`, until its input is closed."""
    argv = [sys.executable, "-m", module]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
