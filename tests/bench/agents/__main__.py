"""Agents: `python -m tests.bench.agents [--nodes 10000] [--rounds 3] [--seconds 20] [--joins 1000] [--real 50]`.

One `better-compute serve` with a durable PostgreSQL, 10,000 nodes in pools of 1,000, and their agents in two processes
over loopback. Each says what a real agent says at the times it would: hello, inventory, status, a heartbeat every
10 s; some are real AgentSessions. Measured: joins over HTTP, connecting all agents, then round by round heartbeats
and what they cost, a NodeSpec change on its way to a whole pool, and kill -9 of the serve. About ten minutes.

A heartbeat counts as taken when the server reads on: of every twentieth agent a ping follows it, and after its pong
another; uvicorn reads nothing more from a connection before the application took the message. The limit is a
bare server of the websockets library under the same load (bare.py).
"""

import argparse
import signal
import sys
import time
from collections import Counter
from typing import Any

from domain import node
from tests.bench import figures
from tests.bench.__main__ import home, machine
from tests.bench.agents import joins, nodes, processes, scene
from tests.bench.agents.scene import Herds, Scene, herds

CONNECT_S = 600.0
TOLD_S = 120.0
SPREAD_S = 5.0
FLOOD_S = 5.0
TTL_S = 45.0
QUIET_S = 300.0
Rows = list[tuple[str, str]]


class Steady:
    """What some seconds of heartbeats gave, and a flood after them."""

    def __init__(self) -> None:
        self.rate: list[float] = []
        self.p50: list[float] = []
        self.p99: list[float] = []
        self.most: list[float] = []
        self.cpu: list[float] = []
        self.database: list[float] = []
        self.flood: list[float] = []

    def measure(self, all_agents: Herds, cpu: Any, seconds: float, sessions: int) -> None:
        """`cpu` tells processor seconds so far: the server's, and PostgreSQL's."""
        all_agents.tell()
        before, began = cpu(), time.monotonic()
        time.sleep(seconds)
        told, after, took = all_agents.tell(), cpu(), time.monotonic() - began
        self.rate.append(told.beats / took)
        for kept, share in ((self.p50, 0.5), (self.p99, 0.99), (self.most, 1.0)):
            kept.append(figures.percentile(told.micros, share) / 1000)
        self.cpu.append((after[0] - before[0]) / took)
        self.database.append((after[1] - before[1]) / took)
        self.flood.append(all_agents.flood(min(1000, sessions), FLOOD_S))

    def rows(self) -> Rows:
        return [
            ("heartbeats sent and taken a second", figures.spread(self.rate)),
            ("  p50 until taken, ms", figures.spread(self.p50, 1)),
            ("  p99 until taken, ms", figures.spread(self.p99, 1)),
            ("  longest, ms", figures.spread(self.most, 1)),
            ("  processor of the server, cores", figures.spread(self.cpu, 2)),
            ("  processor of PostgreSQL, cores", figures.spread(self.database, 2)),
            ("heartbeats taken a second, as many as it takes", figures.spread(self.flood)),
        ]


