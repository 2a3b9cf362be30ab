"""A body of bytes, passed on as it comes: memory holds two pieces of it, however long it is.

The next piece is read while the one before is written. Uvicorn reads no further than it is asked for, and asks the
client to begin (`Expect: 100-continue`) when the first byte is wanted: a refusal before that costs nobody anything.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, Protocol

from litestar.types import Receive

from domain import errors
from domain.operation import Answer, Call, Operation

from .problems import UnsupportedMediaType
from .slots import Slots
from .threads import Workers

PIECE: Final = 1 << 20
STALL_SECONDS: Final = 60.0
"""In which a piece must come: slower than 17 KiB/s is no upload."""

AT_ONCE: Final = 16
SLOTS: Final = Slots("uploads", most=AT_ONCE, of_one=4)
_TYPES: Final = ("", "application/octet-stream")


class Sink(Protocol):
    """Where the bytes go. Each method may block; `size` is how many must come."""

    size: int

    def write(self, piece: bytes) -> None: ...

    def done(self) -> Answer: ...

    def drop(self) -> None: ...


Begin = Callable[[Operation, Any, Call], Sink]
"""Decides whether the bytes may come at all."""


def nowhere(operation: Operation, asked: Any, call: Call) -> Sink:
    raise errors.Unavailable("no bytes are taken here")


async def take(
    begin: Callable[[], Sink], workers: Workers, receive: Receive, headers: dict[bytes, str], tenant_id: str
) -> Answer:
    """The answer to a request whose body is bytes."""
    _check(headers)
    SLOTS.check(tenant_id)
    with SLOTS.taken(tenant_id):
        sink = await workers.run(begin)
        try:
            claimed = headers.get(b"content-length")
            if claimed is not None and claimed.strip() != str(sink.size):
                raise errors.Invalid("body", f"Content-Length is {claimed[:20]}, {sink.size} bytes were registered")
            await _pour(sink, workers, receive)
            return await workers.run(sink.done)
        finally:
            await workers.run(sink.drop)


def _check(headers: dict[bytes, str]) -> None:
    media = headers.get(b"content-type", "").partition(";")[0].strip().lower()
    if media not in _TYPES:
        raise UnsupportedMediaType("send the bytes as `Content-Type: application/octet-stream`")
    if headers.get(b"content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType("send the bytes as they are, without Content-Encoding")
    if b"content-range" in headers:
        raise errors.Malformed("Content-Range is not possible here: send all of the bytes")


async def _pour(sink: Sink, workers: Workers, receive: Receive) -> None:
    writing: asyncio.Future[None] | None = None
    try:
        async for piece in _pieces(receive):
            if writing is not None:
                await writing
            writing = asyncio.ensure_future(workers.run(partial(sink.write, piece)))
        if writing is not None:
            await writing
    finally:
        if writing is not None and not writing.done():
            with contextlib.suppress(Exception):
                await writing


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    """All that comes, in whatever crumbs, in pieces of PIECE bytes or a little more; the last may be short."""
    more = True
    while more:
        held = bytearray()
        try:
            async with asyncio.timeout(STALL_SECONDS):
                while more and len(held) < PIECE:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise errors.Malformed("the connection closed before the body ended")
                    held += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise errors.Malformed(f"less than {PIECE} bytes came in {STALL_SECONDS:g} s") from None
        if held:
            yield bytes(held)
