"""Runs a node's commands: one at a time, in the order of their numbers, none twice (domain.md §8).

What a session says of a command goes to whatever session there is by then; a result that nobody heard is asked for
again by the next session, which delivers the command once more, and the journal answers.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from adapters.agent import protocol
from adapters.agent.journal import Begun, Finished, Journal
from adapters.agent.protocol import Tell
from domain import node_command

_log = logging.getLogger("better_compute.agent")

MOST_REBOOTS: Final = 2
_REASON_LIMIT: Final = 255


class Failure(Exception):
    """A command could not be done: a reason in one word or line, and what is known of it."""

    def __init__(self, reason: str, **result: Any) -> None:
        super().__init__(reason)
        self.reason = reason[:_REASON_LIMIT]
        self.result = result


Execute = Callable[[Any], Awaitable[dict[str, Any]]]
"""Runs one command with its params (see node_command.params); raises Failure. Cancelled, it leaves nothing running."""


class _Waiting(Struct, frozen=True):
    """A command in the queue; `until` is when it is too late to begin, in monotonic seconds."""

    command: protocol.Command
    until: float


class Commander:
    """`take` what the plane delivers; `run` does it. `boot_id` is that of the running system.

    `ended` is called after each command's result was journalled and told.
    """

    def __init__(
        self,
        journal: Journal,
        execute: Mapping[node_command.Name, Execute],
        boot_id: str,
        clock: Callable[[], float] = time.monotonic,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._journal = journal
        self._execute = execute
        self._boot_id = boot_id
        self._clock = clock
        self._ended = ended
        self._queue: list[tuple[int, int, _Waiting]] = []
        self._numbers = itertools.count()
        self._news = asyncio.Event()
        self._running: str | None = None
        self._again: protocol.Command | None = None

    def begin(self) -> None:
        """Forget what waits: it was not acknowledged, so the session that begins delivers what still counts."""
        self._queue.clear()

    def take(self, command: protocol.Command) -> None:
        if command.id == self._running:
            self._again = command
        else:
            waiting = _Waiting(command, self._clock() + command.remaining_seconds)
            heapq.heappush(self._queue, (command.seq, next(self._numbers), waiting))
        self._news.set()

    async def run(self, tell: Tell) -> None:
        """Until cancelled; what runs then is ended, and counts as interrupted."""
        while True:
            while self._queue:
                _, _, waiting = heapq.heappop(self._queue)
                await self._one(waiting, tell)
            self._news.clear()
            await self._news.wait()

    async def _one(self, waiting: _Waiting, tell: Tell) -> None:
        command = waiting.command
        finished = self._journal.finished(command.id) or self._verdict(waiting)
        if finished is None:
            finished = await self._acknowledged(command, tell)
        if self._journal.finished(command.id) is None:
            self._note(finished)
        self._running = None
        fields = {"command": command.id, "name": command.name, "outcome": finished.outcome, "reason": finished.reason}
        _log.info("a command has ended", extra={"fields": fields})
        await tell(lambda epoch: _result(finished, epoch))
        self._ended()

    def _note(self, finished: Finished) -> None:
        """What cannot be kept is told all the same: only if nobody hears it will it be asked for again."""
        try:
            self._journal.finish(finished)
        except OSError as problem:
            _log.error("a result could not be kept", extra={"fields": {"command": finished.id, "why": str(problem)}})

    def _verdict(self, waiting: _Waiting) -> Finished | None:
        """What is to be said of a command without running it; None when it shall run."""
        command, begun = waiting.command, self._journal.begun(waiting.command.id)
        if begun is None:
            late = command.remaining_seconds <= 0 or self._clock() > waiting.until
            return Finished(command.id, "expired") if late else None
        if command.flags.rejoin:
            if begun.boot_id != self._boot_id:
                return Finished(command.id, "succeeded", {"bootId": self._boot_id})
            tried = begun.attempt >= MOST_REBOOTS
            return Finished(command.id, "failed", reason="StillRunning") if tried else None
        return None if command.flags.idempotent else Finished(command.id, "failed", reason="Interrupted")

    async def _acknowledged(self, command: protocol.Command, tell: Tell) -> Finished:
        """Journal it, say so, run it; a redelivery meanwhile is acknowledged to the session it came in."""
        before = self._journal.begun(command.id)
        attempt = before.attempt + 1 if before else 1
        try:
            self._journal.begin(Begun(command.id, command.name, command.seq, self._boot_id, attempt))
        except OSError as problem:
            return Finished(command.id, "failed", {"detail": str(problem)}, "NoJournal")
        self._running, self._again = command.id, None
        await tell(lambda epoch: protocol.Ack(command.id, epoch))
        work = asyncio.create_task(self._work(command))
        news: asyncio.Task[bool] | None = None
        try:
            while not work.done():
                self._news.clear()
                news = asyncio.create_task(self._news.wait())
                await asyncio.wait([work, news], return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if self._again is not None:
                    self._again = None
                    await tell(lambda epoch: protocol.Ack(command.id, epoch))
            return work.result()
        finally:
            tasks = [work] if news is None else [work, news]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, command: protocol.Command) -> Finished:
        """Whatever goes wrong is the command's failure, not the agent's."""
        execute = self._execute.get(command.name)
        if execute is None:
            return Finished(command.id, "failed", reason="NotSupported")
        try:
            params = msgspec.convert(command.params, node_command.params(command.name))
            async with asyncio.timeout(command.timeout_seconds):
                result = await execute(params)
                if command.flags.rejoin:
                    await asyncio.Event().wait()
        except msgspec.ValidationError as wrong:
            return Finished(command.id, "failed", {"detail": str(wrong)}, "InvalidParams")
        except TimeoutError:
            return Finished(command.id, "failed", {"seconds": command.timeout_seconds}, "TimedOut")
        except Failure as failure:
            return Finished(command.id, "failed", _bounded(failure.result), failure.reason)
        except Exception as error:
            _log.exception("a command crashed", extra={"fields": {"command": command.id, "name": command.name}})
            return Finished(command.id, "failed", {"detail": f"{type(error).__name__}: {error}"[:1_000]}, "Crashed")
        return Finished(command.id, "succeeded", _bounded(result))


def _bounded(result: dict[str, Any]) -> dict[str, Any]:
    size = len(msgspec.json.encode(result))
    return result if size <= node_command.MAX_RESULT else {"detail": f"the result had {size} bytes"}


def _result(finished: Finished, epoch: int) -> protocol.Result:
    return protocol.Result(finished.id, epoch, finished.outcome, finished.result, finished.reason)
