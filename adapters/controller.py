"""What every controller's loop does: hold its lease, take its rounds, keep one thing's trouble from the others."""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

import psycopg

from adapters.postgres.leases import TTL_S, Lease
from adapters.postgres.pool import Pool
from commands.controllers import clockwatch
from commands.ports import Race, Store
from domain import errors
from domain.event import Fence

log = logging.getLogger(__name__)

REST_S: Final = (0.1, 30.0)
IDLE_S: Final = 0.5


class Resting:
    """What went wrong unexpectedly is left alone for a while, longer each time, so that it is in nobody's way."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until: dict[str, tuple[float, float]] = {}

    def failed(self, id: str) -> None:
        shortest, longest = REST_S
        pause = min(self._until[id][1] * 2, longest) if id in self._until else shortest
        self._until[id] = (self._monotonic() + pause, pause)

    def idle(self, id: str) -> None:
        """It had nothing to do yet: one that waits for a node must not be looked at every tick."""
        self._until[id] = (self._monotonic() + IDLE_S, REST_S[0])

    def went_well(self, id: str) -> None:
        self._until.pop(id, None)

    def ids(self) -> list[str]:
        now = self._monotonic()
        self._until = {id: rest for id, rest in self._until.items() if now < rest[0] + REST_S[1]}
        return [id for id, (until, _) in self._until.items() if now < until]


class Controller:
    """A thread that takes a round every so many seconds while it holds the coordination lease `lease`.

    A second one of the same lease is a hot standby. `round` gets what it must write under, and whether wall-clock
    deadlines wait because the clock stepped.
    """

    def __init__(
        self,
        lease: str,
        pool: Pool,
        holder: str,
        round: Callable[[Fence, bool], None],
        store: Store,
        every_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = lease
        self._round = round
        self._every_s = every_s
        self._lease = Lease(pool, lease, holder, monotonic)
        self._store = store
        self._clock = clockwatch.Watch()
        self.resting = Resting(monotonic)
        self._stop = Event()
        self._thread = Thread(target=self._run, name=lease, daemon=True)

    @property
    def fence(self) -> Fence | None:
        """What it writes under; None while it stands by."""
        return self._lease.fence

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        try:
            self._lease.release()
        except psycopg.OperationalError:
            log.warning("the lease %s could not be handed back; the next holder waits for it to lapse", self._name)

    def _run(self) -> None:
        failing_since: float | None = None
        while not self._stop.wait(self._every_s):
            try:
                self.tick()
                failing_since = None
                continue
            except (psycopg.OperationalError, errors.Unavailable) as fault:
                log.warning("%s cannot reach the database just now: %s", self._name, fault)
            except Exception:
                log.exception("a round of %s failed; the next one tries again", self._name)
            failing_since = failing_since or time.monotonic()
            if time.monotonic() - failing_since > TTL_S:
                self._stand_back()
                failing_since = None

    def _stand_back(self) -> None:
        """Whoever holds the lease and gets nothing done must not keep it from one that could."""
        log.warning("%s gets nothing done and gives its lease up for a while", self._name)
        try:
            self._lease.release()
        except psycopg.OperationalError:
            self._lease.lose()
        self._stop.wait(TTL_S)

    def tick(self) -> bool:
        """One round, if the lease is held: says whether there was one. What another has taken over is left to it."""
        if not self._lease.tick() or (fence := self._lease.fence) is None:
            return False
        try:
            self._round(fence, clockwatch.held(self._store, self._clock, fence))
        except errors.Fenced:
            log.warning("another process has taken over %s", self._name)
            self._lease.lose()
        return True

    def one(self, step: Callable[[], object], id: str) -> None:
        """One thing's trouble must not stop the others; what could do nothing yet rests as well."""
        if not self._lease.tick():
            raise errors.Fenced("the lease was lost between two steps")
        try:
            if step() is None:
                self.resting.idle(id)
            else:
                self.resting.went_well(id)
        except Race:
            log.info("%s: others came between; the next tick tries again", id)
        except errors.Locked:
            log.warning("%s: a row it needs is held; it rests", id)
            self.resting.failed(id)
        except (errors.Fenced, errors.Unavailable, psycopg.OperationalError):
            raise
        except errors.Refusal as refusal:
            log.warning("%s: %s", id, refusal.detail)
            self.resting.failed(id)
        except Exception:
            log.exception("%s: a step failed unexpectedly", id)
            self.resting.failed(id)
