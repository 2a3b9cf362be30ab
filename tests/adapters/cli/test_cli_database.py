"""A dump of the embedded database is restored into a new data directory, and into no other."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from click.testing import CliRunner, Result

from adapters.cli import backup
from adapters.postgres import embedded, evidence, migrate


def run(*arguments: object) -> Result:
    return CliRunner().invoke(backup.group, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def kept() -> Iterator[tuple[Path, str]]:
    """A data directory with a database, and its log's name."""
    with TemporaryDirectory(prefix="bc-") as directory:
        Path(directory).chmod(0o711)  # the server's account passes through
        home = Path(directory) / "kept"
        with embedded.running(home, durable=False) as dsn:
            migrate.migrate(dsn)
            with psycopg.connect(dsn) as connection:
                connection.execute("SELECT nextval('stored_events_position')")
                name = evidence.incarnation(connection)
        yield home, name


def test_a_dump_is_restored_under_a_new_name(kept: tuple[Path, str], tmp_path: Path) -> None:
    home, name = kept
    file, fresh = tmp_path / "plane.dump", home.parent / "fresh"
    assert run("dump", file, "--data-dir", home).exit_code == 0
    assert file.stat().st_mode & 0o077 == 0
    done = run("restore", file, "--data-dir", fresh)
    assert (done.exit_code, done.output.startswith(f"the log was {name} up to its event 0; ")) == (0, True)
    with embedded.running(fresh, durable=False) as dsn, psycopg.connect(dsn) as connection:
        assert evidence.incarnation(connection) in done.output
        assert connection.execute("SELECT nextval('stored_events_position')").fetchone() == (2,)
    again = run("restore", file, "--data-dir", fresh)
    assert (again.exit_code, "there is a database here already" in again.output) == (1, True)


def test_what_is_no_dump_is_refused_in_the_words_of_pg_restore(kept: tuple[Path, str], tmp_path: Path) -> None:
    home, _ = kept
    (tmp_path / "x").write_text("x" * 1000)
    done = run("restore", tmp_path / "x", "--data-dir", home.parent / "other")
    assert (done.exit_code, "pg_restore: error: input file" in done.output) == (1, True)


def test_a_dump_that_cannot_be_written_leaves_the_one_before(kept: tuple[Path, str], tmp_path: Path) -> None:
    home, _ = kept
    missing = tmp_path / "missing" / "plane.dump"
    done = run("dump", missing, "--data-dir", home)
    assert (done.exit_code, "No such file or directory" in done.output) == (1, True)


def test_a_server_that_runs_is_reached_with_the_programs_that_came_with_it(kept: tuple[Path, str]) -> None:
    home, name = kept
    stopped = run("url", "--data-dir", home)
    assert (stopped.exit_code, "no server runs on" in stopped.output) == (1, True)
    with embedded.running(home, durable=False):
        url, programs = (run(*words).output.strip() for words in (("url", "--data-dir", home), ("programs",)))
        ask = (
            f"{programs}/psql",
            url,
            "--no-align",
            "--tuples-only",
            "--command",
            "SELECT incarnation FROM log_identity",
        )
        assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip() == name
