"""One process of the plane without its threads: whoever writes a history says when it reads, and when it acts."""

import itertools
from collections.abc import Sequence
from typing import Any

from adapters.books import Library
from adapters.calendars import Calendars
from adapters.cel import CelSelectors
from adapters.dispatch import Dispatcher
from adapters.instances_worker import InstancesWorker
from adapters.postgres import reader
from adapters.postgres.budgets import Budgets
from adapters.postgres.pool import Pool
from adapters.postgres.reader import Tail
from adapters.postgres.store import EventStore
from adapters.registry import OPERATIONS
from adapters.watch import NodeWatch
from adapters.worker import Worker
from commands.controllers import clockwatch
from commands.controllers.instances import Kept
from commands.ports import Images, Ports
from domain.access import Check, Decision, Plan, Resource, Session
from domain.event import Recorded
from domain.operation import Answer, Call
from histories.clock import Clock
from projections import table

ROOT = "root"


class Everything:
    """An authorizer that allows: whose right it is has its own tests."""

    needs_committed_draft = False

    def identify(self, token: str) -> Session | None:
        return None

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        return Decision(True, "Allowed", "")

    def plan(self, session: Session, action: str, type: str) -> Plan:
        return Plan("always")

    def allowed(self, session: Session, checks: Sequence[Check]) -> Sequence[bool]:
        return [True] * len(checks)


class Nowhere:
    """The bytes of every image are there; what else instances have beside the log is forgotten."""

    def has(self, sha256: str) -> bool:
        return True

    def put(self, instance_id: str, content: bytes) -> None:
        pass

    def drop(self, *_: Any) -> None:
        pass


class Ids:
    """The same history makes the same ids, for placement goes by them; they sort by creation."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def __call__(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):026d}"


class Process:
    """`behind` says that its follower stands still: it knows the log up to where it was, and waits in vain."""

    def __init__(self, writes: Pool, reads: Pool, clock: Clock, new_id: Ids, origin: int) -> None:
        self.behind = False
        self._reads = reads
        self._tail = Tail(origin)
        self.store = EventStore(writes, table.INLINE, ROOT, new_id)
        self.calendars = Calendars(self.head, self._wait, clock.monotonic)
        nowhere = Nowhere()
        self.ports = Ports(
            self.store,
            Everything(),
            self.calendars,
            CelSelectors(),
            new_id,
            lambda: "secret",
            Budgets(writes),
            Images(nowhere, None, nowhere),  # type: ignore[arg-type]
        )
        self._dispatcher = Dispatcher(
            self.ports,
            self.store,
            reads,
            self.head,
            lambda position, seconds: True,
            self.head,
            Library(reads, lambda: "", ""),
        )
        self.worker = Worker(self.ports, reads, self.calendars, new_id("sess"), clock.monotonic)
        kept = Kept(nowhere, nowhere)  # type: ignore[arg-type]
        self.instances = InstancesWorker(self.store, kept, reads, new_id("sess"), clock.monotonic)
        self.watch = NodeWatch(self.store, reads, new_id, clock.monotonic)
        for controller in (self.worker._controller, self.watch._controller, self.instances._controller):
            controller._clock = clockwatch.Watch(clock.monotonic)

    def head(self) -> int:
        with self._reads.connection() as connection:
            return reader.end(connection)

    def follow(self) -> None:
        """Read to the log's end."""
        for recorded in read(self._reads, self._tail):
            self.calendars.consume([recorded])

    def ask(self, name: str, session: Session, key: str | None = None, /, **fields: Any) -> Answer:
        """Perform an operation, as a request that was decoded; a refusal is raised."""
        operation = OPERATIONS[name]
        call = Call(session=session, request_id="req_1", idempotency_key=key)
        return self._dispatcher(operation, operation.request(**fields), call)

    def _wait(self, position: int, seconds: float) -> bool:
        if not self.behind:
            self.follow()
        return self._tail.position >= position


def read(connections: Pool, tail: Tail) -> list[Recorded]:
    """All that came to the log since."""
    found: list[Recorded] = []
    with connections.connection() as connection:
        while True:
            batch = tail.read(connection)
            found += batch
            if not batch and not tail.hole_age:
                return found
