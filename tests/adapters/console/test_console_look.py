"""A page is built on guesses until it guesses nothing; what it asks is asked together, and once."""

from collections.abc import Sequence
from threading import Barrier

import pytest

from adapters.console.look import FEW, GOES, PATIENCE_S, Look
from domain import errors
from domain.access import Check, Decision, Foresight, Plan, Resource, Session

ALICE = Session("acme", "alice", "user", "ses_1", "user")
THINGS = [Resource("compute-pool", f"pool_{n}", "acme", {"region": "eu"}) for n in range(FEW + 2)]
POOL, OTHER = THINGS[:2]


class Decider:
    """Says yes but to `no`, and notes what it is asked; `meet` waits until so many ask at the same time."""

    needs_committed_draft = True

    def __init__(self, *no: str, meet: int = 1) -> None:
        self.no = no
        self.asked: list[str] = []
        self.barrier = Barrier(meet, timeout=10)
        self.down = False

    def identify(self, token: str) -> Session | None:
        return ALICE

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        self.asked.append(f"authorize {action}")
        return Decision(action not in self.no, "MFA_REQUIRED" if action in self.no else "allowed", "")

    def foresee(self, session: Session, action: str, resource: Resource) -> Foresight:
        self._ask(f"foresee {action}")
        return Foresight("allowed", "allowed")

    def plan(self, session: Session, action: str, type: str) -> Plan:
        self._ask(f"plan {action}")
        return Plan("never" if action in self.no else "always")

    def allowed(self, session: Session, checks: Sequence[Check]) -> Sequence[bool]:
        self._ask(f"allowed {' '.join(sorted({action for action, _ in checks}))}")
        return [action not in self.no for action, _ in checks]

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        self.barrier.wait()
        if self.down:
            raise errors.Unavailable("it does not answer")


def test_what_a_page_asks_is_asked_at_the_same_time() -> None:
    decider = Decider(meet=3)
    look = Look(decider, ALICE)

    def build() -> tuple[object, ...]:
        allowed = look.allowed(ALICE, [("get", POOL)]), look.authorize(ALICE, "list", POOL).allowed
        return *allowed, look.plan(ALICE, "get", "compute-pool").kind, look.foresee(ALICE, "create", OTHER).verdict

    assert look.run(build) == ([True], True, "always", "allowed")
    assert sorted(decider.asked) == ["allowed get list", "foresee create", "plan get"]
    assert look.run(build) == ([True], True, "always", "allowed")
    assert len(decider.asked) == 3


def test_what_depends_on_an_answer_is_asked_with_the_next() -> None:
    decider = Decider("second")
    look = Look(decider, ALICE)

    def build() -> bool:
        if look.plan(ALICE, "first", "compute-pool").kind == "never":
            return False
        return look.allowed(ALICE, [("second", POOL)])[0] or look.allowed(ALICE, [("third", POOL)])[0]

    assert look.run(build)
    assert decider.asked == ["plan first", "allowed second", "allowed third"]


def test_what_was_made_on_a_guess_is_never_shown() -> None:
    look = Look(Decider("get"), ALICE)
    seen: list[tuple[bool, bool]] = []

    def build() -> bool:
        shown = look.allowed(ALICE, [("get", POOL)])[0]
        seen.append((shown, look.guessing))
        return shown

    assert look.run(build) is False
    assert seen == [(True, True), (False, False)]


def test_what_goes_wrong_on_a_guess_is_no_fault() -> None:
    look = Look(Decider(), ALICE)

    def build() -> str:
        rows = ["pool_1"] if look.plan(ALICE, "get", "compute-pool").kind == "always" else []
        return rows[0]

    assert look.run(build) == "pool_1"

    def wrong() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        look.run(wrong)


def test_of_a_no_the_reason_is_asked_for_once_and_only_when_nothing_is_guessed() -> None:
    decider = Decider("get")
    look = Look(decider, ALICE)

    def build() -> str:
        look.allowed(ALICE, [("list", POOL)])
        decided = look.authorize(ALICE, "get", POOL)
        look.authorize(ALICE, "get", POOL)
        look.allowed(ALICE, [("after", POOL)])
        return decided.reason

    assert look.run(build) == "MFA_REQUIRED"
    assert decider.asked == ["allowed after get list", "authorize get"]
    again = Decider("get")
    look = Look(again, ALICE)
    assert look.allowed(ALICE, [("get", POOL)]) == [False]
    assert look.run(build) == "MFA_REQUIRED"
    assert again.asked == ["allowed get", "allowed list", "authorize get", "allowed after"]


def test_of_many_things_a_plan_is_asked() -> None:
    decider = Decider()
    look = Look(decider, ALICE)
    assert look.run(lambda: look.allowed(ALICE, [("get", one) for one in THINGS])) == [True] * len(THINGS)
    assert decider.asked == ["plan get"]


def test_without_a_run_nothing_is_guessed() -> None:
    look = Look(Decider("get"), ALICE)
    assert look.allowed(ALICE, [("get", POOL)]) == [False]
    assert look.plan(ALICE, "list", "compute-pool") == Plan("always")
    assert not look.may_some("get", "compute-pool")


def test_who_gave_no_answer_is_not_asked_again() -> None:
    decider = Decider()
    decider.down = True
    look = Look(decider, ALICE)
    for _ in range(2):
        with pytest.raises(errors.Unavailable):
            look.run(lambda: look.allowed(ALICE, [("get", POOL)]))
    assert decider.asked == ["allowed get"]


def test_a_page_gives_up_on_who_takes_too_long_or_is_asked_without_end() -> None:
    now = [0.0]
    slow = Look(Decider(), ALICE, lambda: now[0])

    def build() -> None:
        now[0] += PATIENCE_S / 2 + 1
        slow.allowed(ALICE, [(f"get {now[0]}", POOL)])

    with pytest.raises(errors.Unavailable, match="too long"):
        slow.run(build)
    endless, count = Look(decider := Decider(), ALICE), iter(range(100))
    with pytest.raises(errors.Unavailable, match="asks more"):
        endless.run(lambda: endless.allowed(ALICE, [(f"get {next(count)}", POOL)]))
    assert len(decider.asked) == GOES
