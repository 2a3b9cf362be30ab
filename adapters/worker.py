"""The controllers' loop: every job under a coordination lease, so that a second worker is a hot standby."""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, LiteralString

import psycopg

from adapters.calendars import Calendars
from adapters.postgres.leases import TTL_S, Lease
from adapters.postgres.pool import Pool
from commands.controllers import scheduler, timekeeper
from commands.ports import Ports, Race
from domain import errors
from domain.event import Fence

log = logging.getLogger(__name__)

LEASE: Final = "singleton:reservations"
TICK_S: Final = 0.03
IDLE_LOOK_TICKS: Final = 30
AT_ONCE: Final = 200
REST_S: Final = (0.1, 30.0)
IDLE_S: Final = 0.5

_DUE: LiteralString = """
SELECT id FROM reservations WHERE due_at <= database_ms() AND NOT id = ANY(%s)
ORDER BY due_at, due_rank, id LIMIT %s
"""
_QUEUED: LiteralString = "SELECT pool_id, count(*) FROM pool_queue GROUP BY pool_id ORDER BY pool_id"
_QUEUE: LiteralString = """
SELECT reservation_id FROM pool_queue WHERE pool_id = %s AND NOT reservation_id = ANY(%s)
ORDER BY spot, priority DESC, since, reservation_id OFFSET %s LIMIT %s
"""


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


class Worker:
    """Ends and starts what is due, ends first; then places what waits (domain.md §5)."""

    def __init__(
        self,
        ports: Ports,
        pool: Pool,
        calendars: Calendars,
        holder: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ports = ports
        self._pool = pool
        self._calendars = calendars
        self._lease = Lease(pool, LEASE, holder, monotonic)
        self._resting = Resting(monotonic)
        self._looked: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._ticks = 0
        self._stop = Event()
        self._thread = Thread(target=self._run, name="worker", daemon=True)

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
            log.warning("the lease could not be handed back; the next worker waits for it to lapse")

    def _run(self) -> None:
        failing_since: float | None = None
        while not self._stop.wait(TICK_S):
            try:
                self.tick()
                failing_since = None
                continue
            except (psycopg.OperationalError, errors.Unavailable) as fault:
                log.warning("the worker cannot reach the database just now: %s", fault)
            except Exception:
                log.exception("a tick of the worker failed; the next one tries again")
            failing_since = failing_since or time.monotonic()
            if time.monotonic() - failing_since > TTL_S:
                self._stand_back()
                failing_since = None

    def _stand_back(self) -> None:
        """A worker that holds the lease and gets nothing done must not keep it from one that could."""
        log.warning("the worker gets nothing done and gives its lease up for a while")
        try:
            self._lease.release()
        except psycopg.OperationalError:
            self._lease.lose()
        self._stop.wait(TTL_S)

    def tick(self) -> None:
        """One round, if the lease is held; what another worker has taken over is left to it."""
        if not self._lease.tick() or (fence := self._lease.fence) is None:
            return
        try:
            self._ticks += 1
            for reservation_id in self._due():
                self._one(lambda id=reservation_id: timekeeper.step(self._ports.store, id, fence), reservation_id)  # type: ignore[misc]
            self._schedule(fence)
        except errors.Fenced:
            log.warning("another worker has taken over")
            self._lease.lose()

    def _schedule(self, fence: Fence) -> None:
        """A pool's queue is walked when something may have made room, and about once a second besides.

        A long queue is walked page by page: claims that fit nowhere must not hide those behind them for ever.
        """
        with self._pool.connection() as connection:
            lengths = connection.execute(_QUEUED, prepare=True).fetchall()
        idle_look = self._ticks % IDLE_LOOK_TICKS == 0
        for pool_id, length in lengths:
            changes = self._calendars.changes(pool_id)
            place = self._places.get(pool_id, 0)
            if idle_look or place or self._looked.get(pool_id) != changes:
                self._walk(pool_id, self._page(pool_id, place), fence)
                self._places[pool_id] = place + AT_ONCE if place + AT_ONCE < length else 0
                self._looked[pool_id] = changes

    def _page(self, pool_id: str, place: int) -> list[str]:
        with self._pool.connection() as connection:
            params = (pool_id, self._resting.ids(), place, AT_ONCE)
            return [row[0] for row in connection.execute(_QUEUE, params, prepare=True).fetchall()]

    def _walk(self, pool_id: str, queue: list[str], fence: Fence) -> None:
        """A whole queue in one view of its pool; when one in it makes trouble, each alone."""
        try:
            scheduler.walk(self._ports, pool_id, queue, fence)
        except Race:
            log.info("%s: others came between; the next look tries again", pool_id)
        except errors.Locked:
            log.warning("the queue of %s meets a lock that is held; the next look tries again", pool_id)
        except (errors.Fenced, errors.Unavailable, psycopg.OperationalError):
            raise
        except Exception as fault:
            log.warning("the queue of %s is walked one by one: %r", pool_id, fault)
            for reservation_id in queue:
                self._one(lambda id=reservation_id: scheduler.step(self._ports, id, fence), reservation_id)  # type: ignore[misc]

    def _one(self, step: Callable[[], object], reservation_id: str) -> None:
        """One reservation's trouble must not stop the others; what could do nothing yet rests as well."""
        if not self._lease.tick():
            raise errors.Fenced("the lease was lost between two steps")
        try:
            if step() is None:
                self._resting.idle(reservation_id)
            else:
                self._resting.went_well(reservation_id)
        except Race:
            log.info("%s: others came between; the next tick tries again", reservation_id)
        except errors.Locked:
            log.warning("%s: a row it needs is held; it rests", reservation_id)
            self._resting.failed(reservation_id)
        except (errors.Fenced, errors.Unavailable, psycopg.OperationalError):
            raise
        except errors.Refusal as refusal:
            log.warning("%s: %s", reservation_id, refusal.detail)
            self._resting.failed(reservation_id)
        except Exception:
            log.exception("%s: a step failed unexpectedly", reservation_id)
            self._resting.failed(reservation_id)

    def _due(self) -> list[str]:
        with self._pool.connection() as connection:
            rows = connection.execute(_DUE, (self._resting.ids(), AT_ONCE), prepare=True).fetchall()
        return [row[0] for row in rows]
