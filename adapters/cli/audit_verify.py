"""`better-compute audit verify`: is the log what it was, event by event (api.md §6)."""

import sys
from pathlib import Path
from typing import Any

import click

from adapters.cli import audit_offline, database, progress, tables

SHOWN = 100
"""Faults that are listed; the others are counted."""


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_FRESH = click.Path(dir_okay=False, path_type=Path)


@click.command()
@database.options
@click.option(
    "--key", "vkeys", multiple=True, help="verifier key, in addition to that of audit.key in the data directory"
)
@click.option("--export", "export_file", type=_FILE, help="check this export instead, without database and server")
@click.option("--checkpoint", "kept", type=_FILE, help="check that nothing before this checkpoint has changed")
@click.option("--keep", type=_FRESH, help="with --export: write its checkpoint here, for the next time")
def verify(
    database_url: str | None,
    data_dir: Path | None,
    vkeys: tuple[str, ...],
    export_file: Path | None,
    kept: Path | None,
    keep: Path | None,
) -> None:
    """Compute chains, tree and checkpoints again, and name what is not as recorded; the exit status is then 1."""
    if export_file is None:
        if keep is not None:
            raise click.UsageError("--keep goes with --export")
        _database(database_url, data_dir, vkeys, [audit_offline.note(kept)] if kept is not None else [])
        return
    if len(vkeys) > 1:
        raise click.UsageError("an export is signed by one key")
    _keys(vkeys)
    audit_offline.verify(export_file, kept, vkeys[0] if vkeys else None, keep)


def _database(database_url: str | None, data_dir: Path | None, vkeys: tuple[str, ...], kept: list[str]) -> None:
    import psycopg

    from adapters import audit_key
    from adapters.postgres import evidence_check

    told = _Faults()
    with (
        database.reached(database_url, data_dir) as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
        progress.Progress("audit verify", sys.stderr) as shown,
    ):
        keys = _keys(vkeys)
        if database_url is None or data_dir is not None:
            keys += _own(data_dir, connection)
        found = evidence_check.Verifier(connection, told.one, keys, audit_key.verify, kept).run(shown)
    told.rest()
    click.echo(
        f"{found.events:,} events and {found.links:,} links of chains verified in "
        f"{progress.total(found.events, shown.seconds)}"
    )
    click.echo(f"tree of {found.leaves:,} leaves, root {found.root.hex()}")
    signed = "" if keys else "; their signatures were not: name the verifier key with --key"
    click.echo(f"{found.checkpoints:,} checkpoints verified{signed}")
    if found.leaves and not found.checkpoints:
        click.echo("no checkpoint vouches for the tree: all of it may have been made anew; give one that you kept")
    for key in keys:
        click.echo(f"verifier key {key.vkey}")
    if found.later:
        click.echo(f"{found.later:,} later events are not taken in yet")
    if found.faults:
        click.echo(tables.counted(found.faults, "fault"))
        raise SystemExit(1)


def _keys(vkeys: tuple[str, ...]) -> list[Any]:
    from domain import checkpoint

    try:
        return [checkpoint.key(vkey) for vkey in vkeys]
    except (checkpoint.Unsound, UnicodeError) as wrong:
        raise click.UsageError(f"--key: {wrong}") from wrong


def _own(data_dir: Path | None, connection: Any) -> list[Any]:
    """The key of the data directory, if there is one, in every name that the database's log has had."""
    from adapters import audit_key
    from adapters.postgres import embedded_account, embedded_directory, evidence, incarnation
    from domain import errors

    path = embedded_directory.locate(data_dir, embedded_account.for_server()).home / audit_key.NAME
    if not path.exists():
        return []
    try:
        with evidence.sound():
            names = [evidence.incarnation(connection), *incarnation.formers(connection)]
            return [audit_key.Signer(audit_key.read(path), name).key for name in names]
    except (audit_key.KeyFileError, errors.EvidenceUnsound) as problem:
        raise click.ClickException(str(problem)) from problem


class _Faults:
    """Shows the first, counts them all."""

    def __init__(self) -> None:
        self._told = 0

    def one(self, fault: str) -> None:
        self._told += 1
        if self._told <= SHOWN:
            click.echo(tables.printable(fault))

    def rest(self) -> None:
        if self._told > SHOWN:
            click.echo(f"… and {self._told - SHOWN:,} more")
