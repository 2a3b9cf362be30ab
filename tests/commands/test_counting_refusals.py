"""Refusals are on record: sixty a minute of one identity one by one, the rest as a number."""

from typing import Any

import pytest

from commands.gatekeeper import Gatekeeper
from domain import admission, errors
from domain.access import Session
from domain.event import Append


class Log:
    """A store of which a gatekeeper needs the clock and the end."""

    def __init__(self) -> None:
        self.clock = 0
        self.events: list[Any] = []
        self.down = False

    def now(self) -> int:
        return self.clock

    def append(self, append: Append) -> int:
        if self.down:
            raise errors.Unavailable("the database cannot be reached")
        self.events += [event for change in append.changes for event in change.events]
        return len(self.events)


def session(name: str) -> Session:
    return Session("acme", name, "user", "s", "api-key")


def test_beyond_sixty_a_minute_they_are_counted_and_the_count_is_written_when_the_minute_is_over() -> None:
    log: Any = Log()
    keeper = Gatekeeper(log, log, lambda prefix: f"{prefix}_1")
    for _ in range(100):
        keeper.refused(session("alice"), "compute:sites:list", "x", "no-grant", "r", "")
    keeper.refused(session("bob"), "compute:sites:list", "x", "no-grant", "r", "")
    assert len(log.events) == 61, "who is within bounds is listed, whatever others do"
    log.clock = 60_000
    keeper.count_refusals(log.clock)
    keeper.count_refusals(log.clock)
    counted = log.events[61:]
    assert [(type(e), e.caller.identity_id, e.count) for e in counted] == [(admission.RefusalsCounted, "alice", 40)]
    keeper.refused(session("alice"), "compute:sites:list", "x", "no-grant", "r", "")
    assert isinstance(log.events[-1], admission.Refused)


def test_what_an_outage_kept_from_being_counted_is_counted_later_once() -> None:
    log: Any = Log()
    keeper = Gatekeeper(log, log, lambda prefix: f"{prefix}_1")
    for _ in range(70):
        keeper.refused(session("alice"), "compute:sites:list", "x", "no-grant", "r", "")
    log.clock, log.down = 60_000, True
    with pytest.raises(errors.Unavailable):
        keeper.count_refusals(log.clock)
    log.down = False
    keeper.count_refusals(log.clock)
    keeper.count_refusals(log.clock)
    assert [e.count for e in log.events[60:]] == [10]


def test_the_refusals_of_others_do_not_wait_for_a_callers_command() -> None:
    """Counting is the housekeeping's: a refusal records itself and nothing else."""
    log: Any = Log()
    keeper = Gatekeeper(log, log, lambda prefix: f"{prefix}_1")
    for _ in range(70):
        keeper.refused(session("alice"), "compute:sites:list", "x", "no-grant", "r", "")
    log.clock = 60_000
    keeper.refused(session("bob"), "compute:sites:list", "x", "no-grant", "r", "")
    assert [type(e) for e in log.events[60:]] == [admission.Refused]


def test_a_refusal_that_comes_while_its_minute_is_counted_is_counted_too() -> None:
    log: Any = Log()
    keeper = Gatekeeper(log, log, lambda prefix: f"{prefix}_1")

    def refuse() -> None:
        keeper.refused(session("alice"), "compute:sites:list", "x", "no-grant", "r", "")

    for _ in range(70):
        refuse()
    write = log.append

    def late(append: Append) -> int:
        log.append = write
        refuse()
        return int(write(append))

    log.append = late
    keeper.count_refusals(60_000)
    keeper.count_refusals(60_000)
    assert sum(e.count for e in log.events[60:]) == 11
