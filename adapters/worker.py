"""The reservations' controllers: what time brings about, and the queues (domain.md §5)."""

import logging
import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Final, LiteralString

import psycopg
from msgspec.structs import replace

from adapters.calendars import Calendars
from adapters.controller import Controller
from adapters.postgres.leases import TTL_S
from adapters.postgres.pool import Pool
from commands import extensions, instances
from commands.controllers import presence, replacing, scheduler, timekeeper
from commands.ports import Ports
from domain import errors, reservation_terms
from domain.event import Fence

log = logging.getLogger(__name__)

LEASE: Final = "singleton:reservations"
TICK_S: Final = 0.03
IDLE_LOOK_TICKS: Final = 30
AT_ONCE: Final = 200
TOGETHER: Final = 32
"""How many begin in one append: while it is taken, nobody else can write to their nodes."""

_DUE: LiteralString = """
SELECT clock.now, ordered.ids, ordered.starts
FROM (SELECT database_ms() AS now OFFSET 0) AS clock, LATERAL (
    SELECT coalesce(array_agg(id ORDER BY due_rank, due_at, id) FILTER (WHERE due_rank = 0), '{}') AS ids,
           coalesce(array_agg(id ORDER BY due_at, id) FILTER (WHERE due_rank = 1), '{}') AS starts
    FROM (SELECT id, due_rank, due_at FROM (
        (SELECT id, due_rank, due_at FROM reservations
         WHERE due_rank = 0 AND due_at <= clock.now AND NOT id = ANY(%(resting)s)
         ORDER BY due_at, id LIMIT %(most)s)
        UNION ALL
        (SELECT id, due_rank, due_at FROM reservations
         WHERE due_rank = 1 AND due_at <= clock.now AND NOT id = ANY(%(resting)s)
         ORDER BY due_at, id LIMIT %(most)s)
        UNION ALL
        (SELECT id, 0, since FROM open_drafts
         WHERE since <= clock.now - %(draft_ms)s AND NOT id LIKE 'rsv@_%%' ESCAPE '@' AND NOT id = ANY(%(resting)s)
         ORDER BY since, id LIMIT %(most)s)
    ) AS due ORDER BY due_rank, due_at, id LIMIT %(most)s) AS first
) AS ordered
"""
"""After an outage all ends that are overdue come first: each may be what a start waits for.

The clock is asked once: compared with a volatile function, every row that is due some day would be looked at.
"""

_QUEUED: LiteralString = "SELECT pool_id, count(*) FROM pool_queue GROUP BY pool_id ORDER BY pool_id"
_QUEUE: LiteralString = """
SELECT reservation_id FROM pool_queue WHERE pool_id = %s AND NOT reservation_id = ANY(%s)
ORDER BY spot, priority DESC, since, reservation_id OFFSET %s LIMIT %s
"""
_LACKING: LiteralString = """
SELECT pool_id, id FROM reservations WHERE lacking > 0 AND NOT id = ANY(%s) ORDER BY pool_id, id
"""


