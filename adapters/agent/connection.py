"""One WebSocket of an agent: what goes over it, and how it ends (api.md §4)."""

from typing import Any, Final, NamedTuple

import anyio
from litestar import WebSocket
from litestar.exceptions import WebSocketException

from adapters.agent import protocol

SEND_SECONDS: Final = 10.0
BROKE: Final = frozenset({1005, 1006, 1011, 1012})
"""What a server reports when no close frame came, no pong came, or it is itself about to stop."""


class Close(NamedTuple):
    """How a session ends: what is said before the close frame, and whether anybody is there to hear it."""

    code: int
    reason: str
    last: protocol.Superseded | None = None
    gone: bool = False

    @property
    def abrupt(self) -> bool:
        """The connection broke, or this process goes: the lease runs on, the agent may be back in time."""
        return self.gone and self.code in BROKE


def superseded(reason: str) -> Close:
    return Close(protocol.SUPERSEDED, "superseded", protocol.Superseded(reason))


class Gone(Exception):
    """The connection is no more; `code` is the WebSocket close code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


Socket = WebSocket[Any, Any, Any]


async def send(socket: Socket, message: protocol.FromPlane) -> None:
    """Raises Gone when the peer left, or did not take it within SEND_SECONDS."""
    try:
        with anyio.fail_after(SEND_SECONDS):
            await socket.send_data(protocol.encode(message))
    except (WebSocketException, OSError, RuntimeError, TimeoutError):
        raise Gone(1006) from None


async def receive(socket: Socket, limit: int = protocol.MAX_INVENTORY) -> protocol.FromAgent:
    """The next message. Raises Gone, or protocol.Broken."""
    try:
        frame = await socket.receive()
    except (WebSocketException, OSError, RuntimeError):
        raise Gone(1006) from None
    if frame["type"] != "websocket.receive":
        raise Gone(int(frame.get("code") or 1006))  # type: ignore[call-overload]
    text = frame.get("text")
    if not isinstance(text, str):
        raise protocol.Broken(protocol.MALFORMED, "messages are text frames")
    return protocol.from_agent(text, limit)


async def close(socket: Socket, end: Close) -> None:
    """Say goodbye to who can hear it; never raises. A close reason is at most 123 bytes (RFC 6455 §5.5)."""
    if end.gone:
        return
    reason = "".join(c if c.isprintable() else " " for c in end.reason)
    short = reason.encode(errors="replace")[:120].decode(errors="ignore")
    try:
        if end.last is not None:
            await send(socket, end.last)
        with anyio.fail_after(SEND_SECONDS):
            await socket.close(end.code, short)
    except (Gone, WebSocketException, OSError, RuntimeError, TimeoutError):
        return
