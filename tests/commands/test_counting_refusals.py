"""Refusals are on record: sixty a minute of one identity one by one, the rest as a number."""

from typing import Any

from commands.gatekeeper import Gatekeeper
from domain import admission
from domain.access import Session
from domain.event import Append


class Log:
    """A store of which a gatekeeper needs the clock and the end."""

    def __init__(self) -> None:
        self.clock = 0
        self.events: list[Any] = []

    def now(self) -> int:
        return self.clock

    def append(self, append: Append) -> int:
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
