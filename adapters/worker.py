"""The controllers' loop: every job under a coordination lease, so that a second worker is a hot standby."""

import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, LiteralString

import psycopg

from adapters.calendars import Calendars
from adapters.postgres.leases import Lease
from adapters.postgres.pool import Pool
from commands.controllers import scheduler, timekeeper
from commands.ports import Ports, Race
from domain import errors
from domain.event import Fence

log = logging.getLogger(__name__)

TICK_S: Final = 0.03
IDLE_LOOK_TICKS: Final = 30
AT_ONCE: Final = 200

_DUE: LiteralString = """
SELECT id FROM reservations WHERE due_at <= database_ms() ORDER BY due_at, due_rank, id LIMIT %s
"""
_QUEUE: LiteralString = """
SELECT pool_id, reservation_id FROM pool_queue ORDER BY pool_id, spot, priority DESC, since, reservation_id LIMIT %s
"""


class Worker:
    """Ends and starts what is due, ends first; then places what waits (domain.md §5)."""

    def __init__(self, ports: Ports, pool: Pool, calendars: Calendars, holder: str) -> None:
        self._ports = ports
        self._pool = pool
        self._calendars = calendars
        self._lease = Lease(pool, "singleton:reservations", holder)
        self._looked: dict[str, int] = {}
        self._ticks = 0
        self._stop = Event()
        self._thread = Thread(target=self._run, name="worker", daemon=True)

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
        while not self._stop.wait(TICK_S):
            try:
                if self._lease.tick() and (fence := self._lease.fence) is not None:
                    self._tick(fence)
            except (psycopg.OperationalError, errors.Unavailable) as fault:
                log.warning("the worker cannot reach the database just now: %s", fault)
            except errors.Fenced:
                log.warning("another worker has taken over")

    def _tick(self, fence: Fence) -> None:
        self._ticks += 1
        store = self._ports.store
        for reservation_id in self._column(_DUE):
            self._one(lambda id=reservation_id: timekeeper.step(store, id, fence), reservation_id)  # type: ignore[misc]
        self._schedule(fence)

    def _schedule(self, fence: Fence) -> None:
        """A pool's queue is walked when something may have made room, and about once a second besides."""
        with self._pool.connection() as connection:
            queue = connection.execute(_QUEUE, (AT_ONCE,), prepare=True).fetchall()
        idle_look = self._ticks % IDLE_LOOK_TICKS == 0
        changes = {pool_id: self._calendars.changes(pool_id) for pool_id, _ in queue}
        for pool_id, reservation_id in queue:
            if idle_look or self._looked.get(pool_id) != changes[pool_id]:
                self._one(
                    lambda id=reservation_id: scheduler.step(self._ports, id, fence),  # type: ignore[misc]
                    reservation_id,
                )
        self._looked |= changes

    def _one(self, step: Callable[[], object], reservation_id: str) -> None:
        """One reservation's trouble must not stop the others."""
        try:
            step()
        except Race:
            log.info("%s: others came between; the next tick tries again", reservation_id)
        except errors.Fenced:
            raise
        except errors.Conflict as refusal:
            log.warning("%s: %s", reservation_id, refusal.detail)

    def _column(self, sql: LiteralString) -> list[str]:
        with self._pool.connection() as connection:
            return [row[0] for row in connection.execute(sql, (AT_ONCE,), prepare=True).fetchall()]
