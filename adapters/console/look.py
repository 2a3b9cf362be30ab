"""What one look at a page asks of whoever decides: together, and once (decisions/0038).

A decider outside takes its time for every answer, and a page asks dozens of questions, some of them only when it knows
the answer to others. So it is built on guesses first, all that it asked on the way is asked at the same time, and it is
built again with the answers, until nothing was guessed. What was built on a guess is never shown.
"""

import contextvars
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from adapters.questions import NotYet
from domain import access, errors
from domain.access import Authorizer, Check, Decision, Foresight, Plan, Resource, Session

T = TypeVar("T")

GOES: Final = 8
PATIENCE_S: Final = 15.0
"""After so long no further question is asked for a page."""

TOGETHER: Final = 8
FEW: Final = 8
"""Of more things of a type, whether an action is allowed on them is asked as one plan (iam.md §19)."""

Key = tuple[str, str, str]


class Look:
    """An Authorizer for reading, as long as one page is made. A yes stands for all that the page asks of it.

    Outside of `run` nothing is guessed: each question is asked as it comes.
    """

    needs_committed_draft = False

    def __init__(
        self, authorizer: Authorizer, session: Session, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._authorizer = authorizer
        self._session = session
        self._monotonic = monotonic
        self._until = monotonic() + PATIENCE_S
        self._guesses = False
        self._verdicts: dict[Key, bool] = {}
        self._plans: dict[tuple[str, str], Plan] = {}
        self._foresights: list[tuple[Check, Foresight]] = []
        self._refused: dict[Key, Decision] = {}
        self._open = _Open()
        self._failed: errors.Unavailable | None = None

    @property
    def guessing(self) -> bool:
        """Whether what was built so far rests on a guess."""
        return bool(self._open)

    def run(self, build: Callable[[], T]) -> T:
        """What `build` makes of answers alone; what it raises while it guesses is no fault of anybody."""
        if not self._authorizer.needs_committed_draft:
            return build()
        for _ in range(GOES):
            with self._guessed():
                try:
                    made = build()
                except Exception:
                    if not self.guessing:
                        raise
                else:
                    if not self.guessing:
                        return made
            self._ask()
        raise errors.Unavailable("this page asks more of Better IAM than one look may; ask for less")

    def identify(self, token: str) -> Session | None:
        return self._authorizer.identify(token)

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        """Of a no, the reason is asked for, and only where nothing is guessed: it is recorded."""
        if self.allowed(session, [(action, resource)])[0]:
            return Decision(True, "allowed", "")
        if self.guessing:
            raise NotYet
        key = _key(action, resource)
        if key not in self._refused:
            self._refused[key] = self._authorizer.authorize(session, action, resource)
        return self._refused[key]

    def allowed(self, session: Session, checks: Sequence[Check]) -> Sequence[bool]:
        unknown = [(action, resource) for action, resource in checks if _key(action, resource) not in self._verdicts]
        self._open.checks.update({_key(*check): check for check in unknown})
        self._settle()
        return [self._verdicts.get(_key(*check), True) for check in checks]

    def plan(self, session: Session, action: str, type: str) -> Plan:
        """A list shows nothing where its plan is guessed."""
        if (action, type) not in self._plans:
            self._open.plans[action, type] = None
            self._settle()
        return self._plans.get((action, type), Plan("never"))

    def may_some(self, action: str, type: str) -> bool:
        """Whether there may be a thing of the type on which it is allowed."""
        planned = self.plan(self._session, action, type)
        return (action, type) in self._open.plans or planned.kind != "never"

    def foresee(self, session: Session, action: str, resource: Resource) -> Foresight:
        if self._foreseen(action, resource) is None:
            self._open.foresights.append((action, resource))
            self._settle()
        return self._foreseen(action, resource) or Foresight("unknown", "")

    def _foreseen(self, *check: Any) -> Foresight | None:
        return next((foresight for asked, foresight in self._foresights if asked == check), None)

    @contextmanager
    def _guessed(self) -> Iterator[None]:
        self._guesses = True
        try:
            yield
        finally:
            self._guesses = False

    def _settle(self) -> None:
        if not self._guesses:
            self._ask()

    def _ask(self) -> None:
        """All that is open, at the same time; who gave no answer is not asked again."""
        if not self._open:
            return
        if self._monotonic() > self._until:
            self._failed = errors.Unavailable("Better IAM takes too long to decide what this page may show; try again")
        if self._failed is not None:
            raise self._failed
        asked, self._open = self._open, _Open()
        try:
            self._answered(asked)
        except errors.Unavailable as failed:
            self._failed = failed
            raise

    def _answered(self, asked: "_Open") -> None:
        session, by, many = self._session, self._authorizer, asked.many()
        plans = [kind for kind in {**asked.plans, **many} if kind not in self._plans]
        alone = [check for check in asked.checks.values() if _kind(check) not in many]
        work: list[Callable[[], Any]] = [partial(by.plan, session, *kind) for kind in plans]
        work += [partial(by.foresee, session, *check) for check in asked.foresights]
        work += [partial(by.allowed, session, alone)] if alone else []
        found = _together(work)
        self._plans.update(zip(plans, found, strict=False))
        self._foresights += zip(asked.foresights, found[len(plans) :], strict=False)
        if alone:
            self._know(alone, found[-1])
        for kind, things in many.items():
            checks = access.checks(kind[0], things)
            self._know(checks, access.may(self._plans[kind], things, partial(self._each, checks)))

    def _each(self, checks: Sequence[Check], _: Sequence[Resource]) -> Sequence[bool]:
        return self._authorizer.allowed(self._session, checks)

    def _know(self, checks: Sequence[Check], verdicts: Sequence[bool]) -> None:
        self._verdicts.update({_key(*check): verdict for check, verdict in zip(checks, verdicts, strict=True)})


class _Open:
    """What is asked next, each once."""

    def __init__(self) -> None:
        self.checks: dict[Key, Check] = {}
        self.plans: dict[tuple[str, str], None] = {}
        self.foresights: list[Check] = []

    def __bool__(self) -> bool:
        return bool(self.checks or self.plans or self.foresights)

    def many(self) -> Mapping[tuple[str, str], list[Resource]]:
        """Things on which the same is asked, by action and type, where they are more than few."""
        found: dict[tuple[str, str], list[Resource]] = {}
        for check in self.checks.values():
            found.setdefault(_kind(check), []).append(check[1])
        return {kind: things for kind, things in found.items() if len(things) > FEW}


def _key(action: str, resource: Resource) -> Key:
    return action, resource.type, resource.id


def _kind(check: Check) -> tuple[str, str]:
    return check[0], check[1].type


def _together(work: Sequence[Callable[[], T]]) -> list[T]:
    """Each in a thread, with the request's id and address; raises what the first of them raised, when all are done."""
    if len(work) <= 1:
        return [one() for one in work]
    with ThreadPoolExecutor(min(len(work), TOGETHER), thread_name_prefix="look") as threads:
        running = [threads.submit(contextvars.copy_context().run, one) for one in work]
    return [one.result() for one in running]
