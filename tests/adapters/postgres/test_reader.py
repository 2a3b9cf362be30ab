"""Readers never skip (architecture.md §2): holes are waited for until they are proved empty."""

import random
import time
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from eventsourcing.persistence import MapperDeserialisationError
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.postgres import reader
from adapters.postgres.reader import Tail

INSERT = """
INSERT INTO stored_events (originator_id, originator_version, topic, state)
VALUES (%s, %s, 'site.renamed.1', %s) RETURNING notification_id
"""
STATE = (
    b'{"id":"e","part":{"append":"e","index":0,"count":1},"tenants":[],"meta":{"actor":"a"},'
    b'"data":{"type":"site.renamed.1","name":"a","former":"b","ownerTenantId":"r"}}'
)


class Writer:
    """A transaction of its own, which takes a position and ends when the test says so."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn)

    def insert(self, stream: str, version: int = 1, state: bytes = STATE) -> int:
        row = self.connection.execute(INSERT, (stream, version, state)).fetchone()
        assert row is not None
        return int(row[0])

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


@pytest.fixture
def writers(database: str) -> Iterator[list[Writer]]:
    made = [Writer(database) for _ in range(3)]
    yield made
    for writer in made:
        writer.connection.close()


def start(connection: psycopg.Connection[Any]) -> int:
    """A position after which everything is this test's."""
    sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM stored_events_position"
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])


def positions(tail: Tail, connection: psycopg.Connection[Any], limit: int = 500) -> list[int]:
    return [recorded.position for recorded in tail.read(connection, limit)]


def test_a_writer_held_open_across_later_commits_is_waited_for(
    writers: list[Writer], connection: psycopg.Connection[Any]
) -> None:
    slow, quick, _ = writers
    tail = Tail(start(connection))
    first = slow.insert("site_a")
    second = quick.insert("site_b")
    quick.commit()
    third = quick.insert("site_c")
    quick.commit()
    assert [positions(tail, connection) for _ in range(3)] == [[], [], []]
    assert tail.held_open
    assert tail.hole_age > 0
    slow.commit()
    assert positions(tail, connection) == [first, second, third]
    assert tail.hole_age == 0


def test_a_position_that_was_rolled_back_is_passed_once_its_writer_ended(
    writers: list[Writer], connection: psycopg.Connection[Any]
) -> None:
    slow, quick, _ = writers
    tail = Tail(start(connection))
    slow.insert("site_a")
    second = quick.insert("site_b")
    quick.commit()
    assert positions(tail, connection) == []
    slow.rollback()
    assert positions(tail, connection) == [second]


def test_a_hole_left_by_a_writer_that_is_gone_costs_one_more_look(
    writers: list[Writer], connection: psycopg.Connection[Any]
) -> None:
    slow, quick, _ = writers
    tail = Tail(start(connection))
    slow.insert("site_a")
    slow.rollback()
    second = quick.insert("site_b")
    quick.commit()
    assert positions(tail, connection) == []
    assert not tail.held_open
    assert positions(tail, connection) == [second]


def test_one_look_proves_all_the_holes_of_the_past(writers: list[Writer], connection: psycopg.Connection[Any]) -> None:
    slow, quick, _ = writers
    tail, kept = Tail(start(connection)), []
    for n in range(20):
        slow.insert(f"site_a{n}")
        slow.rollback()
        kept.append(quick.insert(f"site_b{n}"))
        quick.commit()
    assert [positions(tail, connection), positions(tail, connection)] == [[], kept]


def test_a_writer_that_came_after_the_hole_holds_nobody_up(
    writers: list[Writer], connection: psycopg.Connection[Any]
) -> None:
    early, quick, late = writers
    tail = Tail(start(connection))
    early.insert("site_a")
    second = quick.insert("site_b")
    quick.commit()
    assert positions(tail, connection) == []
    late.insert("site_c")
    early.rollback()
    assert positions(tail, connection) == [second]


