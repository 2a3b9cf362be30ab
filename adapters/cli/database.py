"""The database that a command works on: the one named, or the one in the data directory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def options(command: F) -> F:
    """Add --database-url and --data-dir."""
    url = click.option(
        "--database-url",
        envvar="BETTER_COMPUTE_DATABASE_URL",
        help="libpq connection string; without it the embedded PostgreSQL of --data-dir",
    )
    return url(directory(command))


def directory(command: F) -> F:
    """Add --data-dir alone."""
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        envvar="BETTER_COMPUTE_DATA_DIR",
        help="where a single machine keeps its data; default /var/lib/better-compute for root, "
        "~/.local/share/better-compute for others",
    )(command)


@contextmanager
def reached(database_url: str | None, data_dir: Path | None) -> Iterator[str]:
    """A connection string to the database; what stands in the way of the block is said in one line."""
    from adapters.postgres import embedded

    with (
        explained(),
        nullcontext(database_url) if database_url is not None else embedded.reached(data_dir) as dsn,
    ):
        yield dsn


@contextmanager
def explained() -> Iterator[None]:
    """What stands in the way of the block, in one line."""
    import psycopg

    from adapters.postgres import embedded

    try:
        yield
    except embedded.EmbeddedError as problem:
        raise click.ClickException(str(problem)) from problem
    except psycopg.OperationalError as problem:
        raise click.ClickException(f"the database: {str(problem).strip()}") from problem
    except psycopg.errors.UndefinedTable as problem:
        lacks = problem.diag.message_primary
        raise click.ClickException(f"the database: {lacks}; run `better-compute migrate` first") from problem


def check_tenant(connection: Any, tenant: str | None) -> None:
    """Refuse a tenant that the log does not know, rather than to show nothing of it."""
    from adapters.postgres import export

    if tenant is not None and not export.known(connection, tenant):
        raise click.ClickException(f"the log knows no tenant {tenant!r}")
