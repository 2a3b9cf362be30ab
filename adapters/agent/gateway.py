"""The gateway: agents' sessions, and what the log is told of them (api.md §4, domain.md §3, architecture.md §5).

A session is opened by the node's key and kept by whatever the agent says. It ends in the log in two ways: a
close frame from the agent, or a close of ours for what it said, is `disconnected`; a lease that ran out is
`unreachable`. A connection that merely broke is neither: its lease runs on, and the agent is usually back.

When the process stops, it closes its sessions and records nothing: forty disconnections, followed by forty
connections a moment later, would delay the stop and tell nobody anything. The process that takes over its
lease `gateway:<id>` adopts them, and what does not come back within one TTL becomes `unreachable`.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import anyio
import anyio.to_thread
from litestar import Litestar, WebSocket, websocket
from litestar.handlers import WebsocketRouteHandler

from adapters.agent import protocol
from adapters.agent.connection import Close, Gone, close, receive, send, superseded
from adapters.agent.intake import Intake, RunBlocking
from adapters.agent.leases import Lease, Leases
from adapters.agent.peer import OUTAGE, Clock, Peer, Token
from adapters.ids import Mint
from commands import agent_batches, agents
from commands.instance_consoles import Consoles
from commands.ports import Store
from domain import errors, ids

_log = logging.getLogger("better_compute.gateway")
T = TypeVar("T")
Ending = Literal["disconnected", "unreachable"]

THREADS: Final = 40
MAX_SESSIONS: Final = 16_000
MAX_HANDSHAKES: Final = MAX_SESSIONS
"""To turn an agent away costs as much as to let it in: whoever knocks may wait, as long as agents do."""
CROWD: Final = 64
CROWD_SECONDS: Final = protocol.TTL_SECONDS / 4
"""More nodes that came with their keys in so short a time are a fleet: nobody is judged for not being here yet."""
HELLO_SECONDS: Final = 10.0
STOP_SECONDS: Final = 1.0
_SWEEP_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 2.0
_AT_ONCE: Final = 16
_STRANGER: Final = Close(protocol.UNAUTHENTICATED, "unknown node or wrong signature")
_BUSY: Final = Close(protocol.TRY_LATER, "busy; try again later")


def threads(limit: int = THREADS) -> RunBlocking:
    """Threads of the gateway's own, so that agents and API callers cannot starve each other."""
    limiter: anyio.CapacityLimiter | None = None

    def run(work: Callable[[], T], /) -> Awaitable[T]:
        nonlocal limiter
        limiter = limiter or anyio.CapacityLimiter(limit)
        return anyio.to_thread.run_sync(work, limiter=limiter)

    return run


