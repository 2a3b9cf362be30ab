"""`better-compute instances console`: what an instance wrote, as text, and what it writes from now on."""

import json
import time
from typing import Any, Final
from urllib.parse import quote

import click

from adapters.cli import client, server_options, showing

PAUSE_SECONDS: Final = 1.0


@click.group()
def instances() -> None:
    """Virtual machines on booked devices: create, start, stop, console, delete."""


@instances.command(
    params=[*server_options.asking()], epilog=server_options.example("instances console inst_… --follow")
)
@click.argument("id")
@click.option("--follow", "-f", is_flag=True, help="keep showing new output, until Ctrl-C")
def console(id: str, follow: bool, _server: str, _token: str | None, _json: bool) -> None:
    """Print the last output of an instance's serial console.

    What would steer your terminal is escaped where standard output is one.
    """
    if id in ("", ".", ".."):
        raise click.UsageError(f"{id!r} is no id")
    api = client.Client(_server, _token)
    path = f"/v1/instances/{quote(id, safe='')}/console"
    answer = api.send("GET", path).thing
    if _json:
        click.echo(json.dumps(answer, indent=2))
        return
    sink = showing.sink()
    _write(sink, answer["tail"])
    while follow:
        time.sleep(PAUSE_SECONDS)
        seen, answer = answer, api.send("GET", path).thing
        _write(sink, news(seen, answer))


def news(seen: dict[str, Any], now: dict[str, Any]) -> str:
    """What came since; of an instance that began anew, or wrote more than is kept, all there is."""
    fresh = now["totalBytes"] - seen["totalBytes"]
    tail: bytes = now["tail"].encode()
    if fresh == 0:
        return ""
    return (tail[-fresh:] if 0 < fresh < len(tail) else tail).decode(errors="replace")


def _write(sink: Any, text: str) -> None:
    sink.write(text.encode())
    sink.flush()
