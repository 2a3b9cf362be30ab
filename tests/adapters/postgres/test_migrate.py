"""Migrations: each applied once, in order, whole; a history that does not fit is refused by name."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from adapters.postgres import migrate

FIRST = "CREATE TABLE a (id int);\nINSERT INTO a VALUES (1);\n"
SECOND = "ALTER TABLE a ADD COLUMN name text;\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory of two migrations."""
    return write(tmp_path, first=FIRST, second=SECOND)


def write(directory: Path, **files: str) -> Path:
    for number, (name, text) in enumerate(files.items(), start=1):
        (directory / f"{number:04d}_{name}.sql").write_text(text)
    return directory


def labels(migrations: list[migrate.Migration]) -> list[str]:
    return [migration.label for migration in migrations]


def rows(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(statement.encode()).fetchall()


def test_what_is_missing_is_applied_once_and_in_order(fresh: str, source: Path) -> None:
    assert labels(migrate.migrate(fresh, source)) == ["0001_first", "0002_second"]
    assert migrate.migrate(fresh, source) == []
    (source / "0003_third.sql").write_text("INSERT INTO a VALUES (2, 'two');")
    assert labels(migrate.migrate(fresh, source)) == ["0003_third"]
    assert rows(fresh, "SELECT * FROM a ORDER BY id") == [(1, None), (2, "two")]
    assert rows(fresh, "SELECT version, name FROM schema_migrations ORDER BY version") == [
        (1, "first"),
        (2, "second"),
        (3, "third"),
    ]


def test_processes_that_migrate_at_once_apply_each_migration_once(fresh: str, source: Path) -> None:
    (source / "0003_index.sql").write_text("-- no-transaction\nCREATE INDEX CONCURRENTLY by_name ON a (name);\n")
    with ThreadPoolExecutor(4) as threads:
        applied = list(threads.map(lambda _: migrate.migrate(fresh, source), range(4)))
    assert sorted(map(len, applied)) == [0, 0, 0, 3]


def test_a_migration_that_fails_leaves_nothing_and_names_itself(fresh: str, source: Path) -> None:
    (source / "0003_bad.sql").write_text("CREATE TABLE b (id int);\nSELECT 1/0;\n")
    with pytest.raises(migrate.MigrationError, match="0003_bad failed: division by zero"):
        migrate.migrate(fresh, source)
    assert rows(fresh, "SELECT max(version) FROM schema_migrations") == [(2,)]
    assert rows(fresh, "SELECT to_regclass('b')") == [(None,)]


def test_a_migration_outside_a_transaction_runs_statement_by_statement(fresh: str, source: Path) -> None:
    text = """-- no-transaction
-- twice is fine: drop what an interrupted run left
DROP INDEX CONCURRENTLY IF EXISTS by_name;
CREATE INDEX CONCURRENTLY by_name
    ON a (name);
"""
    (source / "0003_index.sql").write_text(text)
    migrate.migrate(fresh, source)
    assert rows(fresh, "SELECT to_regclass('by_name') IS NOT NULL") == [(True,)]
    migrate.check(fresh, source)


def test_a_changed_migration_is_refused(fresh: str, source: Path) -> None:
    migrate.migrate(fresh, source)
    (source / "0001_first.sql").write_text(FIRST + "-- a word more\n")
    for operation in (migrate.migrate, migrate.check):
        with pytest.raises(migrate.MigrationError, match="0001_first was changed after it was applied"):
            operation(fresh, source)


def test_line_endings_are_no_change(fresh: str, source: Path) -> None:
    migrate.migrate(fresh, source)
    (source / "0001_first.sql").write_bytes(FIRST.replace("\n", "\r\n").encode())
    assert migrate.migrate(fresh, source) == []


def test_a_renamed_migration_is_refused(fresh: str, source: Path) -> None:
    migrate.migrate(fresh, source)
    (source / "0002_second.sql").rename(source / "0002_other.sql")
    with pytest.raises(migrate.MigrationError, match="0002_other was changed"):
        migrate.migrate(fresh, source)


def test_an_older_program_refuses_a_newer_database(fresh: str, source: Path) -> None:
    migrate.migrate(fresh, source)
    (source / "0002_second.sql").unlink()
    for operation in (migrate.migrate, migrate.check):
        with pytest.raises(migrate.MigrationError, match="0002_second, which this program does not know"):
            operation(fresh, source)


def test_a_migration_cannot_come_in_behind_an_applied_one(fresh: str, source: Path) -> None:
    (source / "0002_second.sql").rename(source / "0005_second.sql")
    migrate.migrate(fresh, source)
    (source / "0003_late.sql").write_text("SELECT 1;")
    with pytest.raises(migrate.MigrationError, match="0003_late comes before 0005"):
        migrate.migrate(fresh, source)


def test_check_names_what_is_missing_and_changes_nothing(fresh: str, source: Path) -> None:
    with pytest.raises(migrate.MigrationError, match="lacks 0001_first, 0002_second: run"):
        migrate.check(fresh, source)
    assert rows(fresh, "SELECT to_regclass('schema_migrations')") == [(None,)]
    migrate.migrate(fresh, source)
    migrate.check(fresh, source)


@pytest.mark.parametrize("name", ["1_a.sql", "0001-a.sql", "0001_A.sql"])
def test_a_misnamed_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(migrate.MigrationError, match=r"named NNNN_name\.sql"):
        migrate.load(tmp_path)


def test_a_number_used_twice_is_refused(source: Path) -> None:
    (source / "0002_also.sql").write_text("SELECT 1;")
    with pytest.raises(migrate.MigrationError, match="two migrations have number 0002"):
        migrate.load(source)


def test_our_own_migrations_bring_a_database_to_head(migrated: str) -> None:
    migrate.check(migrated)


def test_a_role_that_may_not_make_tables_is_told_what_it_needs(fresh: str, source: Path) -> None:
    with psycopg.connect(fresh) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(migrate.MigrationError, match=r"the role guest may not make tables in fresh_.*must own"):
            migrate.migrate(make_conninfo(fresh, user="guest"), source)
    finally:
        with psycopg.connect(fresh) as connection:
            connection.execute("DROP ROLE guest")
