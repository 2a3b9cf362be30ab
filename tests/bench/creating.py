"""Reservations created over HTTP by several clients, beside plain transactions that write the same rows."""

import time
from collections import defaultdict
from typing import Any, Final

import psycopg

from tests.bench import crew, figures, fleet, limit
from tests.bench.plane import Plane

CLIENTS: Final = 8
DAY_MS: Final = 86_400_000
SETTLE_S: Final = 3.0
AHEAD, SOLO, NOW = "crowd, starting later", "one tenant, starting later", "crowd, starting now"
PLAIN, PIPELINE = "statement by statement", "pipeline"
PERCENTILES: Final = (("p50", 0.5), ("p99", 0.99))


class Bench:
    """A plane with its fleet and the limit's database; `cells` keeps what every round measured, by name.

    What starts now stays booked: 8,000 GPUs are enough for 15 s at 530 a second.
    """

    def __init__(self, plane: Plane, dsn: str, cast: fleet.Cast, nodes: int, seconds: float) -> None:
        self.plane = plane
        self.dsn = dsn
        self.cast = cast
        self.seconds = seconds
        self.pool_id = fleet.build(plane, dsn, cast, nodes)
        self.limit_dsn = limit.database(dsn)
        self.settle()
        sample = self.plane.ok(
            "POST", "/v1/reservations", cast.crowd[0][0], self.body(DAY_MS), **{"idempotency-key": "sample"}
        )
        self.statements, self.rows = limit.statements(dsn, sample["id"])
        self.cells: dict[str, list[crew.Run]] = defaultdict(list)
        self.settled: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def body(self, ahead_ms: int) -> dict[str, Any]:
        asked = {"poolId": self.pool_id, "devices": [{"class": "gpu", "count": 1}], "durationSeconds": 3600}
        return {**asked, "startsAt": int(time.time() * 1000) + ahead_ms} if ahead_ms else asked

    def settle(self) -> float:
        """Wait, a bounded time, until the plane has done all that follows from what it was told; return seconds."""
        due = """
        SELECT (SELECT count(*) FROM reservations WHERE due_at <= database_ms()) + (SELECT count(*) FROM pool_queue)
        """
        began = time.monotonic()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while time.monotonic() < began + SETTLE_S:
                lag = self.plane.ask("GET", "/health/ready")[1]["checks"]["projectionLag"]
                left = connection.execute(due).fetchone()
                if lag == 0 and left == (0,):
                    break
                time.sleep(0.05)
        return time.monotonic() - began

    def creating(self, name: str, tokens: list[list[str]], ahead_ms: int) -> tuple[str, list[dict[str, Any]]]:
        common = {"kind": "http", "host": self.plane.host, "port": self.plane.port, "body": self.body(ahead_ms)}
        return name, [{**common, "tokens": mine} for mine in tokens]

    def writing(self, name: str) -> tuple[str, list[dict[str, Any]]]:
        job = {"kind": "sql", "dsn": self.limit_dsn, "statements": self.statements, "pipeline": name == PIPELINE}
        return name, [job] * CLIENTS

    def round(self, number: int, clients: list[Any]) -> None:
        """Each round books another day, so that the calendar of no round is fuller than that of another."""
        for name, jobs in (
            self.creating(AHEAD, self.cast.crowd, (10 + 3 * number) * DAY_MS),
            self.writing(PLAIN),
            self.creating(SOLO, self.cast.solo, (11 + 3 * number) * DAY_MS),
            self.writing(PIPELINE),
            self.creating(NOW, self.cast.crowd, 0),
        ):
            before = self.plane.cpu()
            run = crew.run(clients, jobs, self.seconds)
            self.cells[name].append(run)
            used = {of: spent - before[of] for of, spent in self.plane.cpu().items()} | {"clients": run.cpu}
            for of, spent in used.items():
                self.cpu[name][of] += spent
            self.settled[name].append(self.settle())

    def report(self) -> str:
        rows = []
        for name in (AHEAD, SOLO, NOW):
            rows += [(f"created and placed a second ({name})", figures.spread(self.rates(name, "placed")))]
            rows += [(f"  {n} latency, ms", figures.spread(self.latency(name, s), 1)) for n, s in PERCENTILES]
            rows += [("  processor", self.shares(name))]
            rows += [
                (
                    f"  all that followed was done after, s ({SETTLE_S:.0f}: not even then)",
                    figures.spread(self.settled[name], 1),
                )
            ]
            rows += [("  other answers", self.others(name))]
        for name in (PLAIN, PIPELINE):
            title = f"limit: transactions a second, {self.rows} rows each ({name})"
            rows += [(title, figures.spread(self.rates(name, "written"))), ("  processor", self.shares(name))]
        for name in (AHEAD, SOLO, NOW):
            for limited in (PLAIN, PIPELINE):
                share = figures.ratio(self.rates(name, "placed"), self.rates(limited, "written"))
                rows += [(f"ratio ({name}) to the limit ({limited})", share)]
        return figures.table(f"Reservations, {CLIENTS} clients", rows)

    def shares(self, name: str) -> str:
        runs = self.cells[name]
        return figures.shares(self.cpu[name], self.seconds * len(runs), sum(len(run.micros) for run in runs))

    def rates(self, name: str, outcome: str) -> list[float]:
        return [run.rate(outcome) for run in self.cells[name]]

    def latency(self, name: str, share: float) -> list[float]:
        return [figures.percentile(run.micros, share) / 1000 for run in self.cells[name]]

    def others(self, name: str) -> str:
        counted: dict[str, int] = defaultdict(int)
        for run in self.cells[name]:
            for outcome, times in run.outcomes.items():
                counted[outcome] += times
        return ", ".join(f"{times} {outcome}" for outcome, times in counted.items() if outcome != "placed") or "none"
