"""The torture itself: load, a kill at a random moment, recovery, and a look at everything that was promised."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.bench import fleet
from tests.torture import verify
from tests.torture.agents import Agents
from tests.torture.journal import Acknowledged
from tests.torture.load import Load
from tests.torture.plane import Serve
from tests.torture.server import Blow, Server

CLIENTS: Final = 6
NODES: Final = 24
BEFORE_S: Final = (0.2, 1.4)
AFTER_S: Final = (0.1, 0.6)
STARTING_S: Final = (0.0, 1.2)
AUDIT_EVERY: Final = 10
SHOWN: Final = 10
"""Reservations that each serve is asked for in a round."""


class Victim(NamedTuple):
    """Who is killed at once: so many serves, and this of PostgreSQL; `again` while it is just starting."""

    name: str
    serves: int = 0
    blow: Blow | None = None
    again: bool = False


ONE_SERVE: Final = Victim("one serve", 1)
BOTH_SERVES: Final = Victim("both serves", 2)
SERVE_AGAIN: Final = Victim("a serve, and as it starts", 1, again=True)
POSTMASTER: Final = Victim("postmaster", 0, "postmaster")
POSTMASTER_AGAIN: Final = Victim("postmaster, and as it starts", 0, "postmaster", again=True)
POSTMASTER_AND_SERVE: Final = Victim("postmaster and a serve", 1, "postmaster")
EVERYTHING: Final = Victim("all of PostgreSQL", 0, "everything")
BACKEND: Final = Victim("one process of PostgreSQL", 0, "backend")
VICTIMS: Final = (
    ONE_SERVE,
    BOTH_SERVES,
    SERVE_AGAIN,
    POSTMASTER,
    POSTMASTER_AGAIN,
    POSTMASTER_AND_SERVE,
    EVERYTHING,
    BACKEND,
)


class Times(NamedTuple):
    """Seconds of one round: until the kill, then until PostgreSQL answered (None: it was not struck) and until both
    serves were ready, from the kill on; then, with the load held still, until the read models were at the log's head,
    and for all other checks.
    """

    before: float
    database: float | None
    ready: float
    caught_up: float
    verified: float


class Round(NamedTuple):
    """What one round saw. `acknowledged`, `unanswered` and `open` are the load's at the kill, from the first round on;
    `compared` the rows of its audit diff, None of a round without one.
    """

    number: int
    victim: str
    times: Times
    acknowledged: int
    unanswered: int
    open: int
    events: int
    compared: int | None
    wrong: tuple[str, ...]


class Torture:
    """Everything that runs; made by `torture`."""

    def __init__(self, server: Server, serves: Sequence[Serve], load: Load, agents: Agents, rng: Random) -> None:
        self.server = server
        self.serves = serves
        self.load = load
        self.agents = agents
        self.log = verify.Log([])
        self._rng = rng

    def round(self, number: int, victim: Victim, *, audit: bool) -> Round:
        """`audit` says whether `audit diff` is part of it: it folds the whole log and takes seconds."""
        before = self._rng.uniform(*BEFORE_S)
        time.sleep(before)
        granted, unanswered, open = self.load.granted, len(self.load.unanswered), self.load.open
        database, ready = self._kill(victim)
        time.sleep(self._rng.uniform(*AFTER_S))
        with self.load.still():
            paused = time.monotonic()
            wrong = [*verify.caught_up(self.server.dsn)]
            caught_up = time.monotonic() - paused
            compared, more = self._verify(audit=audit)
            times = Times(before, database, ready, caught_up, time.monotonic() - paused - caught_up)
        events = len(self.log.events)
        return Round(number, victim.name, times, granted, unanswered, open, events, compared, (*wrong, *more))

    def finish(self) -> tuple[str, ...]:
        """Have every open request answered, and look once more; the load has ended then."""
        with self.load.still():
            self.load.finish()
            wrong = [*verify.caught_up(self.server.dsn), *self._verify(audit=True)[1]]
            if self.load.open:
                wrong.append(f"{self.load.open} requests have no answer to this day")
        return tuple(wrong)

    def _kill(self, victim: Victim) -> tuple[float | None, float]:
        """Kill, start what does not start by itself, wait until all is ready; return both times."""
        began = time.monotonic()
        killed = self._rng.sample(self.serves, victim.serves)
        gone = self.server.strike(victim.blow, self._rng) if victim.blow else set()
        for serve in killed:
            serve.kill()
        database = None
        if victim.blow:
            self._until_back(victim.blow, gone, again=victim.again)
            database = time.monotonic() - began
        for serve in killed:
            self._start(serve, again=victim.again)
        for serve in self.serves:
            serve.until_ready()
        return database, time.monotonic() - began

    def _until_back(self, blow: Blow, gone: set[int], *, again: bool) -> None:
        if again:
            self.server.until_another(gone)
            time.sleep(self._rng.uniform(*STARTING_S))
            gone |= self.server.strike(blow, self._rng)
        self.server.until_back(gone)

    def _start(self, serve: Serve, *, again: bool) -> None:
        serve.start()
        if again:
            time.sleep(self._rng.uniform(*STARTING_S))
            serve.kill()
            serve.start()

    def _verify(self, *, audit: bool) -> tuple[int | None, list[str]]:
        if self.agents.failure is not None:
            raise RuntimeError("the agents failed") from self.agents.failure
        given, shown = self.load.acknowledged, self._shown()
        self.log, wrong = verify.history(self.server.dsn, given, self.load.keys)
        wrong += [*self.load.wrong, *verify.answers(self.log, shown), *verify.current(shown, given)]
        if not audit:
            return None, wrong
        verdict, differences = verify.differences(self.server.dsn)
        return verdict.rows, wrong + differences + verify.evidence(self.server.dsn)

    def _shown(self) -> list[Acknowledged]:
        """What each serve shows of some reservations: whoever lived through a kill may remember what is not so."""
        made = self.load.made
        some = self._rng.sample(sorted(made), min(SHOWN, len(made)))
        return [verify.shown(serve.until_ready(), id, made[id]) for serve in self.serves for id in some]


@contextmanager
def torture(place: Path, rng: Random, nodes: int = NODES) -> Iterator[Torture]:
    """PostgreSQL, two serves on it, a fleet and its agents, and clients at work, all below `place`."""
    with ExitStack() as running:
        server = Server(place / "data")
        running.callback(server.stop)
        server.start()
        access = place / "access.toml"
        cast = fleet.write_access(access, CLIENTS)
        serves = [Serve(f"serve-{n}", place, server.dsn, access) for n in (1, 2)]
        for serve in serves:
            running.callback(serve.stop)
            serve.start()
        first, *_ = [serve.until_ready() for serve in serves]
        pool_id = fleet.build(first, server.dsn, cast, nodes)
        agents = Agents(server.dsn)
        running.callback(agents.stop)
        agents.start(pool_id)
        load = Load(serves, pool_id, cast.crowd, rng)
        running.callback(load.stop)
        load.start()
        yield Torture(server, serves, load, agents, rng)


def deck(rng: Random) -> Iterator[Victim]:
    """Victims without end: in random order, each as often as every other."""
    while True:
        yield from rng.sample(VICTIMS, len(VICTIMS))


def run(
    running: Torture, victims: Sequence[Victim], say: Callable[[Round], None], audit_every: int = AUDIT_EVERY
) -> tuple[str, ...]:
    """A round for each victim, then an end to the load; returns what is wrong, at the first look that finds any."""
    for number, victim in enumerate(victims, 1):
        found = running.round(number, victim, audit=number % audit_every == 0)
        say(found)
        if found.wrong:
            running.load.stop()
            return found.wrong
    return running.finish()
