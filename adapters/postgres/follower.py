"""One follower a process: it reads the log once and serves all who follow it there (architecture.md §2)."""

import logging
from collections.abc import Callable, Sequence
from threading import Condition, Event, Thread
from typing import Final

import psycopg

from adapters.postgres.pool import Pool
from adapters.postgres.reader import Tail
from domain.event import Recorded

log = logging.getLogger(__name__)

SOON_S: Final = 0.01
LATER_S: Final = 0.1

Consumer = Callable[[Sequence[Recorded]], None]


class Follower:
    """Polls every 10 ms while there is work and backs off to 100 ms; each batch goes to every consumer in turn."""

    def __init__(self, pool: Pool, consumers: Sequence[Consumer], position: int = 0) -> None:
        self._pool = pool
        self._consumers = tuple(consumers)
        self._tail = Tail(position)
        self._batch: Sequence[Recorded] = []
        self._served = 0
        self._stop = Event()
        self._moved = Condition()
        self._seen = position
        self._thread = Thread(target=self._run, name="follower", daemon=True)
        self.failure: BaseException | None = None

    @property
    def position(self) -> int:
        """Everything up to here has been given to every consumer."""
        return self._seen

    @property
    def hole_age(self) -> float:
        return self._tail.hole_age

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, position: int, seconds: float) -> bool:
        """Whether the position was passed within so many seconds."""
        with self._moved:
            return self._moved.wait_for(lambda: self._seen >= position, seconds)

    def catch_up(self) -> None:
        """Read to the present end in the caller's thread; used before the thread is started."""
        while self._turn():
            pass

    def _run(self) -> None:
        pause = SOON_S
        while not self._stop.wait(pause):
            try:
                busy = self._turn()
            except psycopg.OperationalError as fault:
                log.warning("the log cannot be read just now: %s", fault)
                busy = False
            except Exception as fault:
                self.failure = fault
                log.exception("the follower stopped")
                return
            pause = SOON_S if busy else min(pause * 1.5, LATER_S)

    def _turn(self) -> bool:
        """Read a batch and hand it on; a consumer that failed gets the same batch again."""
        if not self._batch:
            with self._pool.connection() as connection:
                self._batch = self._tail.read(connection)
            self._served = 0
        if not self._batch:
            return self._tail.hole_age > 0
        for consume in self._consumers[self._served :]:
            consume(self._batch)
            self._served += 1
        with self._moved:
            self._seen = self._batch[-1].position
            self._moved.notify_all()
        self._batch = []
        return True