def test_a_session_that_is_idle_in_a_transaction_without_writing_holds_nobody_up(
    writers: list[Writer], connection: psycopg.Connection[Any]
) -> None:
    slow, quick, idle = writers
    idle.connection.execute("SELECT count(*) FROM stored_events")
    tail = Tail(start(connection))
    slow.insert("site_a")
    slow.rollback()
    second = quick.insert("site_b")
    quick.commit()
    assert [positions(tail, connection), positions(tail, connection)] == [[], [second]]


def test_a_hole_that_stays_open_is_logged_once_with_the_backend_that_holds_it(
    writers: list[Writer],
    connection: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "OPEN_TOO_LONG_S", 0.0)
    slow, quick, _ = writers
    tail = Tail(start(connection))
    slow.insert("site_a")
    quick.insert("site_b")
    quick.commit()
    for _ in range(4):
        assert positions(tail, connection) == []
    (line,) = (record.getMessage() for record in caplog.records if record.name == reader.__name__)
    assert str(slow.connection.info.backend_pid) in line


def test_what_can_be_read_is_given_out_before_an_event_that_cannot(
    writers: list[Writer], connection: psycopg.Connection[Any]
) -> None:
    writer, *_ = writers
    tail = Tail(start(connection))
    first = writer.insert("site_a")
    writer.insert("site_b", state=b"{}")
    writer.commit()
    assert positions(tail, connection) == [first]
    for _ in range(2):
        with pytest.raises(MapperDeserialisationError, match="site_b version 1"):
            tail.read(connection)


def test_a_reader_beside_many_writers_misses_nothing_and_doubles_nothing(database: str) -> None:
    """Eight writers for ten seconds, a third of them rolling back, with pauses between position and commit."""
    until, committed = time.monotonic() + 10, []
    done = Event()

    def write(seed: int) -> None:
        dice = random.Random(seed)
        with psycopg.connect(database) as connection:
            for version in range(1, 100_000):
                if time.monotonic() > until:
                    return
                row = connection.execute(INSERT, (f"site_{seed}", version, STATE)).fetchone()
                assert row is not None
                connection.execute("SELECT pg_sleep(%s)", (dice.choice((0, 0, 0.002, 0.01)),))
                if dice.random() < 0.33:
                    connection.rollback()
                else:
                    connection.commit()
                    committed.append(row[0])

    seen: list[int] = []

    def read(position: int) -> None:
        tail = Tail(position)
        with psycopg.connect(database, autocommit=True) as connection:
            while True:
                finished = done.is_set()
                seen.extend(batch := positions(tail, connection, limit=7))
                if finished and not batch and not tail.hole_age:
                    return

    with psycopg.connect(database, autocommit=True) as connection:
        begin = start(connection)
    threads = [Thread(target=write, args=(seed,)) for seed in range(8)]
    reader = Thread(target=read, args=(begin,))
    for thread in (*threads, reader):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()
    assert len(committed) > 200
    assert seen == sorted(committed)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_rule_of_holes_against_a_model(migrated: str, data: st.DataObject) -> None:
    """Whatever writers and readers do in whatever order: what was read is a beginning of the committed order."""
    writers = [Writer(migrated) for _ in range(3)]
    with psycopg.connect(migrated, autocommit=True) as connection:
        connection.execute("DELETE FROM stored_events")
        tail = Tail(start(connection))
        taken: dict[int, list[int]] = {0: [], 1: [], 2: []}
        committed: list[int] = []
        seen: list[int] = []
        for step in range(data.draw(st.integers(3, 25))):
            who = data.draw(st.integers(0, 2))
            act = data.draw(st.sampled_from(("insert", "insert", "commit", "rollback", "read", "read")))
            if act == "insert":
                taken[who].append(writers[who].insert(f"site_{step}"))
            elif act == "read":
                seen += positions(tail, connection, data.draw(st.integers(1, 4)))
                open_before = min((p for t in taken.values() for p in t), default=2**62)
                assert all(p < open_before for p in seen)
            else:
                getattr(writers[who], act)()
                committed += taken[who] if act == "commit" else []
                taken[who] = []
            assert seen == sorted(committed)[: len(seen)]
        for writer in writers:
            writer.rollback()
            writer.connection.close()
        for _ in range(3 + len(committed)):
            seen += positions(tail, connection)
        assert seen == sorted(committed)
