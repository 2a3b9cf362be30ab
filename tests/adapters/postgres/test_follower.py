"""The one reader of a process and those it serves."""

import time
from collections.abc import Iterator, Sequence
from threading import Event

import psycopg
import pytest
from eventsourcing.persistence import MapperDeserialisationError

from adapters.postgres import follower
from adapters.postgres.follower import Follower
from domain import site
from domain.event import Recorded
from facts import Facts, facts

INSERT = "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES (%s, 1, %s, %s)"


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with facts(database, size=4) as made:
        yield made


def last(given: Facts) -> int:
    ((position,),) = given.rows("SELECT max(notification_id) FROM stored_events")
    return int(position)


def test_each_consumer_gets_all_of_the_log_in_order(given: Facts) -> None:
    one: list[Recorded] = []
    other: list[Recorded] = []
    given.site()
    following = Follower(given.connections, [one.extend, other.extend])
    following.catch_up()
    given.pool()
    following.catch_up()
    assert one == other
    assert following.position == last(given)


def test_the_start_reads_to_where_the_log_ended_then_however_fast_others_write(given: Facts) -> None:
    def writing(batch: Sequence[Recorded]) -> None:
        given.site()

    given.site()
    end = last(given)
    following = Follower(given.connections, [writing])
    following.catch_up()
    assert end <= following.position < last(given)


def test_whoever_waits_for_a_position_is_woken_when_all_have_it(given: Facts) -> None:
    seen: list[Recorded] = []
    following = Follower(given.connections, [seen.extend])
    following.start()
    try:
        given.site()
        assert following.wait(last(given), 5)
        assert seen
        assert not following.wait(last(given) + 1, 0)
    finally:
        following.stop()


def test_while_nothing_is_new_it_says_so(given: Facts) -> None:
    rested = Event()
    following = Follower(given.connections, [], at_rest=rested.set)
    following.start()
    try:
        assert rested.wait(5)
    finally:
        following.stop()


def test_a_consumer_that_fails_for_good_is_left_out_and_named_and_the_others_go_on(given: Facts) -> None:
    def broken(batch: Sequence[Recorded]) -> None:
        raise KeyError("no such node")

    seen: list[Recorded] = []
    following = Follower(given.connections, [broken, seen.extend])
    for _ in range(2):
        given.site()
        following.catch_up()
    assert len(seen) == 2
    assert [name.rpartition(".")[2] for name in following.failures] == ["broken"]
    assert isinstance(following.failure, KeyError)


def test_an_event_that_cannot_be_read_stops_the_start_with_an_error_that_names_it(
    given: Facts, connection: psycopg.Connection
) -> None:
    seen: list[Recorded] = []
    given.site()
    connection.execute(
        INSERT,
        (
            "site_x",
            "site.sunk.9",
            b'{"id":"e","part":{"append":"e","index":0,"count":1},"tenants":[],"meta":{"actor":"a"},"data":{}}',
        ),
    )
    following = Follower(given.connections, [seen.extend])
    with pytest.raises(MapperDeserialisationError, match=r"site\.sunk\.9 of site_x"):
        following.catch_up()
    assert len(seen) == 1


def test_a_follower_that_meets_such_an_event_later_says_so_and_goes_on_once_the_row_is_mended(
    given: Facts, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(follower, "UNREADABLE_S", 0.01)
    following = Follower(given.connections, [])
    connection.execute(INSERT, ("site_x", "site.sunk.9", b"{}"))
    end = last(given)
    following.start()
    try:
        deadline = time.monotonic() + 5
        while not following.failures:
            assert time.monotonic() < deadline
        assert isinstance(following.failures["the log"], MapperDeserialisationError)
        assert f"position {end}" in str(following.failure)
        connection.execute("DELETE FROM stored_events WHERE originator_id = 'site_x'")
        given.site()
        assert following.wait(last(given), 5)
        assert following.failures == {}
    finally:
        following.stop()
    assert len([line for line in caplog.messages if "site.sunk.9" in line]) == 1


def test_a_consumer_that_meets_an_unreadable_event_further_on_gets_its_batch_again(given: Facts) -> None:
    """A read model that catches up by itself reads ahead; it is not to be left out for ever."""
    given.site()
    tries: list[int] = []

    def reading_ahead(batch: Sequence[Recorded]) -> None:
        tries.append(len(batch))
        if len(tries) == 1:
            raise MapperDeserialisationError("position 9")

    following = Follower(given.connections, [reading_ahead])
    with pytest.raises(MapperDeserialisationError):
        following.catch_up()
    following.catch_up()
    assert (tries, following.failures, following.position) == ([1, 1], {}, last(given))


def test_a_hole_that_a_writer_keeps_open_does_not_keep_a_process_from_starting(
    given: Facts, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "HOLE_S", 0.05)
    given.site()
    before = last(given)
    with psycopg.connect(database) as writer:
        writer.execute(INSERT, ("site_slow", "site.renamed.1", b"{}"))
        given.site()
        following = Follower(given.connections, [], before - 1)
        following.catch_up()
        assert following.position == before
        assert following.hole_age > 0
        writer.rollback()
    following.catch_up()
    assert following.position == last(given)
    assert following.hole_age == 0


def test_one_that_is_behind_knows_how_far_the_log_goes(given: Facts) -> None:
    """At each batch but the last it is further than what was read."""
    ends: list[int] = []
    following = Follower(given.connections, [lambda batch: ends.append(following.end - batch[-1].position)])
    site_id = given.site()
    given.append(site_id, *(site.Renamed(f"s{n}", "s", "root") for n in range(600)))
    following.start()
    try:
        assert following.wait(last(given), 5)
    finally:
        following.stop()
    assert ends == [101, 0]
    assert following.end == last(given)


def test_lag_is_the_time_since_it_last_saw_the_logs_end(given: Facts) -> None:
    given.site()
    following = Follower(given.connections, [])
    before = following.lag_s
    following.catch_up()
    assert following.lag_s >= 0
    assert following.lag_s < before + 60
