"""A query asks a decider outside between two goes at the database, never within one."""

from collections.abc import Sequence
from typing import Any

import pytest

from adapters.questions import MOST, NotYet, Questions
from domain import errors
from domain.access import Check, Decision, Foresight, Plan, Resource, Session

ALICE = Session("acme", "alice", "user", "ses_1", "user")
THINGS = [Resource("compute-pool", id, "acme", {"region": "eu"}) for id in ("pool_1", "pool_2")]


class Decider:
    """Says yes, and notes whether a transaction was open meanwhile."""

    def __init__(self, *, outside: bool) -> None:
        self.needs_committed_draft = outside
        self.within = False
        self.asked: list[tuple[str, bool]] = []

    def identify(self, token: str) -> Session | None:
        return ALICE

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        self.asked.append(("authorize", self.within))
        return Decision(True, "allowed", "")

    def foresee(self, session: Session, action: str, resource: Resource) -> Foresight:
        self.asked.append(("foresee", self.within))
        return Foresight("allowed", "allowed")

    def plan(self, session: Session, action: str, type: str) -> Plan:
        self.asked.append(("plan", self.within))
        return Plan("always")

    def allowed(self, session: Session, checks: Sequence[Check]) -> Sequence[bool]:
        self.asked.append(("allowed", self.within))
        return [True for _ in checks]


def ask(decider: Decider, questions: Questions) -> list[Any]:
    decider.within = True
    try:
        questions.decide(THINGS[0])
        plan = questions.plan("get", "compute-pool")
        allowed = questions.allowed("get", list(THINGS))
        return [plan, allowed, questions.foresee("create", THINGS[1]), questions.plan("get", "compute-pool")]
    finally:
        decider.within = False


def questions_of(decider: Decider) -> Questions:
    return Questions(decider, ALICE, lambda resource: decider.authorize(ALICE, "get", resource))


@pytest.mark.parametrize("outside", [True, False])
def test_the_answers_are_the_same_wherever_the_decider_is(outside: bool) -> None:
    decider = Decider(outside=outside)
    questions = questions_of(decider)
    found = questions.run(lambda: ask(decider, questions))
    assert found == [Plan("always"), [True, True], Foresight("allowed", "allowed"), Plan("always")]
    once = [("authorize", False), ("plan", False), ("allowed", False), ("foresee", False)]
    at_once = [(name, True) for name, _ in once] + [("plan", True)]
    assert decider.asked == (once if outside else at_once)


def test_a_refusal_is_the_querys_answer() -> None:
    decider = Decider(outside=True)

    def no(resource: Resource) -> None:
        raise errors.AccessDenied("no")

    questions = Questions(decider, ALICE, no)
    with pytest.raises(errors.AccessDenied):
        questions.run(lambda: questions.decide(THINGS[0]))


def test_questions_without_end_are_refused() -> None:
    decider = Decider(outside=True)
    questions = questions_of(decider)
    numbers = iter(range(1000))
    with pytest.raises(errors.Unavailable):
        questions.run(lambda: questions.plan("get", str(next(numbers))))
    assert len(decider.asked) == MOST + 1


def test_what_a_stream_asks_later_is_asked_as_it_comes() -> None:
    decider = Decider(outside=True)
    questions = questions_of(decider)
    with pytest.raises(NotYet):
        questions.plan("get", "compute-pool")
    questions.settled()
    assert questions.plan("get", "compute-pool") == Plan("always")
