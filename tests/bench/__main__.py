"""`python -m tests.bench`: what the plane does on this machine, beside what its PostgreSQL could do at most.

Everything runs on loopback and sockets in one temporary directory, with commits made durable; the rounds take all
cells in turn, so that a noisy minute reaches each of them.
"""

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from adapters.postgres import embedded
from tests.bench import creating, crew, figures, fleet, starts
from tests.bench.plane import serving


@contextmanager
def home() -> Iterator[Path]:
    """A directory that the server's account may pass through, gone at the end."""
    made = Path(tempfile.mkdtemp(prefix="better-compute-bench-"))
    made.chmod(0o711)
    try:
        yield made
    finally:
        shutil.rmtree(made)


def machine(dsn: str) -> str:
    names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
    with psycopg.connect(dsn) as connection:
        shown = {name: connection.execute(f"SHOW {name}".encode()).fetchone() for name in names}
    settings = ", ".join(f"{name} {value[0]}" for name, value in shown.items() if value)
    ours = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    return f"{ours}, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}\nPostgreSQL: {settings}\n"


def load(place: Path, options: argparse.Namespace) -> tuple[int, list[float]]:
    """Print the table of reservations; return how many events it left, and the start times on them."""
    access, data = place / "access.toml", place / "data"
    cast = fleet.write_access(access, creating.CLIENTS)
    with serving(data, "--access-file", str(access)) as plane, embedded.reached(data) as dsn:
        print(machine(dsn), flush=True)
        bench = creating.Bench(plane, dsn, cast, options.nodes, options.seconds)
        with crew.crew(creating.CLIENTS) as clients:
            for number in range(options.rounds):
                bench.round(number, clients)
        print(bench.report(), flush=True)
        with psycopg.connect(dsn) as connection:
            counted = connection.execute("SELECT count(*) FROM stored_events").fetchone()
    found = []
    for _ in range(3):
        with serving(data, "--access-file", str(access)) as plane:
            found.append(plane.started)
    return (counted[0] if counted else 0), found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each cell of a round; default 3")
    parser.add_argument("--nodes", type=int, default=1000, help="of 8 H100; default 1000")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    with home() as place:
        events, loaded = load(place, options)
        fresh, again = starts.starts(place, options.rounds)
    rows = [
        ("serve ready, fresh data directory, s", figures.spread(fresh, 2)),
        ("serve ready, existing data directory, s", figures.spread(again, 2)),
        (f"serve ready, {options.nodes} nodes and {events} events, s", figures.spread(loaded, 2)),
        ("better-compute --help, ms", figures.spread(starts.help_millis())),
    ]
    print(figures.table("Waiting", rows))
    rounds = f"{options.rounds} rounds of {options.seconds:g} s a cell"
    print(f"median (lowest-highest) of {rounds}; all took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
