"""Where the read models stand, what making them anew and comparing them says, and how these fail."""

import re
from collections.abc import Iterator

import psycopg
import pytest
from click.testing import CliRunner, Result

from adapters.cli.audit import audit
from adapters.cli.projections import projections
from adapters.postgres.mapper import EventMapper
from domain import site
from domain.event import Recorded
from facts import META, Facts, facts
from given import Plane
from projections import table

TIME = r"in [\d.]+ s \([\d,]+/s\)"
INSERT = "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES (%s, 1, %s, %s)"
STRANGE = b'{"id":"e","part":{"append":"e","index":0,"count":1},"tenants":[],"meta":{"actor":"a"},"data":{}}'
NOWHERE = "host=127.0.0.1 port=1"


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with facts(database, size=2) as made:
        yield made


def run(dsn: str, *arguments: str) -> Result:
    return CliRunner().invoke(projections, [*arguments, "--database-url", dsn])


def diff(dsn: str) -> Result:
    return CliRunner().invoke(audit, ["diff", "--database-url", dsn])


def indigestible(connection: psycopg.Connection) -> int:
    """Put a site into the log that the projection of sites cannot hold: its owner has a NUL; returns its position."""
    event = site.Created("s", "shared", "ro\0ot", "eu-north", 1)
    row = EventMapper().to_stored_event(Recorded("site_bad", 1, event, META, "evt_bad"))
    sql = f"{INSERT} RETURNING notification_id"
    found = connection.execute(sql.encode(), (row.originator_id, row.topic, row.state)).fetchone()
    assert found is not None
    return int(found[0])


def content(given: Facts) -> list[object]:
    return given.rows("SELECT * FROM sites ORDER BY id")


def test_a_rebuild_says_how_many_events_it_read_and_how_fast(given: Facts, database: str) -> None:
    for _ in range(3):
        given.site()
    made = run(database, "rebuild", "sites", "gates")
    assert (made.exit_code, made.stderr) == (0, "")
    assert re.fullmatch(f"sites: 3 events {TIME}\ngates: 3 events {TIME}\n", made.stdout), made.stdout


def test_all_of_them_are_made_anew_in_their_order(given: Facts, database: str) -> None:
    made = run(database, "rebuild", "--all")
    assert [line.partition(":")[0] for line in made.stdout.splitlines()] == [of.name for of in table.ALL]


def test_a_comparison_says_how_many_events_it_folded_and_how_fast(given: Facts, database: str) -> None:
    given.site()
    assert run(database, "rebuild", "--all").exit_code == 0
    found = diff(database)
    assert (found.exit_code, found.stderr) == (0, "")
    assert re.fullmatch(f"1 events folded {TIME}, [\\d,]+ rows compared, 0 tables differ\n", found.stdout), found.stdout


def test_one_that_fails_is_named_and_none_is_begun_after_it(
    given: Facts, database: str, connection: psycopg.Connection
) -> None:
    given.site()
    assert run(database, "rebuild", "sites").exit_code == 0
    before = content(given)
    bad = indigestible(connection)
    made = run(database, "rebuild", "gates", "sites", "nodes", "pools")
    assert made.exit_code == 1
    assert re.fullmatch(f"gates: 2 events {TIME}\n", made.stdout), made.stdout
    assert re.fullmatch(
        f"Error: sites: positions \\d+ to {bad} cannot be folded: CharacterNotInRepertoire.*0x00.*; "
        "its live tables are as they were; not begun: nodes pools\n",
        made.stderr,
    ), made.stderr
    assert content(given) == before
    assert given.rows("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'rebuild%%'") == []


def test_an_event_of_another_program_is_named(database: str, connection: psycopg.Connection) -> None:
    connection.execute(INSERT, ("site_x", "site.sunk.9", STRANGE))
    made, found = run(database, "rebuild", "sites"), diff(database)
    assert (made.exit_code, found.exit_code) == (1, 1)
    assert re.match(r"Error: sites: .*site\.sunk\.9 of site_x.*; its live tables are as they were\n", made.stderr)
    assert re.match(r"Error: .*site\.sunk\.9 of site_x", found.stderr)


def test_one_that_another_process_rebuilds_is_left_to_it(database: str, connection: psycopg.Connection) -> None:
    connection.execute("SELECT pg_advisory_lock(hashtext('better-compute rebuild'), hashtext('gates'))")
    made = run(database, "rebuild", "gates")
    said = "another process is rebuilding it, or comparing it with the log"
    expected = f"Error: gates: {said}; its live tables are as they were\n"
    assert (made.exit_code, made.output) == (1, expected)


def test_a_name_that_no_projection_has_is_wrong_usage(database: str) -> None:
    refused = run(database, "rebuild", "sites", "goats")
    assert refused.exit_code == 2
    assert "no such projection: goats (there are gates," in " ".join(refused.stderr.split())
    assert "or say --all" in run(database, "rebuild").stderr


@pytest.mark.parametrize("arguments", [("list",), ("retry", "sites"), ("rebuild", "sites")])
def test_a_database_that_is_not_there_is_said_in_a_line(arguments: tuple[str, ...]) -> None:
    told = run(NOWHERE, *arguments)
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith("Error: ")
    assert diff(NOWHERE).stderr.startswith("Error: the database: ")


@pytest.mark.parametrize("arguments", [("list",), ("retry", "sites"), ("rebuild", "sites")])
def test_a_database_without_tables_is_to_be_migrated(fresh: str, arguments: tuple[str, ...]) -> None:
    for told in (run(fresh, *arguments), diff(fresh)):
        assert told.exit_code == 1
        assert re.fullmatch(
            r"Error: the database: relation \S+ does not exist; run `better-compute migrate` first\n", told.output
        ), told.output


class TestLag:
    def shown(self, dsn: str) -> dict[str, list[str]]:
        """The rows of the list by name."""
        told = run(dsn, "list")
        heading, *lines = told.output.splitlines()
        assert heading.split() == ["NAME", "KIND", "POSITION", "LAG", "FAILURE"]
        return {line.split()[0]: line.split(None, 4)[1:] for line in lines}

    def test_it_is_how_far_an_asynchronous_projection_is_behind_the_end(self, given: Facts, database: str) -> None:
        for _ in range(3):
            given.site()
        first, _, last = [
            position for (position,) in given.rows("SELECT notification_id FROM stored_events ORDER BY 1")
        ]
        for name, position in (("sites", last), ("pools", first)):
            given.rows("UPDATE projection_positions SET position = %s WHERE name = %s RETURNING 1", position, name)
        shown = self.shown(database)
        assert shown["sites"] == ["async", str(last), "0", "-"]
        assert shown["pools"] == ["async", str(first), str(last - first), "-"]
        assert shown["gates"] == ["inline", "-", "-", "-"]

    def test_of_an_empty_log_it_is_nothing(self, database: str) -> None:
        assert self.shown(database)["sites"] == ["async", "0", "0", "-"]

    def test_one_that_stopped_shows_the_event_and_the_error(
        self, plane: Plane, database: str, connection: psycopg.Connection
    ) -> None:
        plane.settle()
        bad = indigestible(connection)
        plane.settle()
        kind, position, lag, failure = self.shown(database)["sites"]
        assert (kind, int(position) < bad, int(lag)) == ("async", True, plane.head() - int(position))
        assert failure.startswith(f"position {bad}, site.created.1 of site_bad version 1: CharacterNotInRepertoire(")
        assert self.shown(database)["pools"][1:3] == [str(plane.head()), "0"]
