"""One agent's session on the gateway: what it said last, what it is still to be told, and how it ends.

Of each kind only the newest is kept, so a peer that talks faster than the store takes costs no more than one
that does not. Heartbeats are read while the store is slow: an outage of the store expires nobody.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import psycopg

from adapters.agent import protocol
from adapters.agent.connection import Close, Gone, Socket, close, receive, send, superseded
from adapters.agent.intake import Intake, RunBlocking
from commands import health, instance_consoles, node_commands, node_sessions, status_batches
from commands.ports import Race, Store
from domain import errors, node, node_command

_log = logging.getLogger("better_compute.gateway")

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0
MOST_ANSWERS: Final = 256
MOST_CONSOLES: Final = 128
CONSOLE_SECONDS: Final = 1.0
"""Consoles are taken so far apart; of each the newest, and meanwhile no more than so many."""
MOST_AT_ONCE: Final = 10
REFILL_SECONDS: Final = 30.0
JUMP_MS: Final = 1_000
"""What a clock gained or lost that is worth another look; less is the way of messages."""
OUTAGE: Final = (errors.Unavailable, Race, psycopg.OperationalError, psycopg.InterfaceError)
"""The store cannot answer now and will later; reads raise psycopg's errors as they are."""

Token = Callable[[str, str], str]
"""What an agent fetches an instance's bytes with, of its allocation and itself."""


