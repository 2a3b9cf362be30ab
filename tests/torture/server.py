"""The PostgreSQL under test: the product's own embedded server with every commit durable, and the ways to kill it.

The product's supervisor runs in this process, so that it is on trial too: whatever is killed here, it has to bring
back on the same data directory.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, Literal

import psycopg

from adapters.postgres import embedded

BACK_S: Final = 60.0
_POLL_S: Final = 0.01

Blow = Literal["postmaster", "everything", "backend"]


class Server:
    """Start it once, strike it as often as you like, stop it once."""

    def __init__(self, data_dir: Path) -> None:
        self._embedded = embedded.Embedded(data_dir)
        self.dsn = ""

    def start(self) -> None:
        self.dsn = self._embedded.start()

    def stop(self) -> None:
        self._embedded.stop()

    def strike(self, blow: Blow, rng: Random) -> set[int]:
        """kill -9 the postmaster alone, the postmaster and all its children, or one child; return who has to go.

        Without its postmaster a child ends by itself, and without one child the postmaster ends all others: either
        way the processes of now are none of those that answer afterwards.
        """
        postmaster = self._postmaster()
        children = _children(postmaster)
        struck = {
            "postmaster": [postmaster],
            "everything": [postmaster, *children],
            "backend": [rng.choice(children or [postmaster])],
        }[blow]
        for pid in struck:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return {*children, *struck}

    def until_another(self, gone: set[int]) -> None:
        """Wait until the supervisor has begun to start the next postmaster; it need not answer yet."""
        deadline = time.monotonic() + BACK_S
        while self._postmaster() in gone:
            self._check(deadline)
            time.sleep(_POLL_S)

    def until_back(self, gone: set[int]) -> None:
        """Wait until those have gone and the server answers; raises when that does not come about."""
        deadline = time.monotonic() + BACK_S
        while any(map(_lives, gone)) or not self._answers():
            self._check(deadline)
            time.sleep(_POLL_S)

    def _check(self, deadline: float) -> None:
        if self._embedded.failure is not None:
            raise self._embedded.failure
        if time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not come back within {BACK_S:.0f} s")

    def _postmaster(self) -> int:
        if self._embedded.pid is None:
            raise RuntimeError("the server was not started")
        return self._embedded.pid

    def _answers(self) -> bool:
        return psycopg.pq.PGconn.ping(self.dsn.encode()) == psycopg.pq.Ping.OK


def _children(pid: int) -> list[int]:
    """None of a process that is gone."""
    try:
        return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


def _lives(pid: int) -> bool:
    """Whether it still runs as a server; one that nobody has waited for yet is dead."""
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("postgres")
    except OSError:
        return False
