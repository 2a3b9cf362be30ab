"""What agents of this gateway ask of the store, taken many at a time: a fleet that comes back comes all at once.

Whoever comes while a round is under way waits for the next. A lone agent waits for nobody.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from commands import agent_batches
from commands.ports import Store
from domain.ids import Mint
from domain.inventory import NodeInventory

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

MOST_TOGETHER: Final = 128
ROUNDS: Final = 2
"""How many rounds of one kind run at once: while one waits for the disk, another decides."""


class RunBlocking(Protocol):
    """Runs a store call beside the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class Rounds(Generic[A, B]):
    """`work` answers all that it is given, in order; what it raises is everybody's answer. The event loop owns it."""

    def __init__(self, run_blocking: RunBlocking, work: Callable[[Sequence[A]], Sequence[B]], at_once: int) -> None:
        self._blocking = run_blocking
        self._work = work
        self._at_once = at_once
        self._waiting: deque[tuple[A, asyncio.Future[B]]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, one: A) -> B:
        answer: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((one, answer))
        if len(self._running) < self._at_once:
            task = asyncio.create_task(self._run())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(MOST_TOGETHER, len(self._waiting)))]
            asked = [one for one, _ in taken]
            try:
                answers = await self._blocking(lambda asked=asked: self._work(asked))  # type: ignore[misc]
            except BaseException as fault:
                for _, answer in taken:
                    if not answer.done():
                        answer.set_exception(fault) if isinstance(fault, Exception) else answer.cancel()
                if not isinstance(fault, Exception):
                    raise
                continue
            for (_, answer), said in zip(taken, answers, strict=True):
                if not answer.done():
                    answer.set_result(said)


class Intake:
    """The gateway's way into the log for whatever comes in crowds."""

    def __init__(self, store: Store, run_blocking: RunBlocking, new_id: Mint) -> None:
        def opening(asked: Sequence[agent_batches.Opening]) -> list[agent_batches.Opened]:
            return agent_batches.open_sessions(store, asked, new_id)

        def inventories(asked: Sequence[tuple[str, int, bytes]]) -> list[Exception | None]:
            return _inventories(store, asked)

        def statuses(asked: Sequence[agent_batches.Report]) -> list[Exception | None]:
            return agent_batches.report_statuses(store, asked)

        self._openings = Rounds(run_blocking, opening, 1)
        self._inventories = Rounds(run_blocking, inventories, ROUNDS)
        self._statuses = Rounds(run_blocking, statuses, 1)

    async def open(self, asked: agent_batches.Opening) -> agent_batches.Opened:
        return await self._openings.ask(asked)

    async def inventory(self, node_id: str, session: int, document: bytes) -> None:
        """Raises what the report alone would."""
        _raise(await self._inventories.ask((node_id, session, document)))

    async def status(self, report: agent_batches.Report) -> None:
        """Raises what the report alone would."""
        _raise(await self._statuses.ask(report))


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