class Clock:
    """An agent's wall clock as it was last heard; `shows` goes on from there by the plane's monotonic one."""

    def __init__(self, heard_ms: int, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._heard_ms, self._at = heard_ms, monotonic()

    def shows(self) -> int:
        return self._heard_ms + round(1000 * (self._monotonic() - self._at))

    def hear(self, heard_ms: int) -> bool:
        """Take what a heartbeat said; says whether the clock has jumped since the last jump or the hello."""
        if abs(heard_ms - self.shows()) < JUMP_MS:
            return False
        self._heard_ms, self._at = heard_ms, self._monotonic()
        return True


class Allowance:
    """How many reports may be taken: MOST_AT_ONCE, and one more each REFILL_SECONDS."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left, self._at = float(MOST_AT_ONCE), clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(float(MOST_AT_ONCE), self._left + (now - self._at) / REFILL_SECONDS)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Peer:
    """A session that was welcomed. `run` returns how it ended; `end` ends it from anywhere on the event loop."""

    def __init__(
        self,
        socket: Socket,
        store: Store,
        run_blocking: RunBlocking,
        intake: Intake,
        node_id: str,
        epoch: int,
        alive: Callable[[], None],
        new_id: Callable[[str], str],
        clock: Clock,
        token: Token,
    ) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self._socket = socket
        self._store = store
        self._blocking = run_blocking
        self._intake = intake
        self._alive = alive
        self._new_id = new_id
        self._clock = clock
        self._token = token
        self._jumped = False
        self._ended: asyncio.Future[Close] = asyncio.get_running_loop().create_future()
        self._wake = asyncio.Event()
        self._allowance = Allowance(asyncio.get_running_loop().time)
        self._inventory: protocol.Inventory | None = None
        self._status: protocol.Status | None = None
        self._consoles: dict[str, protocol.Console] = {}
        self._consoles_at = -CONSOLE_SECONDS
        self._answers: deque[protocol.Ack | protocol.Result] = deque()
        self._wanted = False
        self._sent: int | None = None
        self._handed: set[str] = set()
        self._waiting = False

    def end(self, how: Close) -> None:
        if not self._ended.done():
            self._ended.set_result(how)

    def look(self, again: bool = False) -> None:
        """Look at what the node is to be told: its spec if new to the session or, with `again`, anyway; commands."""
        self._wanted = True
        if again:
            self._sent = None
        self._wake.set()

    def tick(self) -> None:
        """Time has passed: commands that waited for theirs may be due, and a report that had to wait may be taken."""
        if self._waiting:
            self.look()
        if self._inventory is not None or self._consoles:
            self._wake.set()

    async def run(self, welcome: protocol.Welcome) -> Close:
        """The last word is said before the tasks end: a store call under way must not hold it back."""
        try:
            await send(self._socket, welcome)
        except Gone as gone:
            return Close(gone.code, "gone", gone=True)
        self.look()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._guarded, self._listen)
            tasks.start_soon(self._guarded, self._work)
            how = await self._ended
            await close(self._socket, how)
            tasks.cancel_scope.cancel()
        return how

    async def _guarded(self, task: Callable[[], Awaitable[None]]) -> None:
        """Whatever a peer or the store does ends this session at most, and tells the peer nothing inside."""
        try:
            await task()
        except Gone as gone:
            self.end(Close(gone.code, "gone", gone=True))
        except protocol.Broken as broken:
            self.end(Close(broken.code, broken.reason))
        except errors.Fenced:
            self.end(superseded("a newer session of this node took over"))
        except errors.NotFound:
            self.end(Close(protocol.UNAUTHENTICATED, "no such node"))
        except (errors.Invalid, errors.Malformed) as wrong:
            self.end(Close(protocol.MALFORMED, wrong.detail))
        except Exception:
            _log.exception("an agent session crashed", extra={"fields": {"node": self.node_id}})
            self.end(Close(protocol.INTERNAL, "internal error"))

    async def _listen(self) -> None:
        while True:
            message = await receive(self._socket)
            self._alive()
            match message:
                case protocol.Heartbeat(clock=clock):
                    if clock is None or not self._clock.hear(clock):
                        continue
                    self._jumped = True
                case protocol.Inventory():
                    self._inventory = message
                case protocol.Status():
                    self._status = message
                case protocol.Console():
                    if message.instance_id in self._consoles or len(self._consoles) < MOST_CONSOLES:
                        self._consoles[message.instance_id] = message
                case protocol.Ack() | protocol.Result():
                    self._take_answer(message)
                case protocol.Hello():
                    raise protocol.Broken(protocol.MALFORMED, "hello opens a session, once")
            self._wake.set()

    def _take_answer(self, answer: protocol.Ack | protocol.Result) -> None:
        if answer.epoch != self.epoch:
            raise protocol.Broken(protocol.MALFORMED, f"answers are of session {self.epoch} here")
        if len(self._answers) >= MOST_ANSWERS:
            raise protocol.Broken(protocol.MALFORMED, f"{MOST_ANSWERS} answers wait already")
        self._answers.append(answer)

    async def _work(self) -> None:
        """One store call at a time; after a failed one the agent is asked for its status again, later."""
        pause = FIRST_PAUSE
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._take_inventory()
                await self._take_status()
                await self._take_answers()
                await self._take_clock()
                await self._tell()
                await self._take_consoles()
                pause = FIRST_PAUSE
                continue
            except OUTAGE:
                pass
            except (errors.Fenced, errors.NotFound, errors.Invalid, errors.Malformed):
                raise
            except errors.Refusal as refusal:
                pause = LONGEST_PAUSE
                fields = {"node": self.node_id, "code": refusal.code, "detail": refusal.detail}
                _log.warning("a node's report was refused", extra={"fields": fields})
            await anyio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            self.look(again=True)

    async def _take_inventory(self) -> None:
        """Ten at once and then one each half a minute: each that brings something new is in the log for ever."""
        if self._inventory is None or not self._allowance.take():
            return
        taken, self._inventory = self._inventory, None
        document = bytes(taken.inventory)
        try:
            await self._intake.inventory(self.node_id, self.epoch, document)
        except OUTAGE:
            self._inventory = self._inventory or taken
            raise

    async def _take_status(self) -> None:
        taken, self._status = self._status, None
        if taken is not None:
            await self._intake.status(
                status_batches.Report(self.node_id, self.epoch, taken.observed_generation, taken.items, taken.instances)
            )
            self._wanted = self._wanted or self._waiting

    async def _take_consoles(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._consoles_at < CONSOLE_SECONDS:
            return
        taken, self._consoles = self._consoles, {}
        if not taken:
            return
        self._consoles_at = now
        tails = tuple(instance_consoles.Tail(one.instance_id, one.total_bytes, one.tail) for one in taken.values())
        try:
            await self._intake.console(instance_consoles.Written(self.node_id, self.epoch, tails))
        except OUTAGE:
            self._consoles = taken | self._consoles
            raise

    async def _take_clock(self) -> None:
        if self._jumped:
            self._jumped = False
            shows = self._clock.shows
            try:
                await self._blocking(lambda: health.report_clock(self._store, self.node_id, self.epoch, shows))
            except OUTAGE:
                self._jumped = True
                raise

    async def _take_answers(self) -> None:
        """In the order in which they came; what an outage left is taken again."""
        while self._answers:
            answer = self._answers[0]
            try:
                await self._blocking(lambda answer=answer: self._record(answer))  # type: ignore[misc]
            except (errors.Conflict, errors.AccessDenied) as refusal:
                if isinstance(refusal, errors.Fenced):
                    raise
                fields = {"node": self.node_id, "command": answer.command_id, "why": refusal.detail}
                _log.warning("an answer was refused", extra={"fields": fields})
            self._answers.popleft()
            self._wanted = True

    def _record(self, answer: protocol.Ack | protocol.Result) -> None:
        if isinstance(answer, protocol.Ack):
            node_sessions.acknowledge(self._store, self.node_id, self.epoch, answer.command_id)
            return
        node_sessions.take_result(
            self._store,
            self.node_id,
            self.epoch,
            answer.command_id,
            answer.outcome,
            answer.reason,
            answer.result,
            self._new_id,
        )

    async def _tell(self) -> None:
        if not self._wanted:
            return
        self._wanted = False
        state: node.State = (await self._blocking(lambda: self._store.load(self.node_id))).state
        if state.session != self.epoch:
            raise errors.Fenced(f"session {self.epoch} was superseded")
        if state.generation != self._sent:
            await send(self._socket, as_spec(state, self._token))
            self._sent = state.generation
        self._waiting = False
        if state.commands:
            for command in await self._blocking(lambda: self._due(state)):
                await send(self._socket, command)

    def _due(self, state: node.State) -> list[protocol.Command]:
        """Commands to hand over in this session: what may begin, and what an earlier session got no answer for."""
        loaded = [(queued.id, self._store.load(queued.id).state) for queued in state.commands]
        now = self._store.now()
        asks = any(of.status == "queued" and node_commands.interrupts(of) for _, of in loaded)
        busy = asks and bool(self._store.booked(self.node_id))
        turn, self._waiting = node_commands.ready(state, loaded, now, busy)
        begin = [id for id in turn if node_sessions.deliver(self._store, self.node_id, self.epoch, id)]
        handed = [
            _as_message(command_id, of, now)
            for command_id, of in loaded
            if command_id not in self._handed and (of.status == "delivered" or command_id in begin)
        ]
        self._handed.update(command.id for command in handed)
        return handed


def as_spec(state: node.State, token: Token) -> protocol.Spec:
    """The NodeSpec as its agent gets it, with a token for each allocation that an instance is on."""
    tokens = {one.allocation_id: token(one.allocation_id, one.id) for one in state.instances}
    return protocol.Spec(state.generation, state.allocations, state.sharing, state.instances, tokens)


def _as_message(command_id: str, of: node_command.State, now: int) -> protocol.Command:
    left = (of.not_after - now) // 1000
    return protocol.Command(command_id, of.seq, of.name, of.params, of.flags, of.timeout_seconds, left)
