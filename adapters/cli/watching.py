"""`--watch`: ask again and again, and show what changed; Ctrl-C ends it, and is no failure.

On a terminal the answer stands in place. Elsewhere each change is a block under its instant, or with `--json` a line.
The first answer decides whether there is anything to watch; from then on a server that fails is asked again, and a
server that refuses ends it.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click

from adapters.cli import showing, tables, troubles
from domain.operation import Operation

EVERY_SECONDS: Final = 2.0
LEAST_SECONDS: Final = 0.1
pause: Final = time.sleep


def watch(operation: Operation, ask: Callable[[], Any], every: float, *, as_json: bool) -> None:
    """Show what `ask` answers until Ctrl-C; raises what its first answer is refused with, and later refusals."""
    painted = sys.stdout.isatty() and not as_json
    trouble, since = "", ""
    shown: Any = object()
    try:
        body = ask()
        while True:
            if painted:
                paint(operation, body, every, f"no answer since {since}: {trouble}" if trouble else "")
            elif body != shown:
                _tell(operation, body, as_json=as_json)
            shown = body
            pause(every)
            try:
                body = ask()
                if trouble and not painted:
                    click.echo(f"{_now()} the server answers again", err=True)
                trouble = ""
            except (troubles.Failed, troubles.Busy) as failure:
                since = since if trouble else _now()
                if not trouble and not painted:
                    click.echo(f"{since} {failure.message}; asking again", err=True)
                trouble = failure.message.split("\n")[0]
    except KeyboardInterrupt:
        return


def _tell(operation: Operation, body: Any, *, as_json: bool) -> None:
    text = json.dumps(body) if as_json else f"== {_now()}\n{showing.rendered(operation, body, None).text}\n"
    click.echo(text)
    sys.stdout.flush()


def paint(operation: Operation, body: Any, every: float, trouble: str) -> None:
    """The top of the answer over what stood there; each line is cleared as it is written, so that nothing flickers."""
    width, height = shutil.get_terminal_size()
    shown = showing.rendered(operation, body, width)
    head = f"{operation.name}  {_now()}  every {every:g} s, Ctrl-C ends"
    lines = [head, *([trouble] if trouble else []), "", *shown.text.split("\n")]
    notes = [hint for hint in shown.hints if not hint.startswith("there is more")]
    room = height - 1 - len(notes)
    if len(lines) > room:
        notes.insert(0, f"{len(lines) - room + 1} more lines")
        lines = lines[: room - 1]
    frame = "".join(f"{tables.cut(line, width)}\x1b[K\n" for line in [*lines, *notes])
    sys.stdout.write(f"\x1b[H{frame}\x1b[J")
    sys.stdout.flush()


def _now() -> str:
    return tables.instant(round(time.time()) * 1000)
