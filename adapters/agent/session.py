"""The agent's side of a session: prove who it is, stay, and bring the node to its spec (api.md §4, domain.md §8).

What the node holds outlives a connection, so reconciling does not stop when one breaks: its report goes to
whatever session there is then, and every session begins with the spec, so that a lost report is made up for.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from adapters.agent import protocol
from domain import inventory
from domain.node_spec import Allocation, Status

_log = logging.getLogger("better_compute.agent")

VERSION: Final = "0.1.0"
HEARTBEAT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 45.0
"""A gateway that starts anew has thousands at its door: to wait is quicker than to ask again."""
_STEADY_SECONDS: Final = 30.0
_MAX_MESSAGE: Final = 16_777_216


class Runtime(Protocol):
    """What prepares devices on this node. Both acts may be repeated and then change nothing."""

    def held(self) -> Collection[Allocation]:
        """What is prepared now, also from before this process began."""

    async def prepare(self, allocation: Allocation) -> None:
        """Make the allocation's devices ready for use; returns once they are, raises when they cannot be."""

    async def tear_down(self, allocation_id: str) -> None:
        """Take the devices back; returns once nobody can use them any more."""


class Identity(Struct, frozen=True):
    node_id: str
    key: Ed25519PrivateKey


class Backoff(Struct, frozen=True):
    """Seconds between attempts: doubled each time up to `most`, then anywhere in its upper half.

    `most` is well below the session's TTL, so that a plane that was away finds its agents back within one.
    `rival` is the pause after another session of the same node took over: two agents with one key would else
    chase each other.
    """

    first: float = 0.5
    most: float = 12.0
    rival: float = 20.0

    def pause(self, failures: int, draw: float) -> float:
        """`draw` is random, 0 to 1."""
        full = min(self.most, self.first * 2.0 ** min(failures, 16))
        return full * (0.5 + draw / 2)


async def reconcile(spec: protocol.Spec, runtime: Runtime) -> dict[str, Status]:
    """Bring the runtime to the spec: first take back what is gone, then prepare what is new.

    Returns the status of every item. One that could not be taken back stays in it, for leaving it out would
    say that its devices are free; and nothing is prepared on devices that are not free yet.
    """
    wanted = {allocation.id: allocation for allocation in spec.allocations}
    stuck: dict[str, Allocation] = {}
    for held in sorted(runtime.held(), key=lambda a: a.id):
        if wanted.get(held.id) != held and not await _done(runtime.tear_down(held.id), "tear down", held.id):
            stuck[held.id] = held
    busy = {name for held in stuck.values() for name in held.cdi_devices}
    there = {held.id for held in runtime.held()} - set(stuck)

    async def bring(allocation: Allocation) -> Status:
        if allocation.id in there:
            return "prepared"
        if allocation.id in stuck:
            return "failed"
        if busy.intersection(allocation.cdi_devices):
            return "preparing"
        return "prepared" if await _done(runtime.prepare(allocation), "prepare", allocation.id) else "failed"

    states = await asyncio.gather(*(bring(allocation) for allocation in wanted.values()))
    return {**dict.fromkeys(stuck, "failed"), **dict(zip(wanted, states, strict=True))}


async def _done(act: Awaitable[None], verb: str, allocation_id: str) -> bool:
    try:
        await act
    except Exception:
        _log.exception("a node could not %s an allocation", verb, extra={"fields": {"id": allocation_id}})
        return False
    return True


def endpoint(server: str) -> str:
    """The session's WebSocket address at a server that is named by its http(s) address."""
    parts = urlsplit(server)
    scheme = {"http": "ws", "https": "wss"}[parts.scheme]
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/v1/agent/session", "", ""))


