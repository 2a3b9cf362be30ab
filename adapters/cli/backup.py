"""`better-compute database`: a backup of the database, and what makes a restored one a log of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from adapters.cli import database

_PLAIN = ("--no-owner", "--no-privileges")
"""Who owns what is the restoring database's own affair."""


@click.group("database")
def group() -> None:
    """Back the database up, restore it, or reach it with PostgreSQL's own programs."""


@group.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@database.directory
def dump(file: Path, data_dir: Path | None) -> None:
    """Write the embedded database into FILE, as it is at one moment; the server may run meanwhile."""
    from adapters.postgres import programs

    fresh = file.with_name(f"{file.name}.new")
    with database.reached(None, data_dir) as dsn, _said():
        try:
            os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
            programs.run(dsn, "pg_dump", "--format=custom", *_PLAIN, f"--file={fresh}")
            with fresh.open("rb") as written:
                os.fsync(written.fileno())
            fresh.replace(file)
        except OSError as problem:
            raise click.ClickException(f"{fresh}: {problem.strerror}") from problem
        finally:
            fresh.unlink(missing_ok=True)


@group.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@database.directory
def restore(file: Path, data_dir: Path | None) -> None:
    """Restore FILE into a data directory without a database, and migrate it; its log has a new name from then on."""
    from adapters.postgres import embedded, embedded_server, migrate, programs

    arguments = ("--single-transaction", "--exit-on-error", "--no-comments", *_PLAIN)
    with database.explained(), embedded.running(data_dir) as dsn, _said():
        _refuse_full(dsn)
        programs.run(dsn, "pg_restore", *arguments, f"--dbname={embedded_server.NAME}", str(file.resolve()))
        migrate.migrate(dsn)
        _begin(dsn)


@group.command()
@database.options
def restored(database_url: str | None, data_dir: Path | None) -> None:
    """Declare this database a restored copy: its log gets a new name, and no lease remains valid."""
    with database.reached(database_url, data_dir) as dsn, _said():
        _begin(dsn)


@group.command()
@database.directory
def url(data_dir: Path | None) -> None:
    """Print the connection string of the embedded database that is served, for psql and the like."""
    from adapters.postgres import embedded

    with database.explained():
        click.echo(embedded.served(data_dir))


@group.command()
def programs() -> None:
    """Print the directory of psql, pg_dump and the others that come with the embedded PostgreSQL."""
    from adapters.postgres import embedded_binaries

    with database.explained():
        click.echo(embedded_binaries.installed())


def _begin(dsn: str) -> None:
    from adapters.postgres import incarnation

    try:
        now = incarnation.begin(dsn)
    except incarnation.InUse as problem:
        raise click.ClickException(str(problem)) from problem
    click.echo(f"the log was {now.former} up to its event {now.size:,}; from there on it is {now.incarnation}")


def _refuse_full(dsn: str) -> None:
    import psycopg

    with psycopg.connect(dsn) as connection:
        there = connection.execute("SELECT to_regclass('public.schema_migrations') IS NOT NULL").fetchone()
    if there == (True,):
        raise click.ClickException("there is a database here already: name a new --data-dir")


@contextmanager
def _said() -> Iterator[None]:
    from adapters.postgres import migrate, programs

    try:
        yield
    except (programs.ProgramError, migrate.MigrationError) as problem:
        raise click.ClickException(str(problem)) from problem
