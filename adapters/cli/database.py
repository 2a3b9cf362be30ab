"""The database that a command works on: the one named, or the one in the data directory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    directory = click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        envvar="BETTER_COMPUTE_DATA_DIR",
        help="where a single machine keeps its data",
    )
    return url(directory(command))


@contextmanager
def reached(database_url: str | None, data_dir: Path | None) -> Iterator[str]:
    """A connection string to a server that answers; what stands in the way is said in one line."""
    from adapters.postgres import embedded

    if database_url is not None:
        yield database_url
        return
    try:
        with embedded.reached(data_dir) as dsn:
            yield dsn
    except embedded.EmbeddedError as problem:
        raise click.ClickException(str(problem)) from problem
