"""A plane by hand: it welcomes whoever comes, and then says and hears what a test wants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from adapters.agent import protocol
from domain.node_command import TYPES
from domain.node_spec import Sharing


class Plane:
    """`heard` is what agents said, in order; each connection is a session with the next epoch."""

    def __init__(self) -> None:
        self.heard: list[protocol.FromAgent] = []
        self.sockets: list[ServerConnection] = []
        self.spec = protocol.Spec(0, ())
        self.address = ""

    @property
    def epoch(self) -> int:
        return len(self.sockets)

    async def say(self, message: protocol.FromPlane) -> None:
        await self.sockets[-1].send(protocol.encode(message))

    async def shape(self, sharing: Sharing) -> None:
        self.spec = protocol.Spec(self.spec.generation + 1, (), sharing)
        await self.say(self.spec)

    async def command(self, seq: int, name: Any, remaining: int = 60, **params: Any) -> None:
        of = TYPES[name]
        await self.say(protocol.Command(f"cmd_{seq}", seq, name, params, of.flags, of.timeout_seconds, remaining))

    def of(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.heard if isinstance(message, kind)]

    def result(self, seq: int) -> protocol.Result | None:
        """The newest result of a command."""
        return next((r for r in reversed(self.of(protocol.Result)) if r.command_id == f"cmd_{seq}"), None)

    async def _session(self, socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            await socket.send(protocol.encode(protocol.Challenge("nonce", "plane-a")))
            self.heard.append(protocol.from_agent(str(await socket.recv())))
            self.sockets.append(socket)
            await socket.send(protocol.encode(protocol.Welcome("s", self.epoch)))
            await socket.send(protocol.encode(self.spec))
            async for text in socket:
                self.heard.append(protocol.from_agent(str(text)))


@contextlib.asynccontextmanager
async def plane() -> AsyncIterator[Plane]:
    made = Plane()
    async with serve(made._session, "127.0.0.1", 0, max_size=None) as server:
        made.address = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        yield made


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    async with asyncio.timeout(seconds):
        while not (seen := condition()):
            await asyncio.sleep(0.01)
    return seen
