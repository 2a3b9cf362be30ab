"""The agent's side of a session: prove who it is, stay, and bring the node to its spec (api.md §4, domain.md §8).

What the node holds outlives a connection, so reconciling does not stop when one breaks: its report goes to
whatever session there is then, and every session begins with the spec, so that a lost report is made up for.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from adapters.agent import protocol
from adapters.agent.consoles import Consoles
from adapters.agent.instances import Instances
from adapters.agent.reconcile import Reconciled, Runtime, reconcile
from domain import inventory

_log = logging.getLogger("better_compute.agent")

VERSION: Final = "0.1.0"
HEARTBEAT_SECONDS: Final = 10.0
CONSOLE_SECONDS: Final = 2.0
_REPORT_SECONDS: Final = 0.05
"""What changes of instances meanwhile is told at once, together."""
_ANSWER_SECONDS: Final = 45.0
"""A gateway that starts anew has thousands at its door: to wait is quicker than to ask again."""
_STEADY_SECONDS: Final = 30.0
_MAX_MESSAGE: Final = 16_777_216
_LONGEST_RETRY: Final = 6.0
"""What could not be done is tried again after the first pause, then after longer ones, up to so many times it."""


class Commands(Protocol):
    """What runs the node's commands, whatever session they came in."""

    def begin(self) -> None:
        """A session begins: what has not begun comes again, if it still counts."""

    def take(self, command: protocol.Command) -> None: ...

    async def run(self, tell: protocol.Tell) -> None:
        """Until cancelled."""


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


def endpoint(server: str) -> str:
    """The session's WebSocket address at a server that is named by its http(s) address."""
    parts = urlsplit(server)
    scheme = {"http": "ws", "https": "wss"}[parts.scheme]
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/v1/agent/session", "", ""))


