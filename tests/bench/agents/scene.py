"""PostgreSQL, the serve under test, and the processes with its agents: brought up once, asked together."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg

from adapters.ids import Mint
from adapters.postgres import embedded
from adapters.postgres.pool import pool as connections
from adapters.postgres.store import EventStore
from projections import table
from tests.bench import fleet
from tests.bench.agents import nodes, processes
from tests.bench.agents.processes import Worker
from tests.torture.plane import Serve

T = TypeVar("T")
HERDS: Final = 2
_POLL_S: Final = 0.05


class Told:
    """What all agents counted together since the last time."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self.connected = sum(one["connected"] for one in answers)
        self.real = sum(one["real"] for one in answers)
        self.lost = sum(one["lost"] for one in answers)
        self.last = max(one["last"] for one in answers)
        self.beats = sum(one["beats"] for one in answers)
        self.micros = [micros for one in answers for micros in one["micros"]]
        self.cpu = sum(one["cpu"] for one in answers)
        self.closes: Counter[str] = Counter()
        for one in answers:
            self.closes.update(one["closes"])


class Scene:
    """`dsn` is of the database that the serve and the benchmark share."""

    def __init__(self, serve: Serve, server: embedded.Embedded, dsn: str, store: EventStore, cast: fleet.Cast) -> None:
        self.dsn = dsn
        self.serve = serve
        self.server = server
        self.store = store
        self.cast = cast
        self.plane = serve.until_ready()
        self.pools: list[nodes.Pool] = []

    @property
    def pid(self) -> int:
        return self.plane.process.pid

    def cpu(self) -> tuple[float, float]:
        """Seconds of processor time of the serve and of PostgreSQL."""
        assert self.server.pid is not None
        return processes.cpu(self.pid), processes.tree(self.server.pid)

    def kill(self) -> None:
        self.serve.kill()

    def restart(self) -> None:
        self.serve.start()
        self.plane = self.serve.until_ready()

    def head(self) -> int:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("SELECT coalesce(max(notification_id), 0) FROM stored_events").fetchone()
        assert row is not None
        return int(row[0])

    def done(self) -> tuple[int, ...]:
        """The log's last position and the latest inventory that was taken: while either moves, the serve is busy."""
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("SELECT coalesce(max(inventory_at), 0) FROM node_sightings").fetchone()
        assert row is not None
        return self.head(), int(row[0])

    def newest(self) -> list[str]:
        """The last events, for whoever wonders what goes on."""
        end = self.head()
        return [f"{type(one.event).__name__} of {one.stream}" for one in self.store.log(end - 20, end, 20)]

    def connectivity(self, after: int) -> Counter[str]:
        """What was recorded of nodes' connectivity after a position of the log."""
        counted: Counter[str] = Counter()
        for recorded in self.store.log(after, self.head(), 1_000_000):
            if said := getattr(recorded.event, "connectivity", None):
                counted[said] += 1
        return counted


class Herds:
    """The agents of all processes; agent numbers are those of the nodes."""

    def __init__(self, workers: list[Worker]) -> None:
        self._workers = workers

    def start(self, host: str, port: int, ids: list[str], spread: float, *, bare: bool = False, real: int = 0) -> None:
        share = -(-len(ids) // len(self._workers))
        for at, worker in enumerate(self._workers):
            mine = ids[at * share : (at + 1) * share]
            order = {"host": host, "port": port, "first": at * share, "nodes": mine, "spread": spread}
            worker.send(do="start", bare=bare, real=real if at == 0 else 0, **order)
        self._answers()

    def _answers(self) -> list[dict[str, Any]]:
        return [worker.answer() for worker in self._workers]

    def _ask(self, **order: Any) -> list[dict[str, Any]]:
        for worker in self._workers:
            worker.send(**order)
        return self._answers()

    def tell(self) -> Told:
        return Told(self._ask(do="tell"))

    def flood(self, sessions: int, seconds: float) -> float:
        """Heartbeats taken a second when each of so many sessions has one under way at all times."""
        share = sessions // len(self._workers)
        return float(sum(one["rate"] for one in self._ask(do="flood", sessions=share, seconds=seconds)))

    def stop(self) -> None:
        self._ask(do="stop")

    def until_connected(self, count: int, seconds: float) -> tuple[Told, Counter[str]]:
        """Wait for so many; what they said then, and all that was said to those that were turned away until then."""
        closes: Counter[str] = Counter()

        def all_there() -> Told | None:
            told = self.tell()
            closes.update(told.closes)
            return told if told.connected >= count else None

        return until(all_there, seconds, lambda: f"{self.tell().connected} of {count} are connected; {closes}"), closes

    def until_told(self, first: int, end: int, generation: int, seconds: float) -> float:
        """When the last of the agents `[first, end)` had its NodeSpec, on the machine's monotonic clock."""

        def all_have() -> float | None:
            answers = self._ask(do="told", first=first, end=end, generation=generation)
            done = sum(one["have"] for one in answers) == sum(one["of"] for one in answers)
            return max(float(one["last"]) for one in answers) if done else None

        return until(all_have, seconds, lambda: f"not all have generation {generation}")


def until(look: Callable[[], T | None], seconds: float, what: Callable[[], str]) -> T:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (found := look()) is not None:
            return found
        time.sleep(_POLL_S)
    raise RuntimeError(f"after {seconds:.0f} s: {what()}")


@contextmanager
def herds() -> Iterator[Herds]:
    with ExitStack() as stack:
        started = [stack.enter_context(processes.running("tests.bench.agents.herd")) for _ in range(HERDS)]
        yield Herds([Worker(process) for process in started])


@contextmanager
def scene(place: Path) -> Iterator[Scene]:
    access = place / "access.toml"
    cast = fleet.write_access(access, 1)
    server = embedded.Embedded(place / "data")
    dsn = server.start()
    try:
        serve = Serve("serve", place, dsn, access, port=free_port())
        serve.start()
        try:
            with connections(dsn, 2, application_name="bench") as opened:
                yield Scene(serve, server, dsn, EventStore(opened, table.INLINE, fleet.ROOT, Mint()), cast)
        finally:
            serve.stop()
    finally:
        server.stop()


def free_port() -> int:
    """A port that nobody has now, below those that the system deals out, so that no agent's connection takes it."""
    for port in range(18_080, 18_180):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port from 18080 on is free")
