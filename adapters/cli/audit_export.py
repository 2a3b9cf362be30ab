"""`better-compute audit export` and `audit checkpoint`: the log's evidence from the database into a file."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from adapters.cli import audit_offline, database, progress

F = TypeVar("F", bound=Callable[..., Any])
_KEPT = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUTPUT = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


def _signing(command: F) -> F:
    """Add the options that say who signs."""
    file = click.option(
        "--audit-key-file",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="BETTER_COMPUTE_AUDIT_KEY_FILE",
        help="signs a checkpoint of now; default audit.key in the data directory",
    )
    key = click.option("--key", "vkey", help="without the key file: the latest checkpoint that this one verifies")
    return file(key(command))


@click.command()
@click.option("--output", "-o", type=_OUTPUT, required=True, help="the file to write, - for standard output")
@click.option("--tenant", help="its audit events; without it the whole log, for the platform")
@click.option(
    "--from", "first", type=click.IntRange(min=0), help="first sequence of the tenant, or first leaf of the log"
)
@click.option("--limit", type=click.IntRange(min=1), help="at most so many events")
@click.option("--since", type=click.IntRange(min=0), help="prove that the log begins with the checkpoint of this size")
@click.option("--checkpoint", "kept", type=_KEPT, help="as --since, with the size of this one")
@_signing
@database.options
def export(
    output: Path,
    tenant: str | None,
    first: int | None,
    limit: int | None,
    since: int | None,
    kept: Path | None,
    audit_key_file: Path | None,
    vkey: str | None,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Write the audit log of a tenant, or all of it, as JSON Lines that prove themselves."""
    from adapters.postgres import export as written
    from adapters.postgres.pool import pool
    from domain import errors
    from domain.export import Ask

    if kept is not None:
        since = _size(kept)
    ask = Ask(tenant_id=tenant, first=first, limit=limit, since=since)
    with database.reached(database_url, data_dir) as dsn, pool(dsn, 1, application_name="audit export") as connections:
        with connections.connection() as connection:
            database.check_tenant(connection, tenant)
            note, key = _signed(connection, audit_key_file, vkey, database_url, data_dir)
        try:
            pieces = written.lines(connections.connection, ask, note, key)
            _write(output, pieces)
        except errors.Refusal as wrong:
            raise click.ClickException(str(wrong)) from wrong


@click.command()
@click.option("--output", "-o", type=_OUTPUT, default="-", help="the file to write; default standard output")
@_signing
@database.options
def checkpoint(
    output: Path, audit_key_file: Path | None, vkey: str | None, database_url: str | None, data_dir: Path | None
) -> None:
    """Write a signed checkpoint of the log, to keep: later exports prove that nothing before it changed."""
    import psycopg

    with database.reached(database_url, data_dir) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        note, key = _signed(connection, audit_key_file, vkey, database_url, data_dir)
    with _opened(output) as file:
        file.write(note.encode())
    click.echo(f"verifies with --key {key}", err=True)


def _signed(
    connection: Any, key_file: Path | None, vkey: str | None, database_url: str | None, data_dir: Path | None
) -> tuple[str, str]:
    """A checkpoint and the key that verifies it: of now if the key is here, else the latest that was kept."""
    from adapters import audit_key, evidence
    from adapters.postgres import evidence as rows
    from domain import checkpoint as notes
    from domain import errors

    path = key_file
    if path is None and (database_url is None or data_dir is not None):
        path = _of_directory(data_dir)
    try:
        if path is not None:
            with rows.sound():
                signer = audit_key.Signer(audit_key.read(path), rows.incarnation(connection))
            return evidence.checkpoint_of(connection, signer), signer.key.vkey
        if vkey is None:
            raise click.UsageError("name the key that signs with --audit-key-file, or the one that verifies with --key")
        note = rows.note(connection)
        if note is None:
            raise click.ClickException("no checkpoint of the log has been signed yet")
        notes.opened(note, notes.key(vkey), audit_key.verify)
        return note, vkey
    except (audit_key.KeyFileError, notes.Unsound, errors.EvidenceUnsound) as problem:
        raise click.ClickException(str(problem)) from problem


def _of_directory(data_dir: Path | None) -> Path | None:
    from adapters import audit_key
    from adapters.postgres import embedded_account, embedded_directory

    path = embedded_directory.locate(data_dir, embedded_account.for_server()).home / audit_key.NAME
    return path if path.exists() else None


def _size(kept: Path) -> int:
    from domain import checkpoint as notes

    try:
        return notes.parse(audit_offline.note(kept)).size
    except (notes.Unsound, UnicodeError) as wrong:
        raise click.ClickException(f"{kept}: {wrong}") from wrong


def _write(output: Path, pieces: Iterator[bytes]) -> None:
    first = next(pieces)
    lines, size = 1, len(first)
    with _opened(output) as file, progress.Progress("audit export", sys.stderr) as shown:
        file.write(first)
        for piece in pieces:
            file.write(piece)
            lines, size = lines + piece.count(b"\n"), size + len(piece)
            shown(lines, 0)
    click.echo(f"{lines:,} lines, {size:,} bytes in {progress.total(lines, shown.seconds)}", err=True)


@contextmanager
def _opened(output: Path) -> Iterator[BinaryIO]:
    """What cannot be written is said in a line; a reader that left says nothing more."""
    place = _stream if str(output) == "-" or (output.exists() and not output.is_file()) else _fresh
    try:
        with place(output) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise click.ClickException(f"{output}: {problem.strerror}") from problem


@contextmanager
def _stream(output: Path) -> Iterator[BinaryIO]:
    """Standard output, a pipe or a device: what must stay what it is."""
    if str(output) != "-":
        with output.open("wb") as file:
            yield file
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextmanager
def _fresh(output: Path) -> Iterator[BinaryIO]:
    """The file appears when it is whole, and is its owner's alone: it tells everything."""
    fresh = output.with_name(f"{output.name}.part")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(output)
    finally:
        fresh.unlink(missing_ok=True)