class AgentSession:
    """Keeps one node connected. `run` goes on until `stop`, or until its task is cancelled.

    `audience`, when given, is the only plane to which this node signs a hello. Without `instances` none runs here.
    """

    def __init__(
        self,
        server: str,
        identity: Identity,
        runtime: Runtime,
        found: Callable[[], inventory.NodeInventory],
        *,
        boot_id: str,
        commands: Commands | None = None,
        instances: Instances | None = None,
        audience: str | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        retry_seconds: float = 5.0,
        backoff: Backoff | None = None,
        draw: Callable[[], float] = random.random,
        console_seconds: float = CONSOLE_SECONDS,
    ) -> None:
        self._url = endpoint(server)
        self._identity = identity
        self._runtime = runtime
        self._found = found
        self._boot_id = boot_id
        self._commands = commands
        self._instances = instances or Instances()
        self._instances.told = self._instances_changed
        driver = self._instances.driver
        self._consoles = Consoles(driver, console_seconds) if driver is not None else None
        self._audience = audience
        self._heartbeat_seconds = heartbeat_seconds
        self._retry_seconds = retry_seconds
        self._backoff = backoff or Backoff()
        self._draw = draw
        self._socket: ClientConnection | None = None
        self._spec: protocol.Spec | None = None
        self._news = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._owed = False
        self._reached: tuple[int, Reconciled] | None = None
        self._said: protocol.Status | None = None
        self._saying = asyncio.Lock()
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self.epoch: int | None = None
        """The epoch of the present session; None while there is none."""

    @property
    def spec(self) -> protocol.Spec | None:
        """The newest spec that came; None before the first."""
        return self._spec

    async def run(self) -> None:
        """Raises what a worker raises: an agent that no longer reconciles must not look alive."""
        works = [self._reconcile_for_ever(), self._report_for_ever()]
        works += [one.run(self.tell) for one in (self._commands, self._consoles) if one is not None]
        workers = [asyncio.create_task(work) for work in works]
        stopping = asyncio.create_task(self._stopping.wait())
        ends = (stopping, *workers)
        try:
            failures = 0
            while not any(end.done() for end in ends):
                began = time.monotonic()
                rival = await self._connect(ends)
                steady = time.monotonic() - began > _STEADY_SECONDS
                failures = 0 if steady else failures + 1
                seconds = self._backoff.pause(failures - 1 if failures else 0, self._draw())
                timeout = self._backoff.rival + seconds if rival else seconds
                await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for worker in workers:
                if worker.done():
                    worker.result()
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            await self._instances.close()

    def stop(self) -> None:
        """Leave: the plane hears that this node disconnects."""
        self._stopping.set()

    def abort(self) -> None:
        """Drop the connection without a word, as a machine does that loses its power."""
        self._stopping.set()
        if self._socket is not None:
            self._socket.transport.abort()

    def reconsider(self) -> None:
        """Compare the node with its spec once more, as something may have changed beside it."""
        self._news.set()

    async def tell(self, make: Callable[[int], protocol.FromAgent]) -> None:
        """Say to the plane what `make` gives for this session's epoch; without a session, nothing."""
        socket, epoch = self._socket, self.epoch
        if socket is None or epoch is None:
            return
        try:
            await self._say(socket, make(epoch))
        except (ConnectionClosed, TimeoutError):
            return

    async def tell_inventory(self) -> None:
        """Send what was found; without a session nothing, as each one begins with it."""
        await self.tell(lambda _: self._inventory())

    async def _connect(self, ends: "Iterable[asyncio.Task[Any]]") -> bool:
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
                await asyncio.wait([*ends, *tasks], return_when=asyncio.FIRST_COMPLETED)
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
        for told in (self._commands, self._consoles):
            if told is not None:
                told.begin()
        await self._say(to, self._inventory())

    def _inventory(self) -> protocol.Inventory:
        return protocol.Inventory(msgspec.Raw(inventory.encode(self._found())))

    def _hello(self, challenge: protocol.Challenge) -> protocol.Hello:
        node_id = self._identity.node_id
        return protocol.Hello(
            node_id=node_id,
            boot_id=self._boot_id,
            agent_version=VERSION,
            clock=_clock(),
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
            match message:
                case protocol.Spec():
                    self._spec, self._owed = message, True
                    self._news.set()
                case protocol.Command() if self._commands is not None:
                    self._commands.take(message)

    async def _beat(self, to: ClientConnection) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            await self._say(to, protocol.Heartbeat(_clock()))

    async def _reconcile_for_ever(self) -> None:
        """One spec at a time, each to its end, then the newest: so that news cannot keep a report from going out.

        Every spec that comes is answered, and beside that what has changed.
        """
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            await self._news.wait()
            self._news.clear()
            spec = self._spec
            if spec is None:
                continue
            owed, self._owed = self._owed, False
            reached = await reconcile(spec, self._runtime, self._instances)
            self._reached = spec.generation, reached
            await self._report(owed=owed)
            if self._retry is not None:
                self._retry.cancel()
            failures = 0 if reached.done else failures + 1
            if failures:
                later = self._retry_seconds * min(_LONGEST_RETRY, 2.0 ** (failures - 1))
                self._retry = loop.call_later(later, self._news.set)

    def _instances_changed(self, gone: bool) -> None:
        """What an instance has left can be torn down."""
        self._changed.set()
        if gone:
            self._news.set()

    async def _report_for_ever(self) -> None:
        """What becomes of instances between two specs."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._report(owed=False)
            await asyncio.sleep(_REPORT_SECONDS)

    async def _report(self, *, owed: bool) -> None:
        """One at a time, so that the last that is said is how things are."""
        async with self._saying:
            if self._reached is None:
                return
            generation, reached = self._reached
            status = protocol.fitting(protocol.Status(generation, reached.items, self._instances.statuses()))
            if owed or status != self._said:
                self._said = status
                await self.tell(lambda _: status)


def _clock() -> int:
    """Epoch ms by this machine's clock."""
    return time.time_ns() // 1_000_000


def _proxy(url: str) -> Literal[True] | None:
    """The environment's proxy, but none on this machine."""
    return None if urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1") else True
