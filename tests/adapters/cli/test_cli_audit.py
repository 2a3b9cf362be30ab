"""`audit replay --until`: time only labels, position orders."""

import json
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from adapters.cli import audit_replay
from adapters.cli.audit import replay
from adapters.postgres.mapper import EventMapper
from adapters.postgres.runner import writes_of
from domain import site
from domain.event import Recorded
from facts import META
from facts import write as do
from projections import log_time

READINGS = (100, 100, 90, 130, 120, 131)
"""The clock's readings of six events, which went back twice: the monotonic ones are 100 100 100 130 130 131."""


def write(connection: psycopg.Connection, stream: str, readings: Sequence[int]) -> list[int]:
    """A site created and renamed; returns the positions."""
    positions: list[int] = []
    for version, at in enumerate(readings, start=1):
        created = site.Created("s1", "shared", "root", "eu-north", 1)
        event = created if version == 1 else site.Renamed(f"s{version}", f"s{version - 1}", "root")
        row = EventMapper().to_stored_event(Recorded(stream, version, event, META, f"evt_{version}"))
        found = connection.execute(
            """
            INSERT INTO stored_events (originator_id, originator_version, topic, state, recorded_at)
            VALUES (%s, %s, %s, %s, %s) RETURNING notification_id
            """,
            (stream, version, row.topic, row.state, at),
        ).fetchone()
        assert found is not None
        positions.append(found[0])
    return positions


def label(connection: psycopg.Connection, positions: Sequence[int]) -> None:
    """Let log_time read the first of the events."""
    batch = [
        Recorded("site_1", n, site.Renamed("a", "b", "root"), META, "evt_1", position, READINGS[n])
        for n, position in enumerate(positions)
    ]
    if batch:
        do(connection, writes_of(connection, [log_time.apply(batch)]))


def run(dsn: str, until: str, stream: str = "site_1") -> Result:
    return CliRunner().invoke(replay, ("--database-url", dsn, "--stream", stream, "--until", until, "--json"))


def versions(result: Result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [json.loads(line)["version"] for line in result.output.splitlines()[:-1]]


@pytest.mark.parametrize("read", [0, 1, 3, 4, 6])
@pytest.mark.parametrize(("instant", "last"), [(100, 3), (129, 3), (130, 5), (131, 6), (10**17, 6)])
def test_an_instant_is_a_position_however_far_the_labels_have_been_read(
    database: str, connection: psycopg.Connection, read: int, instant: int, last: int
) -> None:
    label(connection, write(connection, "site_1", READINGS)[:read])
    assert versions(run(database, str(instant))) == list(range(1, last + 1))


@pytest.mark.parametrize("read", [0, 6])
def test_before_the_log_there_was_nothing(database: str, connection: psycopg.Connection, read: int) -> None:
    """Also of an event whose own reading was earlier: it came after one of 100."""
    label(connection, write(connection, "site_1", READINGS)[:read])
    for until in ("0", "90", "99"):
        told = run(database, until)
        assert (told.exit_code, told.output) == (1, f"Error: the log has nothing of site_1 up to {until}\n")


def test_a_position_cuts_where_it_says(database: str, connection: psycopg.Connection) -> None:
    positions = write(connection, "site_1", READINGS)
    assert versions(run(database, f"@{positions[3]}")) == [1, 2, 3, 4]
    assert versions(run(database, f"@{positions[-1] + 1_000}")) == [1, 2, 3, 4, 5, 6]
    assert run(database, f"@{positions[0] - 1}").exit_code == 1


@pytest.mark.parametrize("until", ["", "@", "-1", "1.5", "2026-01-01", "٣", "9" * 19, "@@1", "1\n"])
def test_what_is_neither_is_wrong_usage(until: str) -> None:
    refused = run("postgresql:///none", until)
    assert refused.exit_code == 2
    assert "--until takes an instant, or a position as @1234" in " ".join(refused.output.split())


@pytest.mark.parametrize("until", ["1970-01-01T00:00:00.100Z", "1970-01-01T01:00:00.100+01:00"])
def test_an_instant_may_be_iso_8601(database: str, connection: psycopg.Connection, until: str) -> None:
    write(connection, "site_1", READINGS)
    assert versions(run(database, until)) == [1, 2, 3]


def test_the_whole_log_is_shown_step_by_step_and_then_what_each_kind_came_to(
    database: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_replay, "BATCH", 2)
    first, second = write(connection, "site_1", READINGS), write(connection, "site_2", READINGS[:3])
    told = whole(database)
    assert [(step["position"], step["stream"], step["version"]) for step in told[:-1]] == [
        *((position, "site_1", n) for n, position in enumerate(first, 1)),
        *((position, "site_2", n) for n, position in enumerate(second, 1)),
    ]
    assert told[-1] == {"noun": "site", "things": 2, "events": 9, "states": {"current": 2}}
    assert whole(database, "--summary") == told[-1:]
    until = whole(database, "--until", f"@{second[0]}")
    assert (len(until), until[-1]["things"], until[-1]["events"]) == (8, 2, 7)
    assert whole(database, "--until", f"@{first[0] - 1}") == []
    mistyped = CliRunner().invoke(replay, ("--database-url", database, "--tenant", "nobody"))
    assert (mistyped.exit_code, mistyped.output) == (1, "Error: the log knows no tenant 'nobody'\n")


def test_people_get_a_table(database: str, connection: psycopg.Connection) -> None:
    write(connection, "site_1", READINGS)
    shown = CliRunner().invoke(replay, ("--database-url", database)).output.splitlines()
    assert shown[0].endswith("site.created.1 of site_1")
    assert shown[-3].split() == ["KIND", "THINGS", "EVENTS", "STATES"]
    assert shown[-2].split() == ["site", "1", "6", "1", "current"]
    assert shown[-1].startswith("6 events folded in ")


def test_a_replay_can_write_nothing(database: str) -> None:
    with audit_replay.opened(database) as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("DELETE FROM stored_events")


@pytest.mark.parametrize("also", [("--tenant", "acme"), ("--summary",)])
def test_one_thing_is_asked_for_alone(also: tuple[str, ...]) -> None:
    assert CliRunner().invoke(replay, ("--stream", "site_1", *also)).exit_code == 2


def whole(dsn: str, *options: str) -> list[dict[str, Any]]:
    told = CliRunner().invoke(replay, ("--database-url", dsn, "--json", *options))
    assert told.exit_code == 0, told.output
    return [json.loads(line) for line in told.output.splitlines()]
