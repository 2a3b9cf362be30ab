"""`python -m tests.bench.place`: placement at scale, from the engine alone to a crowd over HTTP. Under four minutes.

The engine in pools of 1,000 and 10,000 nodes with 100,000 bookings, rebuilding a calendar of as many from the log,
reservations created over HTTP beside plain transactions that write the same rows, and fifty clients that fight for the
last eight GPUs. Figures are medians of the rounds, the lowest and the highest in brackets.
"""

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import Final

from adapters.postgres import embedded
from tests.bench import creating, crew, fleet
from tests.bench.__main__ import home, machine
from tests.bench.place import contest, engine, rebuild
from tests.bench.plane import serving

NODES: Final = 1_000


def over_http(place: Path, rounds: int, seconds: float) -> None:
    access, data = place / "access.toml", place / "data"
    cast = fleet.write_access(access, creating.CLIENTS)
    with serving(data, "--access-file", str(access)) as plane, embedded.reached(data) as dsn:
        print(machine(dsn), flush=True)
        bench = creating.Bench(plane, dsn, cast, NODES, seconds)
        with crew.crew(creating.CLIENTS) as clients:
            for number in range(rounds):
                bench.round(number, clients)
        print(bench.report(), flush=True)
        fight = contest.Contest(plane, dsn, cast)
        with crew.crew(contest.CLIENTS) as clients:
            for number in range(rounds):
                fight.round(number, clients)
        print(fight.report(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.place", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each cell over HTTP; default 2")
    parser.add_argument("--alone", type=float, default=0.7, help="seconds of each cell of the engine; default 0.7")
    parser.add_argument("--only", choices=("engine", "rebuild", "http"), help="one part instead of all")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    if options.only in (None, "http"):
        with home() as place:
            over_http(place, options.rounds, options.seconds)
    if options.only in (None, "engine"):
        print(engine.measure(options.rounds, options.alone), flush=True)
        print(engine.earliest(options.rounds), flush=True)
    if options.only in (None, "rebuild"):
        print(rebuild.measure(1), flush=True)
    print(f"median (lowest-highest) of {options.rounds} rounds; all took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
