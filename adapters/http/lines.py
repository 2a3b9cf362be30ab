"""JSON Lines, sent as they are made: memory holds one piece, whatever the whole comes to.

What fails before the first byte is a problem as anywhere; later the connection is cut before the answer is complete,
which every HTTP client notices, and the last line would lack.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Final

from litestar.types import Receive, Scope, Send

from domain import errors
from domain.operation import Answer

from .slots import Slots
from .sse import gone
from .threads import Workers

_log = logging.getLogger("better_compute.http")

MEDIA_TYPE: Final = b"application/jsonl"
SLOTS: Final = Slots("exports", most=8, of_one=3)
SECONDS: Final = 3600.0
STALL_SECONDS: Final = 60.0


class Lines:
    """One answer in pieces of whole lines, to a tenant that has a slot for it; else it is told to come back."""

    def __init__(self, answer: Answer, workers: Workers, tenant_id: str) -> None:
        SLOTS.check(tenant_id)
        self._tenant_id = tenant_id
        self._pieces: Iterator[bytes] = answer.body
        self._workers = workers
        self._headers = [(b"content-type", MEDIA_TYPE), (b"x-accel-buffering", b"no")]
        if answer.position is not None:
            self._headers.append((b"x-position", b"%d" % answer.position))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.ensure_future(gone(receive))
        try:
            with SLOTS.taken(self._tenant_id):
                await send({"type": "http.response.start", "status": 200, "headers": self._headers})
                if await self._pour(send, left):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            left.cancel()

    async def _pour(self, send: Send, left: "asyncio.Future[None]") -> bool:
        """Whether all of it was sent: not to a client that left, that stalls or that takes all day."""
        until = time.monotonic() + SECONDS
        while not left.done():
            try:
                piece = await self._workers.run(lambda: next(self._pieces, b""))
            except errors.Refusal as refusal:
                _log.warning("an export was cut off: %s", refusal)
                return False
            if not piece:
                return True
            message = send({"type": "http.response.body", "body": piece, "more_body": True})
            try:
                await asyncio.wait_for(message, min(STALL_SECONDS, until - time.monotonic()))
            except TimeoutError:
                _log.warning("an export was cut off: its client does not take it")
                return False
        return False
