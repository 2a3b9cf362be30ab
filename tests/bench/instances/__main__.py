"""Instances: `python -m tests.bench.instances [--nodes 1000] [--rounds 3] [--seconds 10] [--pace 5]`.

One `better-compute serve` with a durable PostgreSQL, a pool of 1,000 nodes, and their agents: real sessions with
simulated drivers that take no time. Round by round instances are created, at a pace and then as fast as 8 clients can,
until all run, and deleted until their nodes have nothing of them. The limit in turn with them: the same rows in plain
transactions. An instance's time goes from the instant its client asked to the commit that says `running`.
"""

import argparse
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from adapters import demo_images
from domain import instance
from tests.bench import crew, figures
from tests.bench.__main__ import home, machine
from tests.bench.agents import nodes, processes, scene
from tests.bench.agents.processes import Worker
from tests.bench.client import NOW
from tests.bench.instances import limit
from tests.bench.limit import database

CLIENTS: Final = 8
HERDS: Final = 2
CONNECT_S: Final = 300.0
RUN_S: Final = 120.0
SPREAD_S: Final = 5.0
PACED, BURST = "at a pace", "as fast as 8 clients can"
PLAIN, PIPELINE = "statement by statement", "psycopg's pipeline"
PERCENTILES: Final = (("p50", 0.5), ("p99", 0.99), ("longest", 1.0))


class Bench:
    def __init__(self, stage: scene.Scene, options: argparse.Namespace) -> None:
        self.stage, self.options = stage, options
        self.tokens = stage.cast.crowd[0]
        self.pool = nodes.build(
            stage.plane, stage.store, stage.cast.root, options.nodes, options.nodes, **{"class": "vps-host"}
        )[0]
        demo_images.flavors(self._ask)
        demo_images.image(self._ask)
        self.body = {
            "name": f"t{NOW.decode()}",
            "poolId": self.pool.id,
            "flavorId": self._first("flavors"),
            "imageId": self._first("images"),
        }
        self.rates: dict[str, list[float]] = defaultdict(list)
        self.answers: dict[str, list[float]] = defaultdict(list)
        self.millis: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.done: dict[str, int] = defaultdict(int)
        self.other: dict[str, int] = defaultdict(int)
        self.rows = self.appends = 0

    def _ask(self, verb: str, path: str, body: Any = None) -> Any:
        return self.stage.plane.ok(verb, path, self.stage.cast.root, body)

    def _first(self, kind: str) -> str:
        """Once the list shows it: that is a read model."""
        shown = f"/v1/{kind}?waitFor={self.stage.head()}"
        return str(self._ask("GET", shown)["items"][0]["id"])

    def sample(self) -> None:
        """One instance by itself, as the limit's template."""
        made = self.stage.plane.ok("POST", "/v1/instances", self.tokens[0], self._body(), **{"Idempotency-Key": "one"})
        self._until(0, instance.Reported, "running", 1)
        self.limit_dsn = database(self.stage.dsn)
        self.transactions, self.rows = limit.transactions(self.stage.dsn, made["id"])
        self.appends = len(self.transactions)
        self.delete([made["id"]])

    def _body(self) -> dict[str, Any]:
        return self.body | {"name": f"t{int(time.time() * 1000)}"}

    def round(self, clients: list[Any], workers: list[Worker]) -> None:
        for name, some, every in ((PACED, clients[:1], 1 / self.options.pace), (BURST, clients, 0.0)):
            before, spent = self.stage.head(), self._cpu(workers)
            job = {"kind": "http", "host": self.stage.plane.host, "port": self.stage.plane.port, "body": self.body}
            jobs = [job | {"path": "/v1/instances", "tokens": self.tokens, "every": every} for _ in some]
            began = self.stage.store.now()
            run = crew.run(some, jobs, self.options.seconds)
            for outcome, times in run.outcomes.items():
                self.other[outcome] += times if outcome.startswith("HTTP") else 0
            made = sum(times for outcome, times in run.outcomes.items() if not outcome.startswith("HTTP"))
            running = self._until(before, instance.Reported, "running", made)
            self.answers[name] += [micros / 1000 for micros in run.micros]
            self.millis[name] += [float(at - self._asked(id)) for id, at in running.items()]
            self.rates[name].append(1000 * made / (max(running.values()) - began - 1000 * crew.GET_READY_S))
            self._spend(name, spent, workers, made)
            self.delete([*running])
            self.quiet()
            if name == BURST:
                for way in (PLAIN, PIPELINE):
                    work = {"kind": "sql", "dsn": self.limit_dsn, "transactions": self.transactions}
                    of = [work | {"pipeline": way == PIPELINE} for _ in clients]
                    self.rates[way].append(crew.run(clients, of, self.options.seconds).rate("written"))

    def _asked(self, id: str) -> int:
        state: instance.State = self.stage.store.load(id).state
        assert state.draft is not None
        return int(state.draft.name[1:])

    def _until(self, after: int, kind: type[Any], status: str | None, count: int) -> dict[str, int]:
        """When so many instances first said that they are, by commit (epoch ms); what was told after a position."""
        found: dict[str, int] = {}
        deadline, at = time.monotonic() + RUN_S, after
        while len(found) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(found)} of {count} are {status} after {RUN_S:.0f} s: {self.stage.newest()}")
            for recorded in self.stage.store.log(at, self.stage.head(), 1_000_000):
                at = recorded.position
                if isinstance(recorded.event, kind) and status in (None, getattr(recorded.event, "state", None)):
                    found.setdefault(recorded.stream, recorded.recorded_at)
            time.sleep(0.02)
        return found

    def delete(self, ids: list[str]) -> None:
        before, began = self.stage.head(), self.stage.store.now()

        def one(pair: tuple[int, str]) -> None:
            token = self.tokens[pair[0] % len(self.tokens)]
            self.stage.plane.ok("POST", f"/v1/instances/{pair[1]}/delete", token, {})

        with ThreadPoolExecutor(CLIENTS) as threads:
            list(threads.map(one, enumerate(ids)))
        gone = self._until(before, instance.Deleted, None, len(ids))
        if len(ids) > 1:
            self.rates["deleted"].append(1000 * len(ids) / (max(gone.values()) - began))

    def quiet(self) -> None:
        """Wait until nothing is written, and every read model shows what was."""

        def rests() -> bool | None:
            head = self.stage.head()
            time.sleep(1)
            lag = self.stage.plane.ask("GET", "/health/ready")[1]["checks"]["projectionLag"]
            return (self.stage.head() == head and lag == 0) or None

        scene.until(rests, RUN_S, lambda: f"the log does not come to rest: {self.stage.newest()}")

    def _cpu(self, workers: list[Worker]) -> dict[str, float]:
        serve, postgres = self.stage.cpu()
        for worker in workers:
            worker.send(do="tell")
        return {"serve": serve, "PostgreSQL": postgres, "agents": sum(worker.answer()["cpu"] for worker in workers)}

    def _spend(self, name: str, before: dict[str, float], workers: list[Worker], made: int) -> None:
        for who, seconds in self._cpu(workers).items():
            self.cpu[name][who] += seconds - before[who]
        self.done[name] += made

    def report(self) -> str:
        table = []
        for name in (PACED, BURST):
            title = f"{name} ({self.options.pace:g}/s)" if name == PACED else name
            table += [(f"created and running a second, {title}", figures.spread(self.rates[name], 1))]
            for what, millis in (
                ("answer to the create", self.answers[name]),
                ("create to running", self.millis[name]),
            ):
                told = ", ".join(f"{n} {figures.percentile(millis, share):.0f}" for n, share in PERCENTILES)
                table += [(f"  {what}, ms", told)]
            each = "; ".join(f"{who} {1000 * s / self.done[name]:.1f}" for who, s in self.cpu[name].items())
            table += [("  processor, ms each", each)]
        table += [("deleted, and their nodes said so, a second", figures.spread(self.rates["deleted"], 1))]
        table += [("other answers", ", ".join(f"{n} {what}" for what, n in self.other.items() if n) or "none")]
        for way in (PLAIN, PIPELINE):
            title = f"limit: {self.rows} rows in {self.appends} transactions a second ({way})"
            table += [(title, figures.spread(self.rates[way]))]
            table += [("  ratio of the burst to it", figures.ratio(self.rates[BURST], self.rates[way]))]
        return figures.table(f"Instances, {self.options.nodes} nodes", table)