class Worker:
    """Ends and starts what is due, ends first; then makes gangs whole again, and places what waits (domain.md §5)."""

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
        self._looked: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._replaced: dict[str, int] = {}
        self._replaced_last = ("", "")
        self._unreadable: set[str] = set()
        self._ticks = 0
        self._monotonic = monotonic
        self._last: presence.Round | None = None
        self._controller = Controller(LEASE, pool, holder, self._round, ports.store, TICK_S, monotonic)
        self._resting = self._controller.resting
        self.start, self.stop, self.tick = self._controller.start, self._controller.stop, self._controller.tick

    @property
    def fence(self) -> Fence | None:
        """What it writes under; None while it stands by."""
        return self._controller.fence

    def _round(self, fence: Fence, held: bool) -> None:
        """While the clock is doubted nothing starts, ends or is placed: each would be at a wrong instant."""
        if held:
            return
        self._ticks += 1
        began_s = self._monotonic()
        now, due, starts = self._due()
        running = presence.begun(self._last, fence.epoch, began_s, now, TTL_S)
        for id in due:
            self._controller.one(partial(self._step, id, fence, running.back_at), id)
        for id in self._start(starts, fence):
            self._controller.one(partial(self._step, id, fence, running.back_at), id)
        self._replace(fence)
        self._schedule(fence)
        self._last = replace(running, ended_s=self._monotonic())

    def _start(self, ids: list[str], fence: Fence) -> list[str]:
        """Those that begin now, many to an append; says which are to begin alone, each with its own trouble."""
        left: list[str] = []
        for at in range(0, len(ids), TOGETHER):
            some = ids[at : at + TOGETHER]
            try:
                left += timekeeper.start(self._ports.store, some, fence) if len(some) > 1 else some
            except (errors.Fenced, errors.Unavailable, psycopg.OperationalError):
                raise
            except Exception as fault:
                log.warning("%d reservations cannot begin together, each begins alone: %r", len(some), fault)
                left += some
        return left

    def _step(self, id: str, fence: Fence, back_at: int) -> int | None:
        if id.startswith("ext_"):
            return extensions.expire(self._ports.store, id, fence)
        if id.startswith("inst_"):
            return instances.expire(self._ports.store, id, fence)
        return timekeeper.step(self._ports.store, id, fence, back_at)

    def _replace(self, fence: Fence) -> None:
        """Members that gangs lost, before anything that waits: when something may have made room, as `_schedule`.

        Where there are many, each round goes on behind the last: gangs that find no room must not hide the others.
        """
        with self._pool.connection() as connection:
            rows = connection.execute(_LACKING, (self._resting.ids(),), prepare=True).fetchall()
        changes = {pool_id: self._calendars.changes(pool_id) for pool_id, _ in rows}
        idle_look = self._ticks % IDLE_LOOK_TICKS == 0
        wanted = [row for row in rows if idle_look or self._replaced.get(row[0]) != changes[row[0]]]
        behind = bisect_right(wanted, self._replaced_last)
        for pool_id, reservation_id in (wanted[behind:] + wanted[:behind])[:AT_ONCE]:
            self._controller.one(partial(replacing.step, self._ports, reservation_id, fence), reservation_id)
            self._replaced_last = (pool_id, reservation_id)
        self._replaced = changes

    def _schedule(self, fence: Fence) -> None:
        """A pool's queue is walked when something may have made room, and about once a second besides.

        A long queue is walked page by page, each behind the first: claims that fit nowhere must not hide those behind
        them for ever, and whoever is behind is placed around what those ahead were promised.
        """
        with self._pool.connection() as connection:
            lengths = connection.execute(_QUEUED, prepare=True).fetchall()
        idle_look = self._ticks % IDLE_LOOK_TICKS == 0
        for pool_id, length in lengths:
            changes = self._calendars.changes(pool_id)
            if not idle_look and self._replaced.get(pool_id, changes) != changes:
                continue  # room that came after `_replace` looked: the next round shows it to the gangs first
            place = self._places.get(pool_id, 0)
            if idle_look or place or self._looked.get(pool_id) != changes:
                self._walk(pool_id, place, fence, seek=idle_look)
                self._places[pool_id] = place + AT_ONCE if place + AT_ONCE < length else 0
                self._looked[pool_id] = changes

    def _page(self, pool_id: str, place: int) -> list[str]:
        """Whoever rests keeps the place that was promised; only what cannot be read is left out."""
        with self._pool.connection() as connection:
            params = (pool_id, list(self._unreadable), place, AT_ONCE)
            return [row[0] for row in connection.execute(_QUEUE, params, prepare=True).fetchall()]

    def _walk(self, pool_id: str, place: int, fence: Fence, *, seek: bool) -> None:
        """A whole page in one view of its pool; who makes trouble rests, and the others go on."""
        resting = set(self._resting.ids())
        self._unreadable &= resting
        head = self._page(pool_id, 0)
        page = self._page(pool_id, place) if place else []
        queue = list(dict.fromkeys([*head, *page]))
        skipped = scheduler.Skipped(len(head), max(0, place - len(head)))
        try:
            walk = scheduler.walk(self._ports, pool_id, queue, fence, seek=seek, skipped=skipped, resting=resting)
            with closing(walk) as steps:
                for id, step in steps:
                    self._controller.one(step, id)
        except (errors.Fenced, errors.Unavailable, psycopg.OperationalError):
            raise
        except Exception as fault:
            log.warning("the queue of %s cannot be walked, each in it is looked at alone: %r", pool_id, fault)
            for id in queue:
                self._controller.one(partial(self._ports.store.load, id), id)
            self._unreadable |= set(queue).intersection(self._resting.ids()) - resting

    def _due(self) -> tuple[int, list[str], list[str]]:
        """The database's clock in epoch ms, and what is due by it: what ends or else, and what begins."""
        params = {"resting": self._resting.ids(), "most": AT_ONCE, "draft_ms": reservation_terms.DRAFT_MS}
        with self._pool.connection() as connection:
            row = connection.execute(_DUE, params, prepare=True).fetchone()
        assert row is not None
        return row
