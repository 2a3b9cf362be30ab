"""From a decoded request to its answer: commands are performed, queries are read (architecture.md §4)."""

import copy
from collections.abc import Callable
from typing import Any, Final

import psycopg
from msgspec.structs import replace

from adapters.books import Library
from adapters.postgres import rebuild
from adapters.postgres.pool import Pool
from adapters.postgres.refusals import translate
from adapters.postgres.store import EventStore
from adapters.questions import Questions
from commands import unit
from commands.gatekeeper import Gatekeeper
from commands.ports import Ports
from domain import errors
from domain.access import Authorizer, Resource, Session
from domain.operation import Answer, Call, Operation, Reading, Request
from projections import table
from queries import past
from queries.reading import LookAhead, Reader

WAIT_S: Final = 2.0
_TABLES: Final = ", ".join(f"public.{name}" for of in table.ALL for name in rebuild.tables(of))
_BEGIN: Final = f"""
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
LOCK TABLE {_TABLES} IN ACCESS SHARE MODE
""".encode()
"""The lock comes before the snapshot: a table that a rebuild swaps in between the two holds rows that the snapshot does
not see, and would seem empty."""


class Dispatcher:
    """`visible` is the position that the read models show, `wait` waits until they show one, `head` the log's last."""

    def __init__(
        self,
        ports: Ports,
        store: EventStore,
        pool: Pool,
        visible: Callable[[], int],
        wait: Callable[[int, float], bool],
        head: Callable[[], int],
        library: Library,
    ) -> None:
        self.ports = ports
        self.gatekeeper = Gatekeeper(store, ports.authorizer, ports.new_id)
        self._store = store
        self._pool = pool
        self._visible = visible
        self._wait = wait
        self._head = head
        self._library = library

    def __call__(self, operation: Operation, request: Request, call: Call) -> Answer:
        try:
            if operation.credential == "resolver":
                answer: Answer = operation.handle(request, self._store.resolve)
                return answer
            if not operation.is_query:
                return unit.perform(operation, request, call, self.ports, self.gatekeeper)
            return self._read(operation, request, call)
        except psycopg.Error as fault:
            translate(fault)

    def reading(
        self, authorizer: Authorizer, recording: Callable[[], bool]
    ) -> Callable[[Operation, Any, Call], Answer]:
        """What answers queries by the word of another who decides; refusals are recorded while `recording` says so."""
        made = copy.copy(self)
        made.ports = replace(self.ports, authorizer=authorizer)
        made.gatekeeper = self.gatekeeper.by(authorizer, recording)

        def read(operation: Operation, request: Request, call: Call) -> Answer:
            if not operation.is_query:
                raise ValueError(f"{operation.name} changes something: it is not for looking")
            return made(operation, request, call)

        return read

    def expect(self, operation: Operation, request: Request, call: Call) -> Any:
        """What a body of bytes must be, for whoever may send it."""
        try:
            return unit.foretell(operation, request, call, self.ports, self.gatekeeper)
        except psycopg.Error as fault:
            translate(fault)

    def _read(self, operation: Operation, request: Request, call: Call) -> Answer:
        if call.session is None:
            raise errors.Unauthenticated("this operation needs a bearer token")
        if operation.proves:
            return self._proven(operation, request, call, call.session)
        if operation.looks:
            self._until_visible(self._head())
        elif isinstance(request, Reading) and request.wait_for is not None:
            self._until_visible(request.wait_for)
        named: str | None = getattr(request, "as_of", None)
        as_of = None if named is None else self._position(named)
        begins: str | None = getattr(request, "diff", None)
        earlier = None if begins is None else self._position(begins, "diff")
        session = call.session
        self.gatekeeper.admit(operation, request, session, call.request_id)

        def decide(resource: Resource) -> None:
            self.gatekeeper.decide(session, operation.action, resource, call.request_id)

        questions = Questions(self.ports.authorizer, session, decide)
        answer = questions.run(lambda: self._look(operation, request, call, questions, as_of, earlier))
        questions.settled()
        return answer

    def _look(
        self,
        operation: Operation,
        request: Request,
        call: Call,
        questions: Questions,
        as_of: int | None,
        earlier: int | None,
    ) -> Answer:
        """One go at the database, in a transaction of its own."""
        assert call.session is not None
        with self._pool.connection() as connection:
            connection.execute(_BEGIN)
            try:
                for position in (as_of, earlier):
                    if position is not None and not operation.of_log:
                        past.check_kept(connection, position)
                named: str | None = getattr(request, "as_of", None)
                then = None if named is None else past.instant(connection, named)
                read = self._reader(connection, operation, call, call.session, questions, as_of, earlier, then)
                answer: Answer = operation.handle(request, read)
                return answer
            finally:
                connection.rollback()

    def _proven(self, operation: Operation, request: Request, call: Call, session: Session) -> Answer:
        wanted: int | None = getattr(request, "wait_for", None)
        if wanted is not None and (wanted > self._head() or not self._library.wait(wanted, WAIT_S)):
            raise errors.ProjectionBehind(
                f"the evidence shows position {self._library.position()}, {wanted} is asked for; try again"
            )
        self.gatekeeper.admit(operation, request, session, call.request_id)
        answer: Answer = operation.handle(request, self._library.of(session))
        return answer

    def _reader(
        self,
        connection: psycopg.Connection[Any],
        operation: Operation,
        call: Call,
        session: Session,
        questions: Questions,
        as_of: int | None,
        earlier: int | None,
        then: int | None,
    ) -> Reader:
        def unseen(type: str, id: str, field: str) -> errors.NotFound:
            return self.gatekeeper.unseen(session, operation.action, type, id, field, call.request_id)

        return Reader(
            connection,
            session,
            self._store.now() if then is None else then,
            self._visible() if as_of is None else as_of,
            self._store.load,
            self._store.history,
            lambda type, id: self._store.resolve(session.tenant_id, type, id),
            questions.plan,
            questions.allowed,
            unseen,
            self._store.log,
            self._visible,
            as_of,
            self._store.load_as_of,
            self._store.load_all_as_of,
            questions.decide,
            self._store.load,
            self._store.versions,
            self._store.at,
            self._store.load_all,
            self._ahead(session, questions),
            earlier,
        )

    def _ahead(self, session: Session, questions: Questions) -> LookAhead:
        def offer(pool_id: str) -> tuple[str, int] | None:
            found = self._store.offer(session.tenant_id, pool_id)
            return None if found is None else (found.id, found.priority)

        return LookAhead(
            self.ports.calendars.locked,
            self.ports.selectors,
            questions.foresee,
            self.ports.budgets.accounts,
            offer,
            lambda pool_id, place, limit: self._store.queue(pool_id, place, limit).ahead,
        )

    def _position(self, as_of: str, field: str = "asOf") -> int:
        """The position that `asOf` or another such field names, once the read models show it."""
        if as_of.startswith("@"):
            position = int(as_of[1:])
            past.check_position(position, self._head(), field)
        else:
            past.check_instant(int(as_of), self._store.now(), field)
            position = self._labelled(int(as_of))
        self._until_visible(position)
        return position

    def _labelled(self, instant: int) -> int:
        """An instant that the log has left behind is settled; for any other all that it holds now must be read."""
        head = self._head()
        with self._pool.connection() as connection:
            position, settled = past.label(connection, instant)
        if settled:
            return position
        self._until_visible(head)
        with self._pool.connection() as connection:
            return past.label(connection, instant)[0]

    def _until_visible(self, position: int) -> None:
        """A position that the log has not reached is none that an answer gave: waiting would only hold a thread."""
        if self._visible() < position and (position > self._head() or not self._wait(position, WAIT_S)):
            raise errors.ProjectionBehind(
                f"the lists show position {self._visible()}, {position} is asked for; try again"
            )
