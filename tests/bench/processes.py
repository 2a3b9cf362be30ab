"""`python -m tests.bench.processes`: one, two and three `serve` on one PostgreSQL, and what each adds.

On a machine of two cores more processes share what one had: trust the processor time of each reservation, which says
what a further process costs, more than the rates.
"""

import argparse
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from adapters.postgres import embedded
from tests.bench import crew, figures, fleet
from tests.bench.__main__ import home, machine
from tests.bench.creating import CLIENTS, DAY_MS, PERCENTILES, Bench
from tests.bench.plane import Plane, serving

MOST: Final = 3
ONE_POOL, OWN_POOL, PREVIEW = "placed in one pool", "placed in a pool a process", "previewed"
PATH: Final = {PREVIEW: "/v1/reservations/preview"}


@contextmanager
def planes(place: Path, dsn: str, count: int) -> Iterator[list[Plane]]:
    """So many processes on one database, with the keys and the access file of the first."""
    shared = [flag for name in ("audit", "instance") for flag in (f"--{name}-key-file", str(place / f"{name}.key"))]
    more = (
        "--database-url",
        dsn,
        "--access-file",
        str(place / "access.toml"),
        *shared,
        "--image-dir",
        str(place / "b"),
    )
    with ExitStack() as stack:
        yield [stack.enter_context(serving(place / f"serve-{n}", *more)) for n in range(count)]


def fleets(at: Sequence[Plane], dsn: str, cast: fleet.Cast, nodes: int) -> list[str]:
    """A pool for each process, made while they run: nodes without agents that were there at a start are soon missed."""
    first = [1 + (MOST * len(at) + n) * nodes for n in range(len(at))]
    return [fleet.build(at[0], dsn, cast, nodes, f"p{number}", number) for number in first]


class Cells:
    """What every round measured, by what was asked and how many processes were asked."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, int], list[crew.Run]] = defaultdict(list)
        self.cpu: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def take(self, name: str, at: Sequence[Plane], data: Path, run: Callable[[], crew.Run]) -> None:
        before = spent(at, data)
        done = run()
        cell = name, len(at)
        self.runs[cell].append(done)
        for of, seconds in spent(at, data).items():
            self.cpu[cell][of] += seconds - before[of]

    def report(self, seconds: float) -> str:
        rows = []
        for (name, count), runs in sorted(self.runs.items()):
            said = "HTTP 200" if name == PREVIEW else "placed"
            rows += [(f"{name} a second, {count} processes", figures.spread([run.rate(said) for run in runs]))]
            single = [run.rate(said) for run in self.runs[name, 1]]
            rows += [("  to one process", figures.ratio([run.rate(said) for run in runs], single))]
            for label, share in PERCENTILES:
                found = [figures.percentile(run.micros, share) / 1000 for run in runs]
                rows += [(f"  {label} latency, ms", figures.spread(found, 1))]
            items = sum(len(run.micros) for run in runs)
            rows += [("  processor", figures.shares(self.cpu[name, count], seconds * len(runs), items))]
            other = sum(sum(run.outcomes.values()) - run.outcomes[said] for run in runs)
            rows += [("  other answers", str(other))]
        return figures.table(f"Processes on one PostgreSQL, {CLIENTS} clients", rows)


def spent(at: Sequence[Plane], data: Path) -> dict[str, float]:
    """Processor seconds so far of all processes, and of the PostgreSQL in `data`."""
    found = [Plane(one.process, data, "", 0.0).cpu() for one in at]
    return {"serve": sum(one["serve"] for one in found), "postgres": found[0]["postgres"]}


def jobs(at: Sequence[Plane], bench: Bench, pools: Sequence[str], ahead_ms: int, name: str) -> list[dict[str, Any]]:
    """Each client keeps to one process, in turns."""
    body, crowd = bench.body(ahead_ms), bench.cast.crowd
    return [
        {
            "kind": "http",
            "host": at[n % len(at)].host,
            "port": at[n % len(at)].port,
            "path": PATH.get(name, "/v1/reservations"),
            "body": body | {"poolId": pools[n % len(at) if name == OWN_POOL else 0]},
            "tokens": crowd[n],
        }
        for n in range(CLIENTS)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.processes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each cell of a round; default 3")
    parser.add_argument("--nodes", type=int, default=1000, help="of 8 H100; default 1000")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cells = Cells()
    with home() as place, embedded.running(place / "data") as dsn, crew.crew(CLIENTS) as clients:
        cast = fleet.write_access(place / "access.toml", CLIENTS)
        with planes(place, dsn, 1) as first:
            print(machine(dsn), flush=True)
            bench = Bench(first[0], dsn, cast, 1, options.seconds)
        for count in range(1, MOST + 1):
            with planes(place, dsn, count) as at:
                bench.plane = at[0]
                pools = fleets(at, dsn, cast, options.nodes)
                for number in range(options.rounds):
                    for turn, name in enumerate((ONE_POOL, OWN_POOL, PREVIEW)):
                        bench.settle()
                        day = 10 + 3 * (MOST * number + count) + turn
                        given = jobs(at, bench, pools, day * DAY_MS, name)
                        cells.take(name, at, place / "data", partial(crew.run, clients, given, options.seconds))
            print(cells.report(options.seconds), flush=True)
    print(f"{options.rounds} rounds of {options.seconds:g} s a cell; load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
