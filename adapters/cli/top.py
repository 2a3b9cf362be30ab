"""`better-compute top`: what a cloud has, who waits, what is broken and what has just happened, live on a terminal."""

import contextlib
import json
import sys
import time
from typing import Any, Final

import click

from adapters.cli import (
    client,
    drawn,
    server_options,
    terminal,
    top_frame,
    top_lists,
    top_reading,
    top_state,
    top_watch,
)
from adapters.cli.top_frame import View
from adapters.cli.top_state import State

TICK_SECONDS: Final = 1.0
"""Between two pictures of which nothing changed but the time."""

REST_SECONDS: Final = 0.05
"""After a picture, however much happens: a large fleet has many events a second."""

ANSWER_SECONDS: Final = 10.0
FOLLOW_SECONDS: Final = 25.0
"""A stream that says nothing for so long is dead: the server says something every fifteen seconds."""

QUIET_SECONDS: Final = 1.0
"""Of a stream, after which it has told what there was."""


@click.command(params=[*server_options.asking()])
@click.option("--once", is_flag=True, help="print everything once and exit, as without a terminal")
@click.option(
    "--scope",
    type=click.Choice(["fleet", "tenant"]),
    help="whose reservations, nodes and instances; default: the fleet's if you may see it",
)
def top(once: bool, scope: str | None, **asked: Any) -> None:
    """Watch capacity, the queue, nodes, instances and events.

    Live on a terminal; elsewhere, with --once or with --json, one snapshot. What you may not see is left out.

    Keys: q quits, p holds the picture, tab and arrows left and right choose a pool, s and arrows up and down the order
    of the queue. Times are UTC.
    """
    if once or asked["_json"] or not terminal.usable():
        state = top_reading.snapshot(_client(asked, ANSWER_SECONDS), _client(asked, QUIET_SECONDS), scope)
        _print(state, as_json=asked["_json"])
        return
    with terminal.Terminal() as screen:
        watch = top_watch.Watch(_client(asked, ANSWER_SECONDS), _client(asked, FOLLOW_SECONDS), scope, screen.wake)
        watch.start()
        with contextlib.suppress(KeyboardInterrupt):  # it is how one leaves
            _watch(screen, watch)


def _client(asked: dict[str, Any], seconds: float) -> client.Client:
    return client.Client(asked["_server"], asked["_token"], timeout=seconds)


def _print(state: State, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(top_state.document(state), indent=2))
        return
    width = terminal.width() if sys.stdout.isatty() else None
    view = View(width=width, now=state.answered_at or 0, marks=_marks())
    colours = terminal.colours()
    for line in top_frame.frame(state, view):
        click.echo(drawn.paint(line, colours=colours))


def _watch(screen: terminal.Terminal, watch: top_watch.Watch) -> None:
    """Until somebody leaves; raises what the server said if there is nothing to wait for."""
    colours, view = terminal.colours(), View(marks=_marks())
    shown = watch.state
    while True:
        if watch.over is not None:
            raise watch.over
        if view.paused is None:
            shown = watch.state
        width, height = screen.size()
        view = view._replace(width=width, height=height, now=watch.now())
        screen.show([drawn.paint(line, colours=colours) for line in top_frame.frame(shown, view)])
        keys = screen.keys(TICK_SECONDS)
        if not keys:
            time.sleep(REST_SECONDS)
        for key in keys:
            if key in ("q", "Q"):
                return
            view = turned(view, key, shown)


def turned(view: View, key: str, state: State) -> View:
    """How it is looked at after a key."""
    match key:
        case "p" | " ":
            return view._replace(paused=view.now if view.paused is None else None)
        case "tab" | "right" | "back" | "left":
            pools = [None, *top_state.pools(state)]
            return view._replace(pool=_beside(pools, view.pool, 1 if key in ("tab", "right") else -1))
        case "s" | "down" | "up":
            return view._replace(sort=_beside([*top_lists.SORTS], view.sort, -1 if key == "up" else 1))
        case _:
            return view


def _beside(choices: list[Any], chosen: Any, step: int) -> Any:
    at = choices.index(chosen) if chosen in choices else 0
    return choices[(at + step) % len(choices)]


def _marks() -> drawn.Marks:
    return drawn.UNICODE if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" else drawn.ASCII