class Gateway:
    """`route` is the WebSocket handler and `running` the lifespan, both for the HTTP application.

    `id` is what the log has as the gateway of its sessions; whoever holds the lease `gateway:<id>` judges them.

    `audience` is the plane's name in what agents sign; `clock` is monotonic, in seconds. `token` makes what an agent
    fetches an instance's bytes with; what instances wrote goes to `consoles`.
    """

    def __init__(
        self,
        store: Store,
        audience: str,
        run_blocking: RunBlocking | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        new_id: Callable[[str], str] | None = None,
        hello_seconds: float = HELLO_SECONDS,
        token: Token,
        consoles: Consoles,
    ) -> None:
        self._store = store
        self._audience = audience
        self._blocking = run_blocking or threads()
        self._new_id = new_id or Mint()
        self._token = token
        self._intake = Intake(store, self._blocking, self._new_id, consoles)
        self._hello_seconds = hello_seconds
        self._clock = clock
        self._leases: Leases[Peer] = Leases(clock, protocol.TTL_SECONDS)
        self._endings: dict[str, tuple[int, Ending]] = {}
        self._unrecorded = asyncio.Event()
        self._handshakes = 0
        self._turned_away = False
        self._came: dict[str, float] = {}
        self._sessions = 0
        self._closing = False
        self._idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.id = self._new_id("gw")
        self.route: WebsocketRouteHandler = self._route()

    def adopt(self, sessions: Mapping[str, int]) -> None:
        """Give nodes of a gateway that is gone (node id to session epoch) one TTL to come back.

        Any thread may call it, again and again: a node that has its time gets no more. Before the application
        runs it does nothing.
        """
        self._on_loop(lambda: self._adopt(sessions))

    def _adopt(self, sessions: Mapping[str, int]) -> None:
        for node_id, epoch in sessions.items():
            self._leases.grant(node_id, epoch, None)

    def go_on_as(self, id: str) -> None:
        """Leave all sessions to whoever took over their lease, and take new ones under this id. Any thread may call it.

        Agents are let go so that they come back, here or elsewhere, in a session that nobody else judges.
        """
        self._on_loop(lambda: self._go_on_as(id))

    def _go_on_as(self, id: str) -> None:
        if self.id == id:
            return
        left, self._leases = self._leases, Leases(self._clock, protocol.TTL_SECONDS)
        self.id = id
        for peer in left.peers():
            peer.end(Close(protocol.TRY_LATER, "another gateway took over; connect again"))

    def has_news(self, node_id: str, session: int | None = None) -> None:
        """Bring the node's session here, if any, its current spec and commands. Any thread may call it, at any time.

        Called for `node.connectivity_changed` too, it ends a session that another gateway's superseded; what is
        said of the `session` that is here is no news to it.
        """
        self._on_loop(lambda: self._want(node_id, session))

    def _on_loop(self, call: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process goes down
            loop.call_soon_threadsafe(call)

    def _want(self, node_id: str, session: int | None) -> None:
        peer = self._leases.peer(node_id)
        if peer is not None and peer.epoch != session:
            peer.look()

    @contextlib.asynccontextmanager
    async def running(self, _: Litestar) -> AsyncIterator[None]:
        """Watch leases and record endings while the application runs; then close all sessions, in a second."""
        self._loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sweep_for_ever)
            tasks.start_soon(self._record_for_ever)
            try:
                yield
            finally:
                await self._stop()
                tasks.cancel_scope.cancel()

    async def _stop(self) -> None:
        self._closing = True
        for peer in self._leases.peers():
            peer.end(Close(protocol.GOING_AWAY, "the gateway stops"))
        if self._sessions:
            self._idle.clear()
            with anyio.move_on_after(STOP_SECONDS, shield=True):
                await self._idle.wait()

    def sweep(self) -> None:
        """End the sessions whose lease has run out; let those look again whose commands wait for their time."""
        for peer in self._leases.peers():
            peer.tick()
        for lease in self._leases.lapsed(self._crowded()):
            self._end(lease, "unreachable")
            if lease.peer is not None:
                lease.peer.end(Close(protocol.TOO_SLOW, f"silent for {protocol.TTL_SECONDS} s"))

    def _crowded(self) -> bool:
        """Whether agents may be kept out by each other or by us. Connections that showed no key count for nothing."""
        since = self._clock() - CROWD_SECONDS
        self._came = {node_id: at for node_id, at in self._came.items() if at > since}
        turned_away, self._turned_away = self._turned_away, False
        return turned_away or len(self._came) > CROWD

    async def _sweep_for_ever(self) -> None:
        while True:
            self.sweep()
            await anyio.sleep(_SWEEP_SECONDS)

    def _end(self, lease: Lease[Peer], how: Ending) -> None:
        self._endings[lease.node_id] = (lease.epoch, how)
        self._unrecorded.set()

    async def record(self) -> bool:
        """Record endings in the log; says whether all are. What an outage left is tried again."""
        while self._endings:
            batch = [(node_id, *ending) for node_id, ending in list(self._endings.items())[:_AT_ONCE]]
            if not all(await asyncio.gather(*(self._record(*one) for one in batch))):
                return False
        return True

    async def _record(self, node_id: str, epoch: int, how: Ending) -> bool:
        try:
            await self._blocking(lambda: agents.end_session(self._store, node_id, epoch, how))
        except OUTAGE:
            return False
        except Exception:
            _log.exception("an ending could not be recorded", extra={"fields": {"node": node_id}})
        if self._endings.get(node_id) == (epoch, how):
            del self._endings[node_id]
        return True

    async def _record_for_ever(self) -> None:
        while True:
            await self._unrecorded.wait()
            self._unrecorded.clear()
            while not await self.record():
                await anyio.sleep(_RETRY_SECONDS)

    def _route(self) -> WebsocketRouteHandler:
        @websocket("/v1/agent/session", name="agent.session")
        async def session(socket: WebSocket[Any, Any, Any]) -> None:
            """Nothing leaves here as an exception: a framework would tell the peer about it."""
            self._loop = asyncio.get_running_loop()
            try:
                await socket.accept()
                await self._serve(socket)
            except Gone:
                return
            except Exception:
                _log.exception("an agent connection crashed")
                await close(socket, Close(protocol.INTERNAL, "internal error"))

        return session

    async def _serve(self, socket: WebSocket[Any, Any, Any]) -> None:
        if self._closing or self._handshakes >= MAX_HANDSHAKES or self._sessions >= MAX_SESSIONS:
            await close(socket, _BUSY)
            return
        self._handshakes += 1
        try:
            opened = await self._open(socket)
        finally:
            self._handshakes -= 1
        if isinstance(opened, Close):
            self._turned_away = self._turned_away or opened is _BUSY
            await close(socket, opened)
            return
        self._sessions += 1
        try:
            await self._hold(socket, *opened)
        finally:
            self._sessions -= 1
            if not self._sessions:
                self._idle.set()

    async def _open(self, socket: WebSocket[Any, Any, Any]) -> tuple[str, int, Clock] | Close:
        """Challenge, hello, the session's event: node id, epoch and the agent's clock, or why not.

        Only the agent's part has a time limit: an event that was asked for has to be waited for.
        """
        challenge = protocol.Challenge(secrets.token_urlsafe(32), self._audience)
        try:
            await send(socket, challenge)
            with anyio.fail_after(self._hello_seconds):
                hello = await receive(socket, protocol.MAX_HELLO)
        except TimeoutError:
            return Close(protocol.TOO_SLOW, f"no hello within {self._hello_seconds:g} s")
        except protocol.Broken as broken:
            return Close(broken.code, broken.reason)
        if not isinstance(hello, protocol.Hello):
            return Close(protocol.MALFORMED, "the first message is hello")
        try:
            return await self._admit(challenge, hello)
        except OUTAGE:
            return _BUSY
        except errors.Refusal:
            return _STRANGER

    async def _admit(self, challenge: protocol.Challenge, hello: protocol.Hello) -> tuple[str, int, Clock] | Close:
        """Missing, retired and wrongly signed are one answer, so that nobody learns which nodes exist."""
        node_id = ids.parse("node", hello.node_id)
        clock = Clock(hello.clock, self._clock)
        gateway, said = self.id, agents.Hello(hello.boot_id, hello.agent_version, shows=clock.shows)
        opened = await self._intake.open(
            agent_batches.Opening(node_id, gateway, said, lambda key: protocol.verify(key, challenge, hello))
        )
        if opened.session:
            self._came[node_id] = self._clock()
        if opened.fault is not None:
            # It may have been recorded all the same: then nobody would ever end it.
            if isinstance(opened.fault, OUTAGE) and self._leases.peer(node_id) is None:
                self._leases.grant(node_id, opened.session, None)
            raise opened.fault
        return (node_id, opened.session, clock) if gateway == self.id else _BUSY

    async def _hold(self, socket: WebSocket[Any, Any, Any], node_id: str, epoch: int, clock: Clock) -> None:
        def alive() -> None:
            if lease is not None:
                self._leases.renew(lease)

        peer = Peer(
            socket, self._store, self._blocking, self._intake, node_id, epoch, alive, self._new_id, clock, self._token
        )
        lease, older = self._leases.grant(node_id, epoch, peer)
        if lease is None:
            await close(socket, superseded("a newer session of this node was first"))
            return
        if older is not None:
            older.end(superseded("a newer session of this node took over"))
        how = await peer.run(protocol.Welcome(self._new_id("sess"), epoch))
        if how.abrupt or self._closing:
            lease.peer = None
        elif self._leases.drop(lease):
            self._end(lease, "disconnected")
