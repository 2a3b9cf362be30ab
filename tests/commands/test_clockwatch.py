"""Deadlines wait while the wall clock cannot be believed (domain.md §5, ClockStep; anchors O34)."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands.controllers import clockwatch
from domain import clock
from domain.event import Fence
from facts import Facts, facts

LEASE = "singleton:reservations"
FENCE = Fence(LEASE, 1)


class Clocks:
    """Both clocks of a machine; each step moves the wall clock by something else than the monotonic one."""

    def __init__(self) -> None:
        self.monotonic_s = 1000.0
        self.wall_ms = 4_000_000_000_000

    def passes(self, seconds: float, step_ms: int = 0) -> None:
        self.monotonic_s += seconds
        self.wall_ms += round(seconds * 1000) + step_ms

    def watch(self) -> clockwatch.Watch:
        return clockwatch.Watch(lambda: self.monotonic_s)


@pytest.mark.parametrize("step_ms", [5_001, -5_001, 86_400_000, -86_400_000])
def test_a_wall_clock_that_steps_by_more_than_five_seconds_is_found(step_ms: int) -> None:
    clocks = Clocks()
    watch = clocks.watch()
    watch.look(lambda: clocks.wall_ms)
    clocks.passes(0.03, step_ms)
    watch.look(lambda: clocks.wall_ms)
    assert watch.unrecorded == step_ms


@given(st.lists(st.tuples(st.floats(0, 7_200), st.integers(-4_990, 4_990)), max_size=20))
def test_time_that_passes_is_no_step_however_long_nobody_looked(spans: list[tuple[float, int]]) -> None:
    clocks = Clocks()
    watch = clocks.watch()
    for seconds, drift_ms in spans:
        watch.look(lambda: clocks.wall_ms)
        clocks.passes(seconds, drift_ms)
    watch.look(lambda: clocks.wall_ms)
    assert watch.unrecorded is None


def test_a_slow_answer_of_the_database_is_no_step() -> None:
    """The wall clock may have been read at any instant of the twenty seconds that the answer took."""
    clocks = Clocks()
    watch = clocks.watch()
    watch.look(lambda: clocks.wall_ms)

    def slow() -> int:
        clocks.passes(20)
        return clocks.wall_ms - 20_000

    watch.look(slow)
    watch.look(lambda: clocks.wall_ms)
    assert watch.unrecorded is None


class Wall:
    """A store whose clock is ours."""

    def __init__(self, facts: Facts, clocks: Clocks) -> None:
        self._store, self._clocks = facts.store, clocks

    def now(self) -> int:
        return self._clocks.wall_ms

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


@pytest.fixture
def log(database: str) -> Iterator[Facts]:
    with facts(database) as made:
        made.rows("INSERT INTO coordination_leases VALUES (%s, 'me', 1, 0) RETURNING 1", LEASE)
        yield made


def held(log: Facts, clocks: Clocks, watch: clockwatch.Watch) -> bool:
    return clockwatch.held(Wall(log, clocks), watch, FENCE)  # type: ignore[arg-type]


def names(log: Facts) -> list[str]:
    return [type(one.event).__name__ for one in log.store.history(clock.stream(LEASE))]


def test_deadlines_wait_until_the_clocks_agreed_for_a_minute(log: Facts) -> None:
    clocks = Clocks()
    watch = clocks.watch()
    assert not held(log, clocks, watch)
    clocks.passes(1, 86_400_000)
    assert held(log, clocks, watch)
    clocks.passes(59.9)
    assert held(log, clocks, watch)
    clocks.passes(0.2)
    assert not held(log, clocks, watch)
    assert names(log) == ["Stepped", "Trusted"]


def test_a_step_back_begins_the_minute_anew(log: Facts) -> None:
    clocks = Clocks()
    watch = clocks.watch()
    held(log, clocks, watch)
    for step_ms in (86_400_000, -86_400_000):
        clocks.passes(50, step_ms)
        assert held(log, clocks, watch)
    clocks.passes(59)
    assert held(log, clocks, watch)
    clocks.passes(1.1)
    assert not held(log, clocks, watch)


def test_an_operator_may_say_that_it_is_right(log: Facts) -> None:
    clocks = Clocks()
    watch = clocks.watch()
    held(log, clocks, watch)
    clocks.passes(1, -7_200_000)
    assert held(log, clocks, watch)
    log.append(clock.stream(LEASE), clock.Trusted("operator", clocks.wall_ms))
    assert not held(log, clocks, watch)


def test_who_takes_over_waits_as_well(log: Facts) -> None:
    """The step is in the log; the new holder did not see it, and counts its own minute."""
    clocks = Clocks()
    first, second = clocks.watch(), clocks.watch()
    held(log, clocks, first)
    clocks.passes(1, 7_200_000)
    assert held(log, clocks, first)
    clocks.passes(30)
    assert held(log, clocks, second)
    clocks.passes(59)
    assert held(log, clocks, second)
    clocks.passes(2)
    assert not held(log, clocks, second)
