"""Snapshots shorten a load and change nothing else."""

from collections.abc import Iterator

import msgspec
import psycopg
import pytest

from adapters.postgres import snapshots
from adapters.postgres.store import EventStore
from domain import node, registry
from facts import Facts, differences, facts, new_id
from projections import table

EVERY = registry.KINDS["node"].snapshot_every


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with facts(database, size=4) as made:
        yield made


@pytest.fixture
def long(given: Facts) -> str:
    """A node with two and a half times as many events as a snapshot waits for."""
    node_id, _ = given.node(given.pool())
    for generation in range(1, 2 * EVERY + EVERY // 2 - 3):
        given.append(node_id, node.SpecChanged(generation))
    return node_id


def kept(given: Facts, stream: str) -> list[int]:
    sql = "SELECT originator_version FROM stream_snapshots WHERE originator_id = %s ORDER BY 1"
    return [version for (version,) in given.rows(sql, stream)]


def anew(given: Facts) -> EventStore:
    """A store that remembers nothing, as after a restart."""
    return EventStore(given.connections, table.INLINE, "root", new_id)


def test_one_is_taken_each_time_an_append_passes_a_multiple(given: Facts, long: str) -> None:
    assert kept(given, long) == [EVERY, 2 * EVERY]


def test_short_kinds_of_streams_have_none(given: Facts) -> None:
    assert registry.kind("rsv_x").snapshot_every == 0
    given.site()
    assert given.rows("SELECT * FROM stream_snapshots") == []


@pytest.mark.parametrize("version", [1, EVERY - 1, EVERY, EVERY + 1, 2 * EVERY, 2 * EVERY + 30])
def test_a_load_at_any_version_is_what_the_whole_stream_folds_to(given: Facts, long: str, version: int) -> None:
    history = given.store.history(long)
    state = registry.fold_recorded(long, history[:version])
    at = anew(given).load(long, version)
    assert (at.state, at.version, at.position) == (state, version, history[version - 1].position)
    assert anew(given).load_as_of(long, at.position) == at


def test_a_load_goes_on_from_the_snapshot(given: Facts, long: str, connection: psycopg.Connection) -> None:
    """Without the events before it a store that needs them would fail."""
    whole = anew(given).load(long)
    connection.execute(
        "DELETE FROM stored_events WHERE originator_id = %s AND originator_version <= %s", (long, 2 * EVERY)
    )
    assert anew(given).load(long) == whole


def test_one_of_another_schema_is_ignored_and_gives_way(
    given: Facts, long: str, connection: psycopg.Connection
) -> None:
    whole = anew(given).load(long)
    connection.execute("UPDATE stream_snapshots SET schema = 'older', state = '{}'")
    assert anew(given).load(long) == whole
    assert kept(given, long) == [whole.version]
    assert given.rows("SELECT DISTINCT schema FROM stream_snapshots") == [(snapshots.schema(),)]


def test_before_a_stream_began_there_was_nothing_of_it(given: Facts, long: str) -> None:
    first = given.store.history(long)[0].position
    assert given.store.load_as_of(long, first - 1).version == 0


def test_audit_diff_names_a_snapshot_that_is_not_what_the_log_gives(
    given: Facts, long: str, database: str, connection: psycopg.Connection
) -> None:
    assert differences(database) == []
    forged = msgspec.json.encode(node.State(name="forged"))
    connection.execute("UPDATE stream_snapshots SET state = %s WHERE originator_version = %s", (forged, EVERY))
    (found,) = differences(database)
    assert f"{long} {EVERY}" in found


@pytest.mark.parametrize("forged", ["position = position - 50", "event_id = 'evt_x'", "correlation = 'req_x'"])
def test_audit_diff_looks_at_all_of_a_snapshot(
    given: Facts, long: str, database: str, connection: psycopg.Connection, forged: str
) -> None:
    connection.execute(f"UPDATE stream_snapshots SET {forged} WHERE originator_version = {EVERY}".encode())
    (found,) = differences(database)
    assert f"{long} {EVERY}" in found


def test_one_that_cannot_be_read_is_as_good_as_none(given: Facts, long: str, connection: psycopg.Connection) -> None:
    whole = anew(given).load(long)
    connection.execute("UPDATE stream_snapshots SET state = '{\"nonsense\":'")
    assert anew(given).load(long) == whole


def test_an_append_whose_snapshot_cannot_be_taken_stands(
    given: Facts, long: str, connection: psycopg.Connection
) -> None:
    connection.execute("ALTER TABLE stream_snapshots RENAME TO away")
    try:
        for generation in range(EVERY):
            given.append(long, node.SpecChanged(generation))
    finally:
        connection.execute("ALTER TABLE away RENAME TO stream_snapshots")
    assert len(given.store.history(long)) == given.store.load(long).version
