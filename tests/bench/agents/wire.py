"""An agent that costs little: bcd/v1 over a WebSocket written out by hand, on one asyncio protocol object.

It says what AgentSession says, in the same order, with the same times to wait: hello, inventory, heartbeats, a status
for every NodeSpec, the pings of its WebSocket library. What it leaves out is the runtime behind them. Frames are masked
with zeros, which RFC 6455 allows and which leaves a frame as it was made.
"""

import asyncio
import base64
import random
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from adapters.agent import protocol
from adapters.agent.session import HEARTBEAT_SECONDS, VERSION, Backoff
from tests.bench.agents import nodes
from tests.bench.agents.tally import Tally

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
ANSWER_SECONDS: Final = 45.0
STEADY_SECONDS: Final = 30.0
SAMPLED: Final = 20
"""Of so many agents one measures its heartbeats."""
_KEPT, _FIRST, _SECOND, _FLOOD = b"0", b"1", b"2", b"3"


def frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0xFF)) + size.to_bytes(8, "big")
    return head + bytes(4) + payload


def text(message: protocol.FromAgent) -> bytes:
    return frame(TEXT, protocol.encode(message).encode())


def beat() -> bytes:
    return text(protocol.Heartbeat(time.time_ns() // 1_000_000))


class Agent(asyncio.Protocol):
    """One node's agent; `start` keeps it connected until `stop`. A `bare` one goes to a server without bcd/v1."""

    def __init__(self, where: tuple[str, int], number: int, node_id: str, tally: Tally, bare: bool = False) -> None:
        self.number = number
        self.told: tuple[int, float] = (0, 0.0)
        """The generation of the newest NodeSpec, and when it came on the machine's monotonic clock."""
        self.welcomed = False
        self.flooding = False
        self._where = where
        self._node_id = node_id
        self._tally = tally
        self._bare = bare
        self._backoff = Backoff()
        self._failures = 0
        self._boot_id = secrets.token_hex(16)
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._buffer = bytearray()
        self._upgraded = self._stopped = self._even = False
        self._timer: asyncio.TimerHandle | None = None
        self._began = self._beaten = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        self._began = time.monotonic()
        try:
            await asyncio.wait_for(self._loop.create_connection(lambda: self, *self._where), ANSWER_SECONDS)
        except (OSError, TimeoutError):
            self._tally.closes["no connection"] += 1
            self._again()

    def stop(self) -> None:
        """Drop the connection without a word."""
        self._stopped = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._buffer.clear()
        self._upgraded = False
        self._wait(ANSWER_SECONDS, self._give_up)
        host, port = self._where
        nonce = base64.b64encode(secrets.token_bytes(16)).decode()
        self._transport.write(
            f"GET /v1/agent/session HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {nonce}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then)

    def _give_up(self) -> None:
        self._tally.closes["no answer"] += 1
        self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        if self.welcomed:
            self._tally.connected -= 1
            self._tally.lost += 1
            self.welcomed = False
        self._again()

    def _again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._stopped:
            return
        steady = time.monotonic() - self._began > STEADY_SECONDS
        self._failures = 0 if steady else self._failures + 1
        self._wait(self._backoff.pause(max(0, self._failures - 1), random.random()), self.start)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded and not self._take_upgrade():
            return
        while (taken := self._frame()) is not None:
            self._take(*taken)

    def _take_upgrade(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        status = bytes(self._buffer[9:12]).decode()
        del self._buffer[: end + 4]
        if status != "101":
            self._tally.closes[f"HTTP {status}"] += 1
            self._transport.abort()
            return False
        self._upgraded = True
        if self._bare:
            self._welcome()
        return True

    def _frame(self) -> tuple[int, bytes] | None:
        """The next whole frame, taken out. A server masks none, and ours splits none."""
        held = self._buffer
        if len(held) < 2:
            return None
        size, at = held[1], 2
        if size >= 126:
            at = 4 if size == 126 else 10
            if len(held) < at:
                return None
            size = int.from_bytes(held[2:at], "big")
        if len(held) < at + size:
            return None
        opcode, payload = held[0] & 15, bytes(held[at : at + size])
        del held[: at + size]
        return opcode, payload

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == PONG:
            self._pong(payload)
        elif opcode == PING:
            self._transport.write(frame(PONG, payload))
        elif opcode == TEXT:
            self._hear(protocol.from_plane(payload.decode()))
        elif opcode == CLOSE:
            self._tally.closes[str(int.from_bytes(payload[:2], "big"))] += 1
            self._transport.write(frame(CLOSE, payload[:2]))
            self._transport.close()

    def _hear(self, message: protocol.FromPlane) -> None:
        match message:
            case protocol.Challenge():
                self._transport.write(text(self._hello(message)))
            case protocol.Welcome():
                self._welcome()
                document = msgspec.json.encode(nodes.found(self.number))
                self._transport.write(text(protocol.Inventory(msgspec.Raw(document))))
            case protocol.Spec():
                self.told = (message.generation, time.monotonic())
                items = {allocation.id: "prepared" for allocation in message.allocations}
                self._transport.write(text(protocol.Status(message.generation, items)))  # type: ignore[arg-type]

    def _hello(self, challenge: protocol.Challenge) -> protocol.Hello:
        signature = protocol.sign(nodes.key(self.number), challenge, self._node_id)
        return protocol.Hello(self._node_id, self._boot_id, VERSION, time.time_ns() // 1_000_000, signature)

    def _welcome(self) -> None:
        self.welcomed = True
        self._tally.connected += 1
        self._tally.last = time.monotonic()
        self._wait(random.random() * HEARTBEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        self._wait(HEARTBEAT_SECONDS, self._beat)
        if self.flooding:
            return
        self._tally.beats += 1
        self._even = not self._even
        if self.number % SAMPLED:
            self._transport.write(beat() + (frame(PING, _KEPT) if self._even else b""))
            return
        self._beaten = time.monotonic()
        self._transport.write(beat() + frame(PING, _FIRST))

    def flood(self) -> None:
        """Heartbeats one after the other, each as soon as the server shows that it has read on."""
        if self.welcomed:
            self.flooding = True
            self._beaten = time.monotonic()
            self._transport.write(beat() + frame(PING, _FLOOD))

    def _pong(self, payload: bytes) -> None:
        """The server reads on only after a message was taken: the second pong says that the heartbeat was."""
        if payload == _FIRST:
            self._transport.write(frame(PING, _SECOND))
        elif payload == _SECOND:
            self._tally.micros.append(round((time.monotonic() - self._beaten) * 1e6))
        elif payload == _FLOOD and self.flooding:
            self._tally.flooded += 1
            self.flood()
