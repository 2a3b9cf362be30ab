"""Silence becomes loss by what a watcher saw on its own clock, by nothing else (domain.md §5)."""

from hypothesis import given
from hypothesis import strategies as st

from commands.controllers.liveness import Silence, Watch


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def looks(watch: Watch, clock: Clock, seconds: float, every: float = 1.0, **silent: Silence) -> list[str]:
    """Whom the looks of so many seconds declare lost."""
    lost: list[str] = []
    for _ in range(int(seconds / every)):
        clock.now += every
        lost += watch.look(silent)
    return lost


def test_a_node_is_lost_once_it_was_silent_for_the_whole_time() -> None:
    watch = Watch(clock := Clock())
    assert looks(watch, clock, 300, n1=Silence(1, 300)) == []
    assert looks(watch, clock, 1, n1=Silence(1, 300)) == ["n1"]


def test_a_node_that_came_back_begins_anew_with_its_next_silence() -> None:
    watch = Watch(clock := Clock())
    assert looks(watch, clock, 299, n1=Silence(1, 300)) == []
    assert looks(watch, clock, 1) == []
    assert looks(watch, clock, 300, n1=Silence(2, 300)) == []
    assert looks(watch, clock, 1, n1=Silence(2, 300)) == ["n1"]


def test_another_session_fallen_silent_between_two_looks_is_another_silence() -> None:
    watch = Watch(clock := Clock())
    looks(watch, clock, 299, n1=Silence(1, 300))
    assert looks(watch, clock, 299, n1=Silence(2, 300)) == []


def test_a_watcher_that_was_not_there_starts_over() -> None:
    """A pause of the process or an outage of the database expires nobody (O34)."""
    watch = Watch(clock := Clock())
    looks(watch, clock, 299, n1=Silence(1, 300))
    clock.now += 10_000
    assert looks(watch, clock, 299, n1=Silence(1, 300)) == []
    watch.start_over()
    assert looks(watch, clock, 300, n1=Silence(1, 300)) == []
    assert looks(watch, clock, 2, n1=Silence(1, 300)) == ["n1", "n1"]


def test_each_node_has_the_time_of_its_pool() -> None:
    watch = Watch(clock := Clock())
    assert set(looks(watch, clock, 20, n1=Silence(1, 10), n2=Silence(1, 300))) == {"n1"}


@given(st.lists(st.tuples(st.floats(0.1, 40), st.booleans()), max_size=60))
def test_nobody_is_lost_without_a_whole_time_of_close_looks_at_one_silence(history: list[tuple[float, bool]]) -> None:
    """Against a naive model: looks that never came more than a quarter of `lostAfter` apart."""
    watch = Watch(clock := Clock())
    seen: list[float] = []
    for gap, silent in history:
        clock.now += gap
        if gap > 5 or not silent:
            seen = []
        seen = [*seen, clock.now] if silent else []
        lost = watch.look({"n1": Silence(1, 20)} if silent else {})
        assert (lost == ["n1"]) == (bool(seen) and clock.now - seen[0] >= 20)
