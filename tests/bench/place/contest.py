"""Fifty clients at once ask for the last eight GPUs of a pool, over HTTP: one gets them, the others are told no."""

import itertools
import time
from collections import Counter
from subprocess import Popen
from typing import Any, Final

from tests.bench import creating, crew, figures, fleet
from tests.bench.plane import Plane

CLIENTS: Final = 50
FIRST_DAY: Final = 400
FIRST_NODE: Final = 100_000
"""Another machine than those of the large pool."""


class Contest:
    """A pool with one node; every round is about a day of its own, on which nothing else is booked."""

    def __init__(self, plane: Plane, dsn: str, cast: fleet.Cast) -> None:
        self.plane = plane
        self.pool_id = fleet.build(plane, dsn, cast, 1, "contest", FIRST_NODE)
        self.tokens = list(itertools.chain.from_iterable(zip(*cast.crowd, *cast.solo, strict=True)))
        self.won: Counter[int] = Counter()
        self.answers: Counter[str] = Counter()
        self.all: list[float] = []
        self.first: list[float] = []

    def round(self, number: int, clients: list[Popen[str]]) -> None:
        """Each client sends one request, all at one instant; `won` counts rounds by how many got the GPUs."""
        job: dict[str, Any] = {"kind": "http", "host": self.plane.host, "port": self.plane.port, "times": 1}
        body = {
            "poolId": self.pool_id,
            "devices": [{"class": "gpu", "count": 8}],
            "durationSeconds": 3600,
            "startsAt": int(time.time() * 1000) + (FIRST_DAY + number) * creating.DAY_MS,
            "maxPendingSeconds": 0,
        }
        jobs = [{**job, "tokens": [token], "body": body} for token in self.tokens[: len(clients)]]
        run = crew.run(clients, jobs, seconds=30)
        self.won[run.outcomes["placed"]] += 1
        self.answers += run.outcomes
        self.all.append(max(run.micros) / 1000)
        self.first.append(min(run.micros) / 1000)

    def report(self) -> str:
        told = ", ".join(f"{times} {outcome}" for outcome, times in sorted(self.answers.items()))
        rows = [
            ("rounds in which one got them, and no more", f"{self.won[1]} of {self.won.total()}"),
            ("all have their answer after, ms", figures.spread(self.all)),
            ("the first has it after, ms", figures.spread(self.first)),
            ("answers of all rounds", told),
        ]
        return figures.table(f"{CLIENTS} clients ask for the last 8 GPUs", rows)