@contextmanager
def agents(bench: Bench) -> Iterator[list[Worker]]:
    """All nodes of the pool, connected."""
    with ExitStack() as stack:
        started = [stack.enter_context(processes.running("tests.bench.instances.herd")) for _ in range(HERDS)]
        workers = [Worker(process) for process in started]
        plane, ids = bench.stage.plane, bench.pool.nodes
        share = -(-len(ids) // HERDS)
        for n, worker in enumerate(workers):
            mine = ids[n * share : (n + 1) * share]
            server = f"http://{plane.host}:{plane.port}"
            worker.send(do="start", server=server, first=n * share, nodes=mine, spread=SPREAD_S)
        for worker in workers:
            worker.answer()

        def connected() -> bool | None:
            for worker in workers:
                worker.send(do="tell")
            return sum(worker.answer()["connected"] for worker in workers) == len(ids) or None

        scene.until(connected, CONNECT_S, lambda: "not all agents are connected")
        yield workers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.instances", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000, help="default 1000")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--seconds", type=float, default=10.0, help="of creating in each cell; default 10")
    parser.add_argument("--pace", type=float, default=5.0, help="instances a second of the first cell; default 5")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    with home() as place, scene.scene(place) as stage:
        print(machine(stage.dsn), flush=True)
        bench = Bench(stage, options)
        with agents(bench) as workers, crew.crew(CLIENTS) as clients:
            bench.quiet()
            bench.sample()
            for number in range(options.rounds):
                bench.round(clients, workers)
                print(f"round {number + 1} of {options.rounds} done after {time.monotonic() - began:.0f} s", flush=True)
        print(bench.report())
    print(f"median (lowest-highest) of {options.rounds} rounds; all took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
