"""Session leases, by a clock that the test turns."""

from fake_plane import Clock

from adapters.agent.leases import Leases


def leases():
    clock = Clock()
    made = Leases(clock, 40)
    assert made.lapsed() == []
    return clock, made


def tick(clock, made, seconds, crowded=False):
    """Look once a second, as the gateway does; the leases that lapsed."""
    over = []
    for _ in range(seconds):
        clock.seconds += 1
        over += [lease.node_id for lease in made.lapsed(crowded)]
    return over


def test_a_lease_lapses_after_its_ttl_and_not_before():
    clock, made = leases()
    made.grant("n", 1, "peer")
    assert tick(clock, made, 39) == []
    assert tick(clock, made, 1) == ["n"]
    assert len(made) == 0


def test_a_renewed_lease_begins_anew():
    clock, made = leases()
    lease, _ = made.grant("n", 1, "peer")
    tick(clock, made, 30)
    made.renew(lease)
    assert tick(clock, made, 39) == []


def test_the_newer_epoch_takes_the_lease_and_the_older_cannot_drop_it():
    _, made = leases()
    first, _ = made.grant("n", 1, "one")
    second, superseded = made.grant("n", 2, "two")
    assert superseded == "one"
    assert not made.drop(first)
    assert made.peer("n") == "two"
    assert made.drop(second)


def test_an_older_epoch_that_comes_late_gets_nothing():
    _, made = leases()
    made.grant("n", 2, "two")
    assert made.grant("n", 1, "one") == (None, None)
    assert made.peer("n") == "two"


def test_after_standing_still_the_process_gives_everybody_a_fresh_ttl():
    clock, made = leases()
    made.grant("n", 1, "peer")
    clock.seconds += 3_600
    assert made.lapsed() == []
    assert tick(clock, made, 39) == []
    assert tick(clock, made, 1) == ["n"]


def test_whoever_is_not_here_is_not_judged_while_agents_are_turned_away():
    clock, made = leases()
    made.grant("gone", 1, None)
    made.grant("silent", 1, "peer")
    tick(clock, made, 30)
    clock.seconds += 1
    assert made.lapsed(crowded=True) == []
    assert tick(clock, made, 39) == ["silent"]
    assert tick(clock, made, 1) == ["gone"]


def test_a_crowd_that_never_ends_puts_off_a_lease_by_three_ttl_at_most():
    clock, made = leases()
    made.grant("gone", 1, None)
    assert tick(clock, made, 159, crowded=True) == []
    assert tick(clock, made, 1, crowded=True) == ["gone"]
