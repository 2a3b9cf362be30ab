"""Random bytes of the operating system, drawn in blocks: a thread lets go of the interpreter for each draw."""

import os
from threading import Lock
from typing import Final

_BLOCK: Final = 4096


class Entropy:
    """Gives out every byte once. Not for secrets: what is to come lies in memory. A fork would give the same again."""

    def __init__(self) -> None:
        self._block = b""
        self._guard = Lock()

    def __call__(self, count: int) -> bytes:
        """So many bytes, at most a block."""
        with self._guard:
            if len(self._block) < count:
                self._block = os.urandom(_BLOCK)
            drawn, self._block = self._block[-count:], self._block[:-count]
        return drawn
