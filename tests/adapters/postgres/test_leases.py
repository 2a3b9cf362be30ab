"""Coordination leases: expired by each rival's own clock, fenced by their epoch (domain.md §5)."""

from collections.abc import Iterator

import pytest

from adapters.postgres.leases import LATE_S, LOOK_S, TTL_S, Lease
from adapters.postgres.pool import Pool, pool
from domain import errors
from domain import pool as pools
from domain.event import Fence
from facts import Facts, at_once


class Clock:
    """A monotonic clock that goes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def connections(database: str) -> Iterator[Pool]:
    with pool(database, 3) as made:
        yield made


def rivals(connections: Pool) -> tuple[Lease, Lease, Clock]:
    clock = Clock()
    return Lease(connections, "pool:1", "a", clock), Lease(connections, "pool:1", "b", clock), clock


def look(lease: Lease, clock: Clock, seconds: float) -> bool:
    """Look as often as one must, for so many seconds."""
    for _ in range(round(seconds / LOOK_S)):
        clock.now += LOOK_S
        held = lease.tick()
    return held


def test_the_first_who_asks_has_it_and_others_stand_by(connections: Pool) -> None:
    first, second, _ = rivals(connections)
    assert first.tick()
    assert not second.tick()
    assert (first.fence, second.fence) == (Fence("pool:1", 1), None)


def test_of_two_who_ask_first_at_one_moment_one_has_it_and_neither_fails(connections: Pool) -> None:
    """Two processes started together on a new database: 6 in 2,000 once failed on the lease's second unique index."""
    for n in range(300):
        ones = [Lease(connections, f"pool:{n}", who) for who in "ab"]
        assert sorted(at_once([one.tick for one in ones])) == [False, True]


def test_a_holder_that_beats_is_never_taken_over(connections: Pool) -> None:
    first, second, clock = rivals(connections)
    first.tick()
    for _ in range(40):
        clock.now += LOOK_S
        assert first.tick()
        assert not second.tick()


def test_a_silent_holder_is_taken_over_after_a_whole_ttl_under_a_higher_epoch(connections: Pool) -> None:
    first, second, clock = rivals(connections)
    first.tick()
    second.tick()
    assert not look(second, clock, TTL_S - LOOK_S)
    assert look(second, clock, LOOK_S)
    assert second.fence == Fence("pool:1", 2)


def test_a_late_look_starts_the_ttl_over(connections: Pool) -> None:
    """The rival itself was stopped: that it saw no beat proves nothing."""
    first, second, clock = rivals(connections)
    first.tick()
    second.tick()
    look(second, clock, TTL_S - LOOK_S)
    clock.now += LATE_S + 0.01
    assert not second.tick()
    assert not look(second, clock, TTL_S - LOOK_S)
    assert look(second, clock, LOOK_S)


def test_a_look_that_failed_starts_the_ttl_over(database: str) -> None:
    with pool(database, 1) as one, pool(database, 1) as other:
        clock = Clock()
        first, second = Lease(one, "pool:1", "a", clock), Lease(other, "pool:1", "b", clock)
        first.tick()
        second.tick()
        look(second, clock, TTL_S - LOOK_S)
        clock.now += LOOK_S
        other.close()
        with pytest.raises(Exception, match="closed"):
            second.tick()
        assert second.fence is None
    with pool(database, 1) as again:
        second._pool = again
        assert not look(second, clock, TTL_S - LOOK_S)
        assert look(second, clock, 2 * LOOK_S)


def test_a_holder_that_slept_learns_at_its_next_beat_that_it_lost(connections: Pool) -> None:
    first, second, clock = rivals(connections)
    first.tick()
    second.tick()
    look(second, clock, TTL_S)
    assert first.fence == Fence("pool:1", 1), "it cannot know yet; the fence in its writes does"
    assert not first.tick()
    assert first.fence is None


def test_what_the_old_holder_writes_after_a_takeover_is_refused(connections: Pool) -> None:
    first, second, clock = rivals(connections)
    given = Facts(connections)
    pool_id = given.pool()
    first.tick()
    old = first.fence
    given.append(pool_id, pools.PolicyChanged(pools.Policy()), fence=old)
    second.tick()
    look(second, clock, TTL_S)
    with pytest.raises(errors.Fenced):
        given.append(pool_id, pools.PolicyChanged(pools.Policy()), fence=old)
    given.append(pool_id, pools.PolicyChanged(pools.Policy()), fence=second.fence)


def test_a_lease_handed_back_is_taken_at_the_next_look_under_a_higher_epoch(connections: Pool) -> None:
    first, second, clock = rivals(connections)
    first.tick()
    second.tick()
    first.release()
    assert first.fence is None
    assert look(second, clock, LOOK_S)
    assert second.fence == Fence("pool:1", 2)


def test_a_holder_never_takes_over_itself_under_the_same_epoch(connections: Pool) -> None:
    clock = Clock()
    first = Lease(connections, "pool:1", "a", clock)
    first.tick()
    restarted = Lease(connections, "pool:1", "a", clock)
    restarted.tick()
    assert look(restarted, clock, TTL_S)
    assert restarted.fence == Fence("pool:1", 2)
    assert not first.tick()


def test_however_often_it_is_called_it_asks_the_database_every_eighth_of_the_ttl(connections: Pool) -> None:
    first, _, clock = rivals(connections)
    for _ in range(100):
        first.tick()
        clock.now += LOOK_S / 10
    with connections.connection() as connection:
        row = connection.execute("SELECT beats FROM coordination_leases").fetchone()
    assert row is not None
    assert row[0] <= 10
