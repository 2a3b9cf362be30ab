"""A plane for agents' tests: the real gateway behind uvicorn on loopback, on a store in memory, in one event loop."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from litestar import Litestar
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from adapters.agent import protocol
from adapters.agent.gateway import Gateway
from commands.instance_consoles import Console
from commands.ports import Loaded, Race
from domain import errors, node, node_spec, registry
from domain.event import Append, Meta, Recorded

NODE = "node_" + "0" * 26
KEY = Ed25519PrivateKey.generate()


class FakeStore:
    """Streams in memory; `down` makes every call fail as in an outage, `failed` counts those."""

    def __init__(self, **keys: Ed25519PrivateKey) -> None:
        self.streams: dict[str, list[Any]] = {}
        self.down = False
        self.failed = 0
        self.time = 1_000
        for node_id, key in (keys or {NODE: KEY}).items():
            self.streams[node_id] = [joined(key)]

    def now(self) -> int:
        return self.time

    def load(self, stream: str, until: int | None = None) -> Loaded:
        self._check()
        events = self.streams.get(stream, [])
        return Loaded(registry.fold(stream, events), len(events), len(events))

    def history(self, stream: str) -> list[Recorded]:
        events = self.streams.get(stream, [])
        return [Recorded(stream, n, event, Meta("test"), "evt") for n, event in enumerate(events, 1)]

    def load_all(self, streams: Sequence[str]) -> list[Loaded]:
        return [self.load(stream) for stream in streams]

    def append(self, append: Append) -> int:
        self._check()
        for change in append.changes:
            if len(self.streams.get(change.stream, [])) != change.expected:
                raise Race
        if any(len(self.streams.get(one.stream, [])) != one.version for one in append.seen):
            raise Race
        for change in append.changes:
            self.streams.setdefault(change.stream, []).extend(change.events)
        return 1

    def holders(self, identifiers: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return {}

    def booked_devices(self, node_id: str) -> list[str]:
        return []

    def booked(self, node_id: str) -> list[str]:
        return []

    def crowded(self, identifiers: Sequence[str]) -> set[str]:
        return set()

    def booked_all(self, nodes: Sequence[str]) -> dict[str, list[str]]:
        return {}

    def saw_inventory(self, *nodes: str) -> None:
        self._check()

    def blockers(self, reservation_id: str) -> list[str]:
        return []

    def blocked(self, reservations: Sequence[str]) -> set[str]:
        return set()

    def add(self, event: Any, node_id: str = NODE) -> None:
        self.streams.setdefault(node_id, []).append(event)

    def state(self, node_id: str = NODE) -> node.State:
        state: node.State = registry.fold(node_id, self.streams[node_id])
        return state

    def connectivity(self, node_id: str = NODE) -> list[str]:
        """Every connectivity that was recorded, in order."""
        return [e.connectivity for e in self.streams[node_id] if isinstance(e, node.ConnectivityChanged)]

    def _check(self) -> None:
        if self.down:
            self.failed += 1
            raise errors.Unavailable("the database cannot be reached")


def joined(key: Ed25519PrivateKey) -> node.Joined:
    public = protocol.public_key(key)
    return node.Joined("n1", "site_1", "root", "eu", "host", "platform", public, "jt_1", {}, 1)


def spec_changed(generation: int, *ids: str) -> node.SpecChanged:
    return node.SpecChanged(generation, tuple(allocation(one) for one in ids))


def allocation(id: str, *devices: str) -> node_spec.Allocation:
    return node_spec.Allocation(id, "rsv_" + id, devices or (f"nvidia.com/gpu={id}",))


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


async def inline(work: Callable[[], Any], /) -> Any:
    return work()


class Kept:
    """Consoles in memory, by instance id."""

    def __init__(self) -> None:
        self.of: dict[str, Console] = {}

    def keep(self, consoles: Sequence[Console]) -> None:
        self.of |= {one.instance_id: one for one in consoles}

    def drop(self, instance_ids: Sequence[str]) -> None:
        for id in instance_ids:
            self.of.pop(id, None)


def gateway(store: FakeStore, **given: Any) -> Gateway:
    return Gateway(store, "plane-a", **({"token": token, "consoles": Kept()} | given))  # type: ignore[arg-type]


def token(allocation_id: str, instance_id: str) -> str:
    return f"{instance_id}@{allocation_id}"


class Plane:
    def __init__(self, store: FakeStore, app: Callable[["Plane"], Litestar] | None = None, **more: Any) -> None:
        self.store = store
        self.clock = Clock()
        self.consoles = Kept()
        given = {"run_blocking": inline, "clock": self.clock, "consoles": self.consoles}
        self.gateway = gateway(store, **(given | more))
        served = (app or _application)(self)
        config = uvicorn.Config(
            served, host="127.0.0.1", port=0, log_level="error", ws_max_size=protocol.MAX_INVENTORY + 1, lifespan="on"
        )
        self.server = uvicorn.Server(config)
        self.address = ""

    def pass_time(self, seconds: float) -> None:
        """In steps that the gateway would take, each followed by a look at the leases."""
        for _ in range(int(seconds)):
            self.clock.seconds += 1
            self.gateway.sweep()


def _application(made: Plane) -> Litestar:
    return Litestar([made.gateway.route], openapi_config=None, lifespan=[made.gateway.running])


@contextlib.asynccontextmanager
async def plane(store: FakeStore | None = None, **more: Any) -> AsyncIterator[Plane]:
    made = Plane(store or FakeStore(), **more)
    serving = asyncio.create_task(made.server.serve())
    await until(lambda: made.server.started or serving.done())
    port = made.server.servers[0].sockets[0].getsockname()[1]
    made.address = f"http://127.0.0.1:{port}"
    try:
        yield made
    finally:
        made.server.should_exit = True
        await serving


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


class Peer:
    """An agent by hand."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.spec = protocol.Spec(0, ())
        """The first that came in this session."""

    async def hear(self) -> protocol.FromPlane:
        async with asyncio.timeout(10):
            return protocol.from_plane(await self.socket.recv(decode=True))

    async def say(self, message: protocol.FromAgent) -> None:
        await self.socket.send(protocol.encode(message))

    async def closed(self) -> tuple[int | None, str | None]:
        """Code and reason of the close, past whatever was said before it."""
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionClosed):
                while True:
                    await self.socket.recv()
        return self.socket.close_code, self.socket.close_reason


def hello(challenge: protocol.Challenge, key: Ed25519PrivateKey = KEY, node_id: str = NODE) -> protocol.Hello:
    return protocol.Hello(node_id, "boot-1", "0.1", 5, protocol.sign(key, challenge, node_id))


@contextlib.asynccontextmanager
async def dialled(plane: Plane) -> AsyncIterator[Peer]:
    url = plane.address.replace("http", "ws") + "/v1/agent/session"
    async with connect(url, proxy=None, max_size=None, close_timeout=1) as socket:
        yield Peer(socket)


@contextlib.asynccontextmanager
async def opened(plane: Plane, **how: Any) -> AsyncIterator[Peer]:
    """A peer that is welcome and has its first spec."""
    async with dialled(plane) as peer:
        challenge = await peer.hear()
        assert isinstance(challenge, protocol.Challenge)
        await peer.say(hello(challenge, **how))
        assert isinstance(await peer.hear(), protocol.Welcome)
        spec = await peer.hear()
        assert isinstance(spec, protocol.Spec)
        peer.spec = spec
        yield peer


def scenario(story: Callable[..., Any]) -> Callable[..., None]:
    """Run an async test in a loop of its own."""

    @functools.wraps(story)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(story(*args, **kwargs), 30))

    return run
