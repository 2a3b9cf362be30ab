"""`--wait`: ask again until what was begun is done, saying each change."""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import quote

import click

from adapters.cli import tables, troubles
from domain import node_command, reservation_life
from domain.operation import Operation, Table

if TYPE_CHECKING:
    from adapters.cli import client

FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 2.0

MOST_COUNTED: Final = 1000
"""Of what is in the way: one page."""


class Wait(NamedTuple):
    """What `--wait` asks again, the states that are success, and those after which nothing comes.

    `state` and `reason` are where an answer tells them, `id` whose it is. `left` is the list of what is in the way.
    Where `get` is a list, it is asked for what is still to be freed, and the first answer's `items` are that.
    """

    get: str
    good: Collection[str]
    final: Collection[str]
    state: Callable[[Any], str] = itemgetter("state")
    reason: str = "stateReason"
    left: str = ""
    id: str = "id"


def _drain(node: Any) -> str:
    """What a drain has come to; it has no state of its own, only an instant at which it was over."""
    drain = node["drain"]
    return "not draining" if drain is None else "draining" if drain["drainedAt"] is None else "drained"


_RESERVATION: Final = Wait("reservations.get", ("active",), reservation_life.FINAL)
_ENDED: Final = Wait("reservations.get", ("released", "cancelled"), reservation_life.FINAL)
_INSTANCE: Final = Wait("instances.get", ("running",), ("stopped", "failed", "denied", "deleted"))
_COMMAND: Final = Wait("commands.get", ("succeeded",), node_command.FINAL, itemgetter("status"), "reason")
_DRAIN: Final = Wait("nodes.get", ("drained",), ("not draining",), _drain, "", "allocations.list")


def _evicted(told: Any) -> str:
    """A pool's owner sees what is on its nodes, not another's reservation: it is released when all of that is free."""
    return "released" if told.get("items") == [] else str(told["state"])


_EVICTED: Final = Wait(
    "allocations.list",
    ("released", *sorted(reservation_life.FINAL - {"released", "denied"})),
    (),
    _evicted,
    id="reservationId",
)


def _provision(*good: str) -> Wait:
    return Wait("nodes.get", good, ("failed", "retired"), itemgetter("provisionState"), "")


WAITS: Final = {
    "reservations.create": _RESERVATION,
    "reservations.get": _RESERVATION,
    "reservations.confirm": _RESERVATION,
    "reservations.release": _ENDED,
    "reservations.cancel": _ENDED,
    "instances.create": _INSTANCE,
    "instances.get": _INSTANCE,
    "instances.start": Wait("instances.get", ("running",), ("denied", "deleted")),
    "instances.stop": Wait("instances.get", ("stopped",), ("failed", "deleted")),
    "instances.delete": Wait("instances.get", ("deleted",), ()),
    "commands.issue": _COMMAND,
    "commands.get": _COMMAND,
    "nodes.drain": _DRAIN,
    "nodes.adopt": _provision("adopted"),
    "nodes.inspect": _provision("ready"),
    "nodes.commission": _provision("ready"),
    "nodes.deploy": _provision("deployed"),
    "nodes.release": _provision("ready"),
    "pools.evict": _EVICTED,
    "extensions.get": Wait("extensions.get", ("applied",), ("denied", "expired")),
}
"""Operations whose answer is not the end of it (domain.md §3, §5, §8)."""


def option(wait: Wait) -> Iterator[click.Option]:
    """The options that ask for it."""
    until = f"until it is {' or '.join(wait.good)}{', or final' if wait.final else ''}"
    yield click.Option(["_wait", "--wait"], is_flag=True, help=f"ask again {until}, showing progress")
    limit = "seconds to wait at most [default: 300]"
    yield click.Option(["_timeout", "--timeout"], type=click.FloatRange(min=0), default=300.0, help=limit)


def wait(api: "client.Client", registry: Table, name: str, body: Any, timeout: float) -> tuple[Any, str | None]:
    """Ask again until the state is good or final, saying each change; a server that fails may recover.

    The last answer, and the state that it ended in where that is no success. Raises Failed after `timeout` seconds,
    with what the server last failed with.
    """
    until = WAITS[name]
    begun = time.monotonic()
    pause, shown, trouble = FIRST_PAUSE_SECONDS, None, ""
    first, identifier = body, str(body[until.id])
    with _Line() as line:
        while True:
            state = tables.cell("", until.state(body))
            reason = f" ({tables.cell('', body[until.reason])})" if body.get(until.reason) else ""
            left = _left(api, registry[until.left], identifier) if until.left else _to_go(body)
            told = f"{tables.printable(identifier)}: {state}{reason}{left}"
            if told != shown:
                line.tell(told)
                shown = told
            if state in until.good or state in until.final:
                return _ended(body, state), None if state in until.good else state
            spent = time.monotonic() - begun
            if spent + pause > timeout:
                raise troubles.Failed(f"still {state} after {timeout:g} s{trouble}")
            line.show(f"{told}, {spent:.0f} s")
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
            try:
                body, trouble = _again(api, registry[until.get], until, first), ""
            except (troubles.Failed, troubles.Busy) as failure:
                trouble = f"; the last time asked: {failure.message}"


def _again(api: "client.Client", get: Operation, until: Wait, first: Any) -> Any:
    """The thing as it is now; or the first answer, and what is still to be freed of it."""
    identifier = str(first[until.id])
    if get.path_fields:
        return api.send("GET", get.path.replace(f"{{{get.path_fields[0]}}}", quote(identifier, safe=""))).thing
    query = {until.id: identifier, "state": "releasing", "limit": str(MOST_COUNTED)}
    return {**first, "items": api.send("GET", get.path, query=query).page.rows}


def _to_go(body: Any) -> str:
    count = len(body.get("items", ()))
    return f", on {count} node{'s' if count > 1 else ''}" if count else ""


def _ended(body: Any, state: str) -> Any:
    """What the first answer has come to; the version that it had then is past."""
    if "items" not in body:
        return body
    return {name: value for name, value in body.items() if name not in ("items", "version")} | {"state": state}


def _left(api: "client.Client", listing: Operation, identifier: str) -> str:
    """How much is in the way; it is only progress, so that whoever may not see it waits as well."""
    query = {"nodeId": identifier, "scope": "fleet", "order": "desc", "limit": str(MOST_COUNTED)}
    try:
        rows = api.send("GET", listing.path, query=query).page.rows
    except troubles.Trouble:
        return ""
    states = Counter(str(row["state"]) for row in rows if row["state"] != "released")
    return "".join(f", {count} {tables.printable(state)}" for state, count in sorted(states.items()))


class _Line:
    """The state and its seconds in one line of a terminal, in place; elsewhere changes alone."""

    def __init__(self) -> None:
        self._shown = ""

    def tell(self, text: str) -> None:
        self.show("")
        click.echo(text, err=True)

    def show(self, text: str) -> None:
        if not sys.stderr.isatty():
            return
        text = tables.cut(text, shutil.get_terminal_size().columns - 1) if text else ""
        sys.stderr.write(f"\r{' ' * tables.columns_of(self._shown)}\r{text}")
        sys.stderr.flush()
        self._shown = text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.show("")
