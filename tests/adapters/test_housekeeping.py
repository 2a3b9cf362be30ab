"""One thread does the small regular work; the trouble of one job is its own."""

import logging
from threading import Event

import psycopg
import pytest

from adapters.housekeeping import REST_S, Housekeeping, Job
from domain import errors


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_each_job_runs_when_it_is_due() -> None:
    ran: list[str] = []
    clock = Clock()
    jobs = (Job("often", 0, lambda: ran.append("often")), Job("seldom", 1, lambda: ran.append("seldom")))
    keeping = Housekeeping(*jobs, monotonic=clock)
    for _ in range(3):
        keeping.round()
        clock.now += 0.5
    assert ran == ["often", "seldom", "often", "often", "seldom"]


@pytest.mark.parametrize("fault", [psycopg.OperationalError("gone"), errors.Unavailable("later"), KeyError("a bug")])
def test_the_trouble_of_one_is_logged_and_stops_neither_the_others_nor_itself(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []
    clock = Clock()

    def fails() -> None:
        ran.append("fails")
        raise fault

    keeping = Housekeeping(Job("the first", 0, fails, fails), Job("b", 0, lambda: ran.append("b")), monotonic=clock)
    keeping.round()
    keeping.round()
    assert ran == ["fails", "b", "b"], "it rests after trouble"
    clock.now += REST_S
    keeping.round()
    assert ran[3:] == ["fails", "b"]
    keeping.start()
    keeping.stop()
    levels = {record.levelno for record in caplog.records if "the first" in record.getMessage()}
    assert levels == {logging.ERROR if isinstance(fault, KeyError) else logging.WARNING}


def test_a_clean_stop_runs_what_is_due_then_once() -> None:
    ran: list[str] = []
    once = Event()
    keeping = Housekeeping(Job("a", 0, once.set, at_stop=lambda: ran.append("stop")))
    keeping.start()
    assert once.wait(5)
    keeping.stop()
    assert ran == ["stop"]
