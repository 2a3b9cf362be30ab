"""The access file that a command works on: the one named, or the one in the data directory."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def options(command: F) -> F:
    """Add --access-file and --data-dir."""
    file = click.option(
        "--access-file",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="BETTER_COMPUTE_ACCESS_FILE",
        help="default: access.toml in the data directory",
    )
    directory = click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        envvar="BETTER_COMPUTE_DATA_DIR",
        help="where a single machine keeps its data; default /var/lib/better-compute for root, "
        "~/.local/share/better-compute for others",
    )
    return file(directory(command))


def path(access_file: Path | None, data_dir: Path | None) -> Path:
    """Where the file is; nothing is made."""
    if access_file is not None:
        return access_file
    from adapters.postgres import embedded_account, embedded_directory

    found = embedded_directory.locate(data_dir, embedded_account.for_server()).home / "access.toml"
    if not found.exists():
        raise click.ClickException(f"there is no {found}; name another --data-dir, or an --access-file")
    return found


def actions() -> Collection[str]:
    """What a server lets a file name."""
    from adapters import registry

    return registry.actions()
