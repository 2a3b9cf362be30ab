"""Server-sent events: an operation's feed as a stream that ends by itself and is resumed by its last id.

It ends as well when the caller's credential does, or when nobody can tell what the caller may see.

A stream lasts a minute, so that none keeps a stopping server waiting for ever; browsers and `Last-Event-ID` go on
where it ended (ecosystem.md §1.3, 8).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from litestar.types import Receive, Scope, Send

from domain import errors

from .slots import Slots
from .threads import Workers

_log = logging.getLogger("better_compute.http")

SLOTS: Final = Slots("event streams", most=64, of_one=16)
SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.1
PING_SECONDS: Final = 15.0
STALL_SECONDS: Final = 60.0
"""For the client to take what there is."""

PING: Final = b": still here\n\n"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
]


def encode(entries: Iterable[Any]) -> bytes:
    """The id is the log position: what a client sends back as `Last-Event-ID`."""
    return b"".join(
        b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.position, entry.type.encode(), msgspec.json.encode(entry))
        for entry in entries
    )


class Streaming:
    """One listener's stream, to a tenant that has a slot for it; else it is told to come back."""

    def __init__(
        self,
        feed: Any,
        workers: Workers,
        tenant_id: str,
        spell: Callable[[Iterable[Any]], bytes] = encode,
        ping: bytes = PING,
        slots: Slots = SLOTS,
    ) -> None:
        slots.check(tenant_id)
        self._slots = slots
        self._spell, self._ping = spell, ping
        self._tenant_id = tenant_id
        self._feed = feed
        self._workers = workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.ensure_future(gone(receive))
        try:
            with self._slots.taken(self._tenant_id):
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                if await self._pour(send, left):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            left.cancel()

    async def _pour(self, send: Send, left: "asyncio.Future[None]") -> bool:
        """Until the client has gone or the time is up; what is there already is sent at least once.

        Whether it can be told of the end: not a client that takes nothing, whose slot others wait for.
        """
        try:
            await self._told(send, left)
        except TimeoutError:
            _log.warning("an event stream was cut off: its client does not take it")
            return False
        return not left.done()

    async def _told(self, send: Send, left: "asyncio.Future[None]") -> None:
        began = spoke = now = time.monotonic()
        await _say(send, b": the log from here on\n\n")
        while not left.done():
            if self._feed.behind():
                try:
                    chunk = self._spell(await self._workers.run(self._feed.read))
                except errors.Refusal as refusal:
                    _log.warning("an event stream ends early: %s", refusal)
                    return
                if chunk:
                    await _say(send, chunk)
                    spoke = now
            elif now - spoke > PING_SECONDS:
                await _say(send, self._ping)
                spoke = now
            else:
                await asyncio.wait({left}, timeout=min(LOOK_SECONDS, SECONDS))
            if (now := time.monotonic()) - began >= SECONDS:
                return


async def _say(send: Send, chunk: bytes) -> None:
    message = send({"type": "http.response.body", "body": chunk, "more_body": True})
    await asyncio.wait_for(message, STALL_SECONDS)


async def gone(receive: Receive) -> None:
    """Until the client has left, or all was sent."""
    while (await receive())["type"] != "http.disconnect":
        pass