class AgentSession:
    """Keeps one node connected. `run` goes on until `stop`, or until its task is cancelled.

    `audience`, when given, is the only plane to which this node signs a hello.
    """

    def __init__(
        self,
        server: str,
        identity: Identity,
        runtime: Runtime,
        found: Callable[[], inventory.NodeInventory],
        *,
        boot_id: str,
        audience: str | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        retry_seconds: float = 5.0,
        backoff: Backoff | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._url = endpoint(server)
        self._identity = identity
        self._runtime = runtime
        self._found = found
        self._boot_id = boot_id
        self._audience = audience
        self._heartbeat_seconds = heartbeat_seconds
        self._retry_seconds = retry_seconds
        self._backoff = backoff or Backoff()
        self._draw = draw
        self._socket: ClientConnection | None = None
        self._spec: protocol.Spec | None = None
        self._news = asyncio.Event()
        self._stopping = asyncio.Event()
        self.epoch: int | None = None
        """The epoch of the present session; None while there is none."""

    async def run(self) -> None:
        reconciler = asyncio.create_task(self._reconcile_for_ever())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            failures = 0
            while not self._stopping.is_set():
                began = time.monotonic()
                rival = await self._connect(stopping)
                steady = time.monotonic() - began > _STEADY_SECONDS
                failures = 0 if steady else failures + 1
                seconds = self._backoff.pause(failures - 1 if failures else 0, self._draw())
                await asyncio.wait([stopping], timeout=self._backoff.rival + seconds if rival else seconds)
        finally:
            reconciler.cancel()
            stopping.cancel()
            await asyncio.gather(reconciler, stopping, return_exceptions=True)

    def stop(self) -> None:
        """Leave: the plane hears that this node disconnects."""
        self._stopping.set()

    def abort(self) -> None:
        """Drop the connection without a word, as a machine does that loses its power."""
        self._stopping.set()
        if self._socket is not None:
            self._socket.transport.abort()

    async def _connect(self, stopping: "asyncio.Task[bool]") -> bool:
        """One connection from beginning to end; says whether a rival session ended it."""
        tasks: list[asyncio.Task[None]] = []
        try:
            async with connect(
                self._url,
                max_size=_MAX_MESSAGE,
                open_timeout=_ANSWER_SECONDS,
                close_timeout=2,
                proxy=_proxy(self._url),
            ) as to:
                self._socket = to
                await self._greet(to)
                tasks = [asyncio.create_task(self._listen(to)), asyncio.create_task(self._beat(to))]
                await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        except (WebSocketException, OSError, TimeoutError, protocol.Broken) as failure:
            _log.info("no session", extra={"fields": {"node": self._identity.node_id, "why": str(failure)}})
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            closed, self._socket, self.epoch = self._socket, None, None
        return closed is not None and closed.close_code == protocol.SUPERSEDED

    async def _greet(self, to: ClientConnection) -> None:
        async with asyncio.timeout(_ANSWER_SECONDS):
            challenge = protocol.from_plane(await to.recv(decode=True))
            if not isinstance(challenge, protocol.Challenge):
                raise protocol.Broken(protocol.MALFORMED, "the plane begins with a challenge")
            if self._audience not in (None, challenge.audience):
                raise protocol.Broken(protocol.UNAUTHENTICATED, f"this is {challenge.audience!r}, no plane of ours")
            await self._say(to, self._hello(challenge))
            welcome = protocol.from_plane(await to.recv(decode=True))
        if not isinstance(welcome, protocol.Welcome):
            raise protocol.Broken(protocol.MALFORMED, "no welcome after hello")
        self.epoch = welcome.epoch
        await self._say(to, protocol.Inventory(msgspec.Raw(inventory.encode(self._found()))))

    def _hello(self, challenge: protocol.Challenge) -> protocol.Hello:
        node_id = self._identity.node_id
        return protocol.Hello(
            node_id=node_id,
            boot_id=self._boot_id,
            agent_version=VERSION,
            clock=time.time_ns() // 1_000_000,
            signature=protocol.sign(self._identity.key, challenge, node_id),
        )

    async def _say(self, to: ClientConnection, message: protocol.FromAgent) -> None:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await to.send(protocol.encode(message))

    async def _listen(self, to: ClientConnection) -> None:
        """Ends when the connection does; what a newer plane says beyond bcd/v1 is passed over."""
        async for text in to:
            try:
                message = protocol.from_plane(text if isinstance(text, str) else "")
            except protocol.Broken as broken:
                _log.warning("not understood", extra={"fields": {"why": broken.reason}})
                continue
            if isinstance(message, protocol.Spec):
                self._spec = message
                self._news.set()

    async def _beat(self, to: ClientConnection) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            await self._say(to, protocol.Heartbeat())

    async def _reconcile_for_ever(self) -> None:
        """One spec at a time, each to its end, then the newest: so that news cannot keep a report from going out."""
        loop = asyncio.get_running_loop()
        while True:
            await self._news.wait()
            self._news.clear()
            spec = self._spec
            if spec is None:
                continue
            items = await reconcile(spec, self._runtime)
            await self._report(protocol.Status(spec.generation, items))
            if any(item != "prepared" for item in items.values()):
                loop.call_later(self._retry_seconds, self._news.set)

    async def _report(self, status: protocol.Status) -> None:
        socket = self._socket
        if socket is None:
            return
        try:
            await self._say(socket, status)
        except (ConnectionClosed, TimeoutError):
            return


def _proxy(url: str) -> Literal[True] | None:
    """The environment's proxy, but none on this machine."""
    return None if urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1") else True
