"""`audit verify --export FILE`: an export checked with nothing but itself, and what an auditor kept (api.md §6)."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from adapters.cli import progress, tables
from domain.export_report import Verdict

MOST_NOTE: Final = 65_536
"""Bytes of a checkpoint file; a note has some 250."""
EVERY: Final = 2000
"""Lines after which progress is told."""


def verify(path: Path, kept: Path | None, vkey: str | None, keep: Path | None) -> None:
    """Show every fault, or what is proved and what is not; leaves with 1 where there is a fault."""
    from adapters import offline
    from domain import export_report

    began = time.monotonic()
    try:
        verdict = offline.check(_shown(path), None if kept is None else note(kept), vkey)
    except OSError as problem:
        raise click.ClickException(f"{path}: {problem.strerror}") from problem
    for fault in verdict.faults.told:
        click.echo(tables.printable(str(fault)))
    if not verdict.good:
        more = verdict.faults.count - len(verdict.faults.told)
        click.echo(
            (f"… and {more:,} more; " if more else "")
            + f"{tables.counted(verdict.faults.count, 'fault')}: nothing is proved"
        )
        raise SystemExit(1)
    if keep is not None:
        _keep(keep, verdict)
    click.echo(f"{verdict.lines:,} lines, {progress.total(verdict.checked, time.monotonic() - began)}")
    click.echo("proved:")
    for said in export_report.proved(verdict):
        click.echo(tables.printable(f"  {said}"))
    click.echo("not proved by this:")
    for said in export_report.unproved(verdict):
        click.echo(tables.printable(f"  {said}"))


def note(path: Path) -> str:
    """What is kept as the checkpoint; the check says what is wrong with it."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_NOTE).decode("utf-8", "surrogateescape")
    except OSError as problem:
        raise click.ClickException(f"{path}: {problem.strerror}") from problem


def _keep(path: Path, verdict: Verdict) -> None:
    try:
        path.write_text(verdict.note, newline="\n")
    except OSError as problem:
        raise click.ClickException(f"{path}: {problem.strerror}") from problem
    click.echo(f"the checkpoint of {verdict.size:,} leaves is kept in {path}")


def _shown(path: Path) -> Iterator[bytes]:
    """The file's lines, with progress on a terminal: bytes read and left."""
    from adapters import offline

    whole, read = path.stat().st_size, 0
    with progress.Progress("audit verify", sys.stderr) as shown:
        for number, line in enumerate(offline.lines(path), 1):
            read += len(line)
            if number % EVERY == 0:
                shown(number, round(number * max(0, whole - read) / read))
            yield line