class Bench:
    def __init__(self, stage: Scene, agents: Herds, options: argparse.Namespace) -> None:
        self.stage = stage
        self.agents = agents
        self.options = options
        self.steady = Steady()
        self.rows: Rows = []
        self.reached: list[float] = []
        self.gang: list[float] = []
        self.ready: list[float] = []
        self.back: list[float] = []
        self.refused: Counter[str] = Counter()
        self.said: Counter[str] = Counter()

    def join(self) -> None:
        joined = joins.measure(self.stage.plane, self.stage.cast.root, self.options.joins)
        p99 = figures.percentile(joined.micros, 0.99) / 1000
        self.rows += [
            (
                "joins over HTTP a second",
                f"{len(joined.micros) / joined.seconds:.0f}; p99 {p99:.0f} ms; {joined.again} asked again",
            )
        ]

    def connect(self) -> None:
        """All nodes, each for the first time."""
        ids = [node_id for pool in self.stage.pools for node_id in pool.nodes]
        empty, cpu, began = processes.resident(self.stage.pid), self.stage.cpu(), time.monotonic()
        plane = self.stage.plane
        self.agents.start(plane.host, plane.port, ids, SPREAD_S, real=self.options.real)
        told, closes = self.agents.until_connected(len(ids), CONNECT_S)
        took = told.last - began
        self.quiet(10.0)
        used = [after - before for after, before in zip(self.stage.cpu(), cpu, strict=True)]
        memory = (processes.resident(self.stage.pid) - empty) / len(ids) / 1024
        self.rows += [
            (f"all connected for the first time, s; started within {SPREAD_S:.0f} s", f"{took:.1f}"),
            ("  turned away meanwhile", _counted(closes)),
            ("  processor each: serve, PostgreSQL, ms", " ".join(f"{1000 * u / len(ids):.1f}" for u in used)),
            ("memory of the serve for each session, KiB", f"{memory:.0f}"),
        ]

    def quiet(self, seconds: float) -> None:
        """Wait until the serve has done what the last step left it to do."""
        deadline = time.monotonic() + QUIET_S
        while time.monotonic() < deadline:
            before = self.stage.done()
            time.sleep(min(seconds, 2.0))
            if self.stage.done() == before:
                return
        raise RuntimeError(f"the log does not come to rest: {self.stage.newest()}")

    def round(self, number: int) -> None:
        self.steady.measure(self.agents, self.stage.cpu, self.options.seconds, self.options.nodes)
        self.change(number)
        self.quiet(5.0)
        self.reserve(number)
        self.quiet(5.0)
        self.kill()
        self.quiet(10.0)

    def _pool(self, number: int) -> tuple[nodes.Pool, int]:
        """A pool for the round and the number of its first node; the first has the real agents in it."""
        at = number % len(self.stage.pools)
        return self.stage.pools[at], sum(len(pool.nodes) for pool in self.stage.pools[:at])

    def _generation(self, node_id: str) -> int:
        state: node.State = self.stage.store.load(node_id).state
        return state.generation

    def change(self, number: int) -> None:
        """A new NodeSpec for every node of a pool, in one append from beside the plane."""
        pool, first = self._pool(number)
        wanted = self._generation(pool.nodes[0]) + 1
        nodes.reshape(self.stage.store, pool.nodes)
        began = time.monotonic()
        last = self.agents.until_told(first, first + len(pool.nodes), wanted, TOLD_S)
        self.reached.append(last - began)

    def reserve(self, number: int) -> None:
        """A gang over all nodes of a pool: from the answer to the last agent that has its allocation."""
        pool, first = self._pool(number)
        wanted = self._generation(pool.nodes[0]) + 1
        gpu = [{"class": "gpu", "count": 1}]
        asked = {"poolId": pool.id, "nodes": min(1024, len(pool.nodes)), "devices": gpu, "durationSeconds": 3600}
        headers = {"Idempotency-Key": f"gang-{number}"}
        self.stage.plane.ok("POST", "/v1/reservations", self.stage.cast.crowd[0][0], asked, **headers)
        began = time.monotonic()
        last = self.agents.until_told(first, first + len(pool.nodes), wanted, TOLD_S)
        self.gang.append(last - began)

    def kill(self) -> None:
        """kill -9 of the serve, and its successor on the same database and port."""
        before = self.stage.head()
        began = time.monotonic()
        self.stage.kill()
        self.stage.restart()
        self.ready.append(time.monotonic() - began)
        told, closes = self.agents.until_connected(self.options.nodes, CONNECT_S)
        self.back.append(told.last - began)
        self.refused.update(closes)
        time.sleep(max(0.0, began + TTL_S - time.monotonic()))
        self.said.update(self.stage.connectivity(before))

    def report(self) -> str:
        self.rows += self.steady.rows()
        self.rows += [
            ("a new NodeSpec at all nodes of a pool, s after its append", figures.spread(self.reached, 2)),
            ("a gang over all nodes of a pool at its agents, s after the answer", figures.spread(self.gang, 2)),
            ("kill -9: the next serve ready after, s", figures.spread(self.ready, 1)),
            ("kill -9: all connected again after, s", figures.spread(self.back, 1)),
            ("  turned away or without a connection meanwhile, all rounds", _counted(self.refused)),
            ("  recorded of connectivity, all rounds", _counted(self.said)),
        ]
        return figures.table(f"Agents, {self.options.nodes} nodes", self.rows)


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{times} {what}" for what, times in counter.most_common()) or "none"


def limit(agents: Herds, options: argparse.Namespace) -> Steady:
    """The same heartbeats at a server that does nothing with them."""
    measured = Steady()
    with processes.running("tests.bench.agents.bare") as bare:
        assert bare.stdout is not None
        port, empty = int(bare.stdout.readline()), processes.resident(bare.pid)
        agents.start("127.0.0.1", port, ["bare"] * options.nodes, SPREAD_S, bare=True)
        agents.until_connected(options.nodes, CONNECT_S)
        print(f"bare server: {(processes.resident(bare.pid) - empty) / options.nodes / 1024:.0f} KiB a session")
        for _ in range(options.rounds):
            measured.measure(agents, lambda: (processes.cpu(bare.pid), 0.0), options.seconds, options.nodes)
        agents.stop()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agents", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000, help="default 10000")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--seconds", type=float, default=20.0, help="of heartbeats in a round; default 20")
    parser.add_argument("--joins", type=int, default=1_000, help="machines that join over HTTP; default 1000")
    parser.add_argument("--real", type=int, default=50, help="of the agents are real AgentSessions; default 50")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    with home() as place, herds() as agents:
        bare = limit(agents, options)
        print(figures.table("Limit: a bare WebSocket server", bare.rows()), flush=True)
        with scene.scene(place) as stage:
            print(machine(stage.dsn), flush=True)
            bench = Bench(stage, agents, options)
            bench.join()
            stage.pools = nodes.build(
                stage.plane, stage.store, stage.cast.root, options.nodes, min(1000, options.nodes)
            )
            bench.quiet(5.0)
            bench.connect()
            for number in range(options.rounds):
                bench.round(number)
                print(f"round {number + 1} of {options.rounds} done after {time.monotonic() - began:.0f} s", flush=True)
            agents.stop()
            print(bench.report())
    print(f"ratio of heartbeats taken to the limit: {figures.ratio(bench.steady.flood, bare.flood)}")
    print(f"median (lowest-highest) of {options.rounds} rounds; all took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
