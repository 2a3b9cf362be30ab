"""New ids: ULIDs in lower-case Crockford base32, monotonic within the process (domain.md §1)."""

import time
from collections.abc import Callable
from threading import Lock

from ulid import base32

from adapters.entropy import Entropy

_RANDOM_BITS = 80


class Mint:
    """Never goes backwards, whatever the wall clock does (O34)."""

    def __init__(
        self,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        entropy: Callable[[int], bytes] | None = None,
    ) -> None:
        self._clock_ms = clock_ms
        self._entropy = entropy or Entropy()
        self._last = 0
        self._guard = Lock()

    def __call__(self, prefix: str) -> str:
        fresh = (self._clock_ms() << _RANDOM_BITS) | int.from_bytes(self._entropy(10), "big")
        with self._guard:
            same_instant = fresh >> _RANDOM_BITS <= self._last >> _RANDOM_BITS
            self._last = self._last + 1 if same_instant else fresh
            value = self._last
        return f"{prefix}_{base32.encode(value.to_bytes(16, 'big')).lower()}"
