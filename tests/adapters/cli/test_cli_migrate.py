"""`migrate` says what it did, what is to be rebuilt, and fails while something is."""

import psycopg
import pytest
from click.testing import CliRunner, Result

from adapters.cli import migrate as command
from adapters.postgres import migrate
from projections import table


def run(dsn: str, *flags: str) -> Result:
    return CliRunner().invoke(command.migrate, ("--database-url", dsn, *flags))


def change(dsn: str, *names: str) -> None:
    """As an earlier version of the program left these projections: with other tables."""
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE projection_positions SET tables_digest = '' WHERE name = ANY(%s)", (list(names),))


def test_a_database_is_brought_to_the_head_once(fresh: str) -> None:
    lacking = run(fresh, "--check")
    assert (lacking.exit_code, "lacks 0001_log" in lacking.output) == (1, True)
    first = run(fresh)
    names = " ".join(projection.name for projection in table.ALL)
    applied = "".join(f"applied {migration.label}\n" for migration in migrate.load())
    assert (first.exit_code, first.output) == (0, f"{applied}made the tables of {names}\n")
    again = run(fresh)
    assert (again.exit_code, again.output) == (0, "nothing to do\n")
    checked = run(fresh, "--check")
    assert (checked.exit_code, checked.output) == (0, "the database is at this program's head\n")


@pytest.mark.parametrize("flags", [(), ("--check",)])
def test_what_has_to_be_rebuilt_is_named_and_is_no_success(fresh: str, flags: tuple[str, ...]) -> None:
    assert run(fresh).exit_code == 0
    change(fresh, "nodes", "gates")
    told = run(fresh, *flags)
    expected = "Error: the tables of gates nodes changed: run `better-compute projections rebuild gates nodes`\n"
    assert (told.exit_code, told.output) == (1, expected)


def test_looking_makes_no_tables(fresh: str) -> None:
    """A projection that is new in this version is made by `migrate`, or at the start of `serve`."""
    assert run(fresh).exit_code == 0
    with psycopg.connect(fresh) as connection:
        connection.execute("DROP TABLE log_time")
        connection.execute("DELETE FROM projection_positions WHERE name = 'log_time'")
    looked = run(fresh, "--check")
    assert (looked.exit_code, "lacks the tables of log_time: run" in looked.output) == (1, True)
    with psycopg.connect(fresh) as connection:
        assert connection.execute("SELECT to_regclass('log_time')").fetchone() == (None,)
    assert run(fresh).output == "made the tables of log_time\n"
    assert run(fresh, "--check").exit_code == 0
