"""How long one waits: for `serve` on new and on old data, and for `--help`."""

import subprocess
import time
from pathlib import Path
from typing import Final

from tests.bench.plane import PROGRAM, serving

HELP_TIMES: Final = 10


def starts(home: Path, times: int) -> tuple[list[float], list[float]]:
    """Seconds until /health/ready, each on a fresh data directory and then on the same one again."""
    fresh, again = [], []
    for n in range(times):
        for found in (fresh, again):
            with serving(home / f"start-{n}") as plane:
                found.append(plane.started)
    return fresh, again


def help_millis() -> list[float]:
    found = []
    for _ in range(HELP_TIMES):
        began = time.perf_counter()
        subprocess.run([PROGRAM, "--help"], stdout=subprocess.DEVNULL, check=True, timeout=30)
        found.append((time.perf_counter() - began) * 1000)
    return found
