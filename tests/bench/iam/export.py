"""What exports cost: writing them, and checking them with nothing else, with the commands that people run."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from adapters.postgres import embedded, migrate
from tests.bench import figures
from tests.bench.iam import evidence

EVENTS: Final = 1_000_000
SMALL: Final = "tenant-7"
LARGE: Final = "platform"


def report(place: Path, events: int = EVENTS) -> str:
    """Fill a log, take it in, and export and check the whole of it, its largest tenant and a small one."""
    key = place / "audit.key"
    rows = []
    with embedded.running(place / "data") as dsn:
        migrate.migrate(dsn)
        evidence.take_in(dsn, key, evidence.fill(dsn, events))
        for tenant in (None, LARGE, SMALL):
            file = place / "export.jsonl"
            of = () if tenant is None else ("--tenant", tenant)
            source = ("--database-url", dsn, "--audit-key-file", str(key))
            wrote, said = _run("export", "--output", str(file), *of, *source)
            lines = int(said.partition(" lines")[0].replace(",", "")) - 2
            count = lines if tenant is None else lines // 2
            checked, _ = _run("verify", "--export", str(file))
            size = file.stat().st_size
            rows += [
                (
                    f"{tenant or 'the whole log'}: {count:,} events",
                    f"{size / 1e6:,.0f} MB, {size / count:.0f} bytes each",
                ),
                ("  audit export", wrote.of(count)),
                ("  audit verify --export", checked.of(count)),
            ]
    return figures.table(f"Exports of a log of {events:,} events", rows)


class Run(NamedTuple):
    """Seconds on the wall and of processor time, from the command's start to its end, and the most KiB that it held."""

    wall: float
    cpu: float
    peak: int

    def of(self, events: int) -> str:
        rate = f"{events / self.wall:,.0f} events/s"
        return f"{rate}, {self.cpu / events * 1e6:.0f} µs of processor each, {self.peak / 1024:.0f} MiB at most"


def _run(*arguments: str) -> tuple[Run, str]:
    """One command, and what it said."""
    began = time.monotonic()
    command = [sys.executable, "-c", evidence.CLI, "audit", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return Run(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss), said
