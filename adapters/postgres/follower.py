"""One follower a process: it reads the log once and serves all who follow it there (architecture.md §2)."""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Condition, Event, Thread
from typing import Final

import psycopg
from eventsourcing.persistence import MapperDeserialisationError

from adapters.postgres import reader
from adapters.postgres.pool import Pool
from adapters.postgres.reader import Tail
from domain import errors
from domain.event import Recorded

log = logging.getLogger(__name__)

SOON_S: Final = 0.01
LATER_S: Final = 0.1
HOLE_S: Final = 1.0
UNREADABLE_S: Final = 1.0
_LOG: Final = "the log"

Consumer = Callable[[Sequence[Recorded]], None]


class Follower:
    """Polls every 10 ms while there is work and backs off to 100 ms; each batch goes to every consumer in turn.

    A consumer that fails for good is left out from then on, and `failures` names it: the others go on. An event
    that cannot be read holds all of it up until it can. `at_rest` is called each time there is nothing new.
    """

    def __init__(
        self,
        pool: Pool,
        consumers: Sequence[Consumer],
        position: int = 0,
        at_rest: Callable[[], object] = lambda: None,
    ) -> None:
        self._pool = pool
        self._consumers = tuple(consumers)
        self._at_rest = at_rest
        self._tail = Tail(position)
        self._batch: Sequence[Recorded] = []
        self._served = 0
        self._stop = Event()
        self._moved = Condition()
        self._seen = position
        self._end = position
        self._at_end = time.monotonic()
        self._thread = Thread(target=self._run, name="follower", daemon=True)
        self._dropped: set[int] = set()
        self.failures: dict[str, BaseException] = {}

    @property
    def position(self) -> int:
        """Everything up to here has been given to every consumer."""
        return self._seen

    @property
    def end(self) -> int:
        """The furthest position that it knows to be in the log: what it read, or looked up while it was behind."""
        return max(self._end, self._tail.position)

    @property
    def failure(self) -> BaseException | None:
        """Why it, or a consumer of it, stopped for good."""
        return next(iter(self.failures.values()), None)

    @property
    def hole_age(self) -> float:
        return self._tail.hole_age

    @property
    def lag_s(self) -> float:
        """Seconds since it last saw the log's end."""
        return time.monotonic() - self._at_end

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
        """Read, in the caller's thread, before the follower's is started, to where the log ends now.

        What others append meanwhile is left to the thread, and so is a hole that a writer keeps open for over a second.
        """
        with self._pool.connection() as connection:
            end = self._end = reader.end(connection)
        while self._seen < end and self._turn():
            if self._tail.held_open:
                if self._tail.hole_age > HOLE_S:
                    return
                self._stop.wait(SOON_S)

    def _run(self) -> None:
        pause = SOON_S
        while not self._stop.wait(pause):
            try:
                busy = self._turn()
            except (psycopg.OperationalError, errors.Unavailable) as fault:
                log.warning("the log cannot be read just now: %s", fault)
                busy = False
            except MapperDeserialisationError as fault:
                self._unreadable(fault)
                pause = UNREADABLE_S
                continue
            except Exception as fault:
                self.failures[_LOG] = fault
                log.exception("the follower stopped")
                return
            self.failures.pop(_LOG, None)
            pause = SOON_S if busy else min(pause * 1.5, LATER_S)

    def _unreadable(self, fault: MapperDeserialisationError) -> None:
        """Whose event it is nobody can tell, so nobody goes on; it is tried again, as somebody may mend the row."""
        if str(fault) != str(self.failures.get(_LOG)):
            log.error("the log: %s", fault)
        self.failures[_LOG] = fault

    def _turn(self) -> bool:
        """Read a batch and hand it on; say whether there may be more at once."""
        if not self._batch:
            with self._pool.connection() as connection:
                self._batch = self._tail.read(connection)
                if len(self._batch) == reader.BATCH:
                    self._end = reader.end(connection)
            self._served = 0
        if not self._batch:
            if self._tail.hole_age:
                return True
            self._at_end = time.monotonic()
            self._at_rest()
            return False
        while self._served < len(self._consumers):
            self._hand(self._served, self._batch)
            self._served += 1
        with self._moved:
            self._seen = self._batch[-1].position
            self._moved.notify_all()
        self._batch = []
        return True

    def _hand(self, index: int, batch: Sequence[Recorded]) -> None:
        """Give a batch to one consumer; the same one gets it again after database or log could not be read."""
        if index in self._dropped:
            return
        try:
            self._consumers[index](batch)
        except (psycopg.OperationalError, errors.Unavailable, MapperDeserialisationError):
            raise
        except Exception as fault:
            name = getattr(self._consumers[index], "__qualname__", f"consumer {index}")
            self._dropped.add(index)
            self.failures[name] = fault
            log.exception("%s stopped at positions %d-%d", name, batch[0].position, batch[-1].position)
