"""What a process does beside its requests every second or so, in one thread (architecture.md §5)."""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, NamedTuple

import psycopg

from domain import errors

log = logging.getLogger(__name__)

ROUND_S: Final = 0.1
REST_S: Final = 0.5


class Job(NamedTuple):
    """`run` every so many seconds (0: each round), `at_stop` once more at a clean stop."""

    name: str
    every_s: float
    run: Callable[[], None]
    at_stop: Callable[[], None] = lambda: None


class Housekeeping:
    """Runs its jobs in turn; the trouble of one is logged, and the others go on."""

    def __init__(self, *jobs: Job, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._jobs = jobs
        self._monotonic = monotonic
        self._due = dict.fromkeys(jobs, monotonic())
        self._stop = Event()
        self._thread = Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        for job in self._jobs:
            _guarded(job.name, job.at_stop)

    def round(self) -> None:
        """Run what is due."""
        for job in self._jobs:
            now = self._monotonic()
            if now >= self._due[job]:
                went_well = _guarded(job.name, job.run)
                self._due[job] = now + (job.every_s if went_well else max(job.every_s, REST_S))

    def _run(self) -> None:
        while not self._stop.wait(ROUND_S):
            self.round()


def _guarded(name: str, run: Callable[[], None]) -> bool:
    try:
        run()
    except (psycopg.OperationalError, errors.Unavailable) as fault:
        log.warning("%s: the database cannot be reached just now: %s", name, fault)
    except Exception:
        log.exception("%s failed; the next round tries again", name)
    else:
        return True
    return False
