"""The same request many times at once: one after the other, so that only the first is decided on (iam.md §6)."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from domain import errors

WAIT_S: Final = 10.0
"""Who waits holds a thread: as long as one decision may take, not one for each that came before."""


class InTurn:
    """Turns of one process, by key. Who comes from another process is a race, and both are decided on."""

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._guard = Lock()
        self._turns: dict[str, tuple[Lock, int]] = {}

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        with self._guard:
            turn, waiting = self._turns.get(key, (Lock(), 0))
            self._turns[key] = turn, waiting + 1
        try:
            if not turn.acquire(timeout=self._wait_s):
                raise errors.Unavailable("the same request is being decided on; try again")
            try:
                yield
            finally:
                turn.release()
        finally:
            self._leave(key)

    def _leave(self, key: str) -> None:
        with self._guard:
            turn, waiting = self._turns.pop(key)
            if waiting > 1:
                self._turns[key] = turn, waiting - 1
