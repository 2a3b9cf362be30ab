"""What exports cost: writing them, and checking them with nothing else, with the commands that people run."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

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
            wrote, peak, said = _run("export", "--output", str(file), *of, *source)
            lines = int(said.partition(" lines")[0].replace(",", "")) - 2
            count = lines if tenant is None else lines // 2
            checked, needed, _ = _run("verify", "--export", str(file))
            size = file.stat().st_size
            rows += [
                (
                    f"{tenant or 'the whole log'}: {count:,} events",
                    f"{size / 1e6:,.0f} MB, {size / count:.0f} bytes each",
                ),
                ("  audit export", f"{count / wrote:,.0f} events/s, {peak / 1024:.0f} MiB at most"),
                ("  audit verify --export", f"{count / checked:,.0f} events/s, {needed / 1024:.0f} MiB at most"),
            ]
    return figures.table(f"Exports of a log of {events:,} events", rows)


def _run(*arguments: str) -> tuple[float, int, str]:
    """Seconds from start to end, the most KiB that the process held, and what it said."""
    began = time.monotonic()
    command = [sys.executable, "-c", evidence.CLI, "audit", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return time.monotonic() - began, usage.ru_maxrss, said
