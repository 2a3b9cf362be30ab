"""The limit: a WebSocket server of the websockets library that takes messages and does nothing with them."""

import asyncio
import contextlib
import sys

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosedError


async def take(connection: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosedError):  # its agents leave without a word
        async for _ in connection:
            pass


async def main() -> None:
    async with serve(take, "127.0.0.1", 0, compression=None, ping_interval=None, backlog=2048) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
