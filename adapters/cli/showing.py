"""How an answer is shown: a table, key/value lines, or JSON in ASCII so that no terminal obeys it."""

import codecs
import json
import shutil
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from adapters.cli import fitting, tables
from domain.operation import Operation


class Shown(NamedTuple):
    """What goes to standard output, and what is said about it on standard error."""

    text: str
    hints: tuple[str, ...] = ()


def show(operation: Operation, body: Any, *, as_json: bool, streamed: bool = False) -> None:
    """Print an answer."""
    if body is None:
        if not as_json and not streamed:
            click.echo("done")
        return
    if as_json:
        click.echo(json.dumps(body, indent=2))
        return
    shown = rendered(operation, body, terminal_width())
    click.echo(shown.text)
    for hint in shown.hints:
        click.echo(hint, err=True)


def rendered(operation: Operation, body: Any, width: int | None) -> Shown:
    """An answer for people, in at most `width` characters where that is said."""
    rows = body.get("items") if isinstance(body, dict) else body
    if isinstance(rows, list):
        fitted = fitting.fit(rows, operation.columns, width)
        return Shown(fitted.text, tuple(_hints(body, fitted)))
    return Shown(tables.record(body) if isinstance(body, dict) else tables.cell("", body))


def _hints(body: Any, fitted: fitting.Fitted) -> list[str]:
    hints = []
    if fitted.left_out:
        hints.append(f"no room for {', '.join(fitted.left_out)}: a wider terminal or --json shows all")
    if isinstance(body, dict) and body.get("nextCursor"):
        hints.append(f"there is more: --all, or --cursor {tables.cell('', body['nextCursor'])}")
    return hints


def show_record(body: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one thing, as `show` does."""
    click.echo(json.dumps(body, indent=2) if as_json else tables.record(body))


def terminal_width() -> int | None:
    """Of standard output; None where that is no terminal, and nothing needs to be shortened."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class Screen:
    """A terminal as a sink: lines stay lines, what would steer it is escaped."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, piece: bytes) -> None:
        text = self._decoder.decode(piece)
        click.echo("\n".join(map(tables.printable, text.split("\n"))), nl=False)

    def flush(self) -> None:
        sys.stdout.flush()


def sink() -> Any:
    """Where bytes of the server's go."""
    return Screen() if sys.stdout.isatty() else sys.stdout.buffer
