"""A file as an answer, whole or one range of it (RFC 9110 §14), sent as it is read."""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from litestar.types import Receive, Scope, Send

from .slots import Slots
from .sse import gone

_log = logging.getLogger("better_compute.http")
T = TypeVar("T")

PIECE: Final = 1 << 18
STALL_SECONDS: Final = 60.0
_RANGE: Final = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.IGNORECASE)


class Ranged:
    """The open file `handle`, which is closed in the end. `etag` names its bytes: whoever has a part goes on by it."""

    def __init__(
        self,
        handle: int,
        etag: str,
        headers: dict[bytes, str],
        blocking: "Callable[[Callable[[], bytes]], Awaitable[bytes]]",
        slots: Slots,
        tenant_id: str,
    ) -> None:
        self._handle = handle
        self._etag = f'"{etag}"'
        self._blocking = blocking
        self._slots = slots
        self._tenant_id = tenant_id
        self._size = os.fstat(handle).st_size
        self._wanted = wanted(headers, self._etag, self._size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.ensure_future(gone(receive))
        try:
            with self._slots.taken(self._tenant_id):
                await send({"type": "http.response.start", "status": self._status, "headers": self._headers()})
                await self._pour(send, left)
        finally:
            left.cancel()
            os.close(self._handle)

    @property
    def _status(self) -> int:
        if self._wanted is None:
            return 200
        return 206 if self._wanted else 416

    def _headers(self) -> list[tuple[bytes, bytes]]:
        found = [
            (b"content-type", b"application/octet-stream"),
            (b"accept-ranges", b"bytes"),
            (b"etag", self._etag.encode()),
            (b"content-length", b"%d" % len(self._span())),
        ]
        if self._wanted is not None:
            span = f"{self._wanted.start}-{self._wanted.stop - 1}" if self._wanted else "*"
            found.append((b"content-range", f"bytes {span}/{self._size}".encode()))
        return found

    def _span(self) -> range:
        return range(self._size) if self._wanted is None else self._wanted

    async def _pour(self, send: Send, left: "asyncio.Future[None]") -> None:
        """Where the file turns out shorter, or the client stalls, the answer is cut off: nobody takes it for whole."""
        span = self._span()
        for at in range(span.start, span.stop, PIECE):
            piece = await self._blocking(partial(os.pread, self._handle, min(PIECE, span.stop - at), at))
            if left.done() or not piece:
                return
            message = send({"type": "http.response.body", "body": piece, "more_body": True})
            try:
                await asyncio.wait_for(message, STALL_SECONDS)
            except TimeoutError:
                _log.warning("a download was cut off: its client does not take it")
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def wanted(headers: dict[bytes, str], etag: str, size: int) -> range | None:
    """The range that is asked for: None is everything, an empty one cannot be. Several ranges are everything too."""
    match = _RANGE.fullmatch(headers.get(b"range", "").strip())
    if match is None or headers.get(b"if-range", etag).strip() != etag:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        return range(max(0, size - int(suffix)), size)
    if last and int(last) < int(first):
        return None
    end = min(int(last) + 1, size) if last else size
    return range(int(first), end) if int(first) < size else range(0)
