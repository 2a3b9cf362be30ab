"""What agents of this gateway ask of the store, taken many at a time: a fleet that comes back comes all at once.

Whoever comes while a round is under way waits for the next of its kind. A lone agent waits for nobody.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from commands import agent_batches, instance_consoles, status_batches
from commands.ports import Store
from domain import errors
from domain.ids import Mint
from domain.inventory import NodeInventory

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

OPENINGS: Final = 256
STATUSES: Final = 128
INVENTORIES: Final = 32
CONSOLES: Final = 16
"""How many a round takes of each kind: each round is some tenths of a second of work, and openings come first."""
PATIENCE: Final = 35.0
"""Seconds after which an opening is not begun any more: its agent is about to give up."""


class RunBlocking(Protocol):
    """Runs a store call beside the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class Kind(Generic[A, B]):
    """What waits of one kind. `work` answers all that it is given, in order; what it raises is everybody's answer."""

    def __init__(self, work: Callable[[Sequence[A]], Sequence[B]], most: int, patience: float | None = None) -> None:
        self.waiting: deque[tuple[A, asyncio.Future[B], float]] = deque()
        self._work = work
        self._most = most
        self._patience = patience

    def add(self, one: A) -> "asyncio.Future[B]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[B] = loop.create_future()
        self.waiting.append((one, answer, loop.time()))
        return answer

    async def round(self, run_blocking: RunBlocking) -> None:
        taken = [(one, answer) for one, answer, since in self._take() if self._in_time(answer, since)]
        if not taken:
            return
        try:
            answers = await run_blocking(lambda: self._work([one for one, _ in taken]))
        except Exception as fault:
            for _, answer in taken:
                if not answer.done():
                    answer.set_exception(fault)
            return
        for (_, answer), said in zip(taken, answers, strict=True):
            if not answer.done():
                answer.set_result(said)

    def _take(self) -> "list[tuple[A, asyncio.Future[B], float]]":
        return [self.waiting.popleft() for _ in range(min(self._most, len(self.waiting)))]

    def _in_time(self, answer: "asyncio.Future[B]", since: float) -> bool:
        if answer.done():
            return False
        if self._patience is None or asyncio.get_running_loop().time() - since < self._patience:
            return True
        answer.set_exception(errors.Unavailable("too many agents came at once"))
        return False


class Intake:
    """The gateway's way into the log for whatever comes in crowds: one round after the other, the kinds in turn.

    One thread is enough: beside it there is an event loop that wants the same interpreter.
    """

    def __init__(
        self, store: Store, run_blocking: RunBlocking, new_id: Mint, consoles: instance_consoles.Consoles
    ) -> None:
        def opening(asked: Sequence[agent_batches.Opening]) -> list[agent_batches.Opened]:
            return agent_batches.open_sessions(store, asked, new_id)

        def statuses(asked: Sequence[status_batches.Report]) -> list[Exception | None]:
            return status_batches.report_statuses(store, asked)

        def inventories(asked: Sequence[tuple[str, int, bytes]]) -> list[Exception | None]:
            return _inventories(store, asked)

        def written(asked: Sequence[instance_consoles.Written]) -> list[Exception | None]:
            return instance_consoles.keep(store, consoles, asked)

        self._openings = Kind(opening, OPENINGS, PATIENCE)
        self._statuses = Kind(statuses, STATUSES)
        self._inventories = Kind(inventories, INVENTORIES)
        self._consoles = Kind(written, CONSOLES)
        self._kinds: tuple[Kind[Any, Any], ...] = (self._openings, self._statuses, self._inventories, self._consoles)
        self._blocking = run_blocking
        self._running: asyncio.Task[None] | None = None

    async def _ask(self, kind: Kind[A, B], one: A) -> B:
        answer = kind.add(one)
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        try:
            while any(kind.waiting for kind in self._kinds):
                for kind in self._kinds:
                    await kind.round(self._blocking)
        finally:
            self._running = None

    async def open(self, asked: agent_batches.Opening) -> agent_batches.Opened:
        return await self._ask(self._openings, asked)

    async def inventory(self, node_id: str, session: int, document: bytes) -> None:
        """Raises what the report alone would."""
        _raise(await self._ask(self._inventories, (node_id, session, document)))

    async def status(self, report: status_batches.Report) -> None:
        """Raises what the report alone would."""
        _raise(await self._ask(self._statuses, report))

    async def console(self, written: instance_consoles.Written) -> None:
        """Raises Fenced for a session that was superseded."""
        _raise(await self._ask(self._consoles, written))


def _raise(fault: Exception | None) -> None:
    if fault is not None:
        raise fault


def _inventories(store: Store, asked: Sequence[tuple[str, int, bytes]]) -> list[Exception | None]:
    """Whoever sends no inventory hears so alone."""
    faults: dict[int, Exception] = {}
    read: dict[int, agent_batches.Inventory] = {}
    for at, (node_id, session, document) in enumerate(asked):
        try:
            read[at] = agent_batches.Inventory(node_id, session, NodeInventory.parse(document))
        except Exception as fault:
            faults[at] = fault
    answers = dict(zip(read, agent_batches.report_inventories(store, list(read.values())), strict=True)) if read else {}
    return [faults[at] if at in faults else answers[at] for at in range(len(asked))]
