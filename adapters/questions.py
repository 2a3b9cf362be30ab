"""What a query asks of the decider: at once where that is in memory, else between two goes at the database.

A decider outside may take seconds. Meanwhile no connection is held and no table locked: the query stops at its first
question, which is asked by itself, and then runs again with the answer (decisions/0024).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from domain import errors
from domain.access import Authorizer, Foresight, Plan, Resource, Session, checks

T = TypeVar("T")

MOST: Final = 32
"""Questions of one query: a page of things that no plan tells apart takes the most, one for each go at its rows."""


class NotYet(Exception):
    """The query needs an answer that it has not got."""


class Questions:
    """Of one query by one caller. `decide` decides on what the query is about, and refuses."""

    def __init__(self, authorizer: Authorizer, session: Session, decide: Callable[[Resource], Any]) -> None:
        self._authorizer = authorizer
        self._session = session
        self._decide = decide
        self._outside = authorizer.needs_committed_draft
        self._answers: list[tuple[tuple[Any, ...], Any]] = []
        self._open: tuple[tuple[Any, ...], Callable[[], Any]] | None = None

    def plan(self, action: str, type: str) -> Plan:
        return self._answered(("plan", action, type), lambda: self._authorizer.plan(self._session, action, type))

    def allowed(self, action: str, resources: Sequence[Resource]) -> Sequence[bool]:
        asked = ("allowed", action, tuple(resources))
        return self._answered(asked, lambda: self._authorizer.allowed(self._session, checks(action, resources)))

    def foresee(self, action: str, resource: Resource) -> Foresight:
        asked = ("foresee", action, resource)
        return self._answered(asked, lambda: self._authorizer.foresee(self._session, action, resource))

    def decide(self, resource: Resource) -> None:
        self._answered(("decide", resource), lambda: self._decide(resource))

    def run(self, query: Callable[[], T]) -> T:
        """The query's result; it runs once more for each question."""
        for _ in range(MOST + 1):
            try:
                return query()
            except NotYet:
                self._ask()
        raise errors.Unavailable("this asks more of Better IAM than one request may; ask for less")

    def settled(self) -> None:
        """The query has given its answer; what a stream of it still asks is asked as it comes."""
        self._outside = False

    def _answered(self, asked: tuple[Any, ...], ask: Callable[[], T]) -> T:
        if not self._outside:
            return ask()
        for known, answer in self._answers:
            if known == asked:
                found: T = answer
                return found
        self._open = (asked, ask)
        raise NotYet

    def _ask(self) -> None:
        assert self._open is not None
        asked, ask = self._open
        self._answers.append((asked, ask()))
