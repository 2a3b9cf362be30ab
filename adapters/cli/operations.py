"""A click command for each operation of the registry: it asks a server and shows the answer to a person."""

import codecs
import json
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import click

from adapters.cli import client, fields, picking, tables, uploading
from adapters.cli.main import kebab
from domain import node_command, reservation_life
from domain.operation import Operation

Registry = Mapping[str, Operation]

MOST_ROWS: Final = 1000
"""Of one page (api.md §2)."""

FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 2.0


class Wait(NamedTuple):
    """What `--wait` asks again, the state that is success, and those after which nothing comes.

    `state` and `reason` are the fields that tell them.
    """

    get: str
    good: str
    final: Collection[str]
    state: str = "state"
    reason: str = "stateReason"


_RESERVATION: Final = Wait(get="reservations.get", good="active", final=reservation_life.FINAL)
_INSTANCE: Final = Wait(get="instances.get", good="running", final=("stopped", "failed", "denied", "deleted"))
_STARTED: Final = Wait(get="instances.get", good="running", final=("denied", "deleted"))
_STOPPED: Final = Wait(get="instances.get", good="stopped", final=("failed", "deleted"))
_DELETED: Final = Wait(get="instances.get", good="deleted", final=())
_COMMAND: Final = Wait("commands.get", "succeeded", node_command.FINAL, "status", "reason")
WAITS: Final = {
    "reservations.create": _RESERVATION,
    "reservations.get": _RESERVATION,
    "reservations.confirm": _RESERVATION,
    "instances.create": _INSTANCE,
    "instances.get": _INSTANCE,
    "instances.start": _STARTED,
    "instances.stop": _STOPPED,
    "instances.delete": _DELETED,
    "commands.issue": _COMMAND,
    "commands.get": _COMMAND,
}
"""Operations whose answer is not the end of it (domain.md §5, §8)."""


def verbs(registry: Registry, group: str) -> dict[str, Operation]:
    """The operations of a group under the verb one types: `nodes.cordon` is `cordon` of `nodes`."""
    found = {}
    for name, operation in registry.items():
        noun, _, verb = name.partition(".")
        if kebab(noun) == group:
            found[kebab(verb.replace(".", "-"))] = operation
    return found


def command(operation: Operation, registry: Registry) -> click.Command:
    """The command of one operation; `registry` is where `--wait` finds what it asks again."""
    known = fields.of(operation)
    in_path = fields.path_names(operation)
    arguments = [fields.argument(known[name]) for name in in_path]
    options = [fields.option(field) for name, field in known.items() if name not in in_path]
    if operation.content is not None:
        arguments.append(click.Argument(["_file"], metavar="FILE", type=click.Path(dir_okay=False, path_type=Path)))
    verb = operation.name.partition(".")[2].replace(".", "-")
    return click.Command(
        kebab(verb),
        params=[*arguments, *options, *_own_options(operation)],
        callback=partial(run, operation, registry),
        help=f"{operation.summary}\n\n{operation.verb} {operation.path}, decided as {operation.action}",
        short_help=operation.summary,
    )


def run(operation: Operation, registry: Registry, **values: Any) -> None:
    """Ask the server and show the answer; what it refuses leaves as client.Trouble, with its exit status."""
    own = {name[1:]: values.pop(name) for name in [*values] if name.startswith("_")}
    path, request = assemble(operation, values, own.get("json_body"))
    api = client.Client(own["server"], own["token"])
    if operation.in_url:
        everything = own.get("all") or own.get("where")
        if everything:
            request.setdefault("limit", MOST_ROWS)
        answer = api.send("GET", path, query=fields.query(request), sink=sink())
        if everything and answer.body is not None:
            if "asOf" in request:
                request["asOf"] = f"@{answer.headers['X-Position']}"  # an instant just past may yet mean a later one
            answer = answer._replace(body=_every_page(api, path, request, answer.body))
    else:
        answer = _change(api, operation, path, request, own)
    body = answer.body
    if own.get("wait"):
        body = wait(api, registry[WAITS[operation.name].get], WAITS[operation.name], body, own["timeout"])
    if own.get("where"):
        body = picking.where(body, own["where"])
    if field := picking.asked(own):
        picking.show(body, field)
    else:
        show(operation, body, as_json=own["json"], streamed=not client.is_json(answer.headers))
    if own.get("wait") and body.get(WAITS[operation.name].state) != WAITS[operation.name].good:
        raise client.Refused(f"the wait ended in {tables.cell('', body.get(WAITS[operation.name].state))}")


def assemble(operation: Operation, values: Mapping[str, Any], document: IO[str] | None) -> tuple[str, dict[str, Any]]:
    """The path and the rest of the request; what is given by option stands over what the document says."""
    known = fields.of(operation)
    in_path = fields.path_names(operation)
    path = operation.path
    for placeholder, name in zip(operation.path_fields, in_path, strict=True):
        value = str(values[name])
        if value in ("", ".", ".."):
            raise click.UsageError(f"{value!r} is no {known[name].encode_name}")
        path = path.replace(f"{{{placeholder}}}", quote(value, safe=""))
    request = _read(document) if document else {}
    for name, field in known.items():
        if name in in_path:
            continue
        given = values.get(name)
        if given is not None and given != ():
            request[field.encode_name] = fields.value(field, given)
        if field.required and field.encode_name not in request:
            raise click.UsageError(f"missing option {fields.flag(field)!r}")
    return path, request


def wait(api: client.Client, get: Operation, until: Wait, body: Any, timeout: float) -> Any:
    """Ask again until the state is good or final, saying each change; a server that fails may recover.

    Raises Failed after `timeout` seconds, with what the server last failed with.
    """
    deadline = time.monotonic() + timeout
    pause, shown, trouble = FIRST_PAUSE_SECONDS, None, ""
    identifier = str(body["id"])
    path = get.path.replace(f"{{{get.path_fields[0]}}}", quote(identifier, safe=""))
    while True:
        if body[until.state] != shown:
            shown = body[until.state]
            reason = f" ({tables.cell('', body[until.reason])})" if body.get(until.reason) else ""
            click.echo(f"{tables.printable(identifier)}: {tables.cell('', shown)}{reason}", err=True)
        if shown == until.good or shown in until.final:
            return body
        if time.monotonic() + pause > deadline:
            raise client.Failed(f"still {tables.cell('', shown)} after {timeout:g} s{trouble}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
        try:
            body, trouble = api.send("GET", path).body, ""
        except (client.Failed, client.Busy) as failure:
            trouble = f"; the last time asked: {failure.message}"


def show(operation: Operation, body: Any, *, as_json: bool, streamed: bool = False) -> None:
    """Print an answer: a table, key/value lines, or JSON, in ASCII so that no terminal obeys it."""
    if body is None:
        if not as_json and not streamed:
            click.echo("done")
        return
    if as_json:
        click.echo(json.dumps(body, indent=2))
        return
    rows = body.get("items") if isinstance(body, dict) else body
    if isinstance(rows, list):
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        click.echo(tables.table(rows, operation.columns, width))
        if isinstance(body, dict) and body.get("nextCursor"):
            click.echo(f"there is more: --all, or --cursor {tables.cell('', body['nextCursor'])}", err=True)
    elif isinstance(body, dict):
        click.echo(tables.record(body))
    else:
        click.echo(tables.cell("", body))


def show_record(body: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one thing, as `show` does."""
    click.echo(json.dumps(body, indent=2) if as_json else tables.record(body))


def _change(
    api: client.Client, operation: Operation, path: str, request: dict[str, Any], own: Mapping[str, Any]
) -> client.Answer:
    """A lost answer is no loss where there is a key: it is shown, for the same request once more."""
    headers = {}
    if own.get("if_match") is not None:
        headers["If-Match"] = f'"{own["if_match"]}"'
    key = own.get("idempotency_key") or (str(uuid4()) if operation.key == "required" else None)
    if key:
        headers["Idempotency-Key"] = key
    body = None if operation.verb == "DELETE" and not request else request
    try:
        if operation.content is not None:
            return uploading.upload(api, operation.verb, path, own["file"], headers)
        return api.send(operation.verb, path, body=body, headers=headers, sink=sink())
    except client.Failed as failure:
        if not key:
            raise
        again = f"to ask again without doing it twice: --idempotency-key {key}"
        raise client.Failed(f"{failure.message}\n{again}") from None


def _every_page(api: client.Client, path: str, request: dict[str, Any], first: Any) -> Any:
    items, page = list(first.get("items", ())), first
    while cursor := page.get("nextCursor"):
        page = api.send("GET", path, query=fields.query(request | {"cursor": cursor})).body
        if page.get("nextCursor") == cursor:
            raise client.Failed("the server names the same page again and again")
        items += page.get("items", ())
    return {"items": items}


def _own_options(operation: Operation) -> Iterator[click.Option]:
    if operation.in_url:
        if "cursor" in fields.of(operation):
            yield click.Option(["_all", "--all"], is_flag=True, help="follow nextCursor to the end")
    else:
        if operation.content is None:
            whole = "the request as a JSON object, - for standard input; other options stand over it"
            yield click.Option(["_json_body", "--json-body"], type=click.File(encoding="utf-8"), help=whole)
        if not operation.looks:
            yield click.Option(["_if_match", "--if-match"], type=int, help="only if the thing has this version")
    if operation.key != "none":
        made = "made if left out" if operation.key == "required" else "none if left out"
        text = f"the same key never acts twice; {made}"
        yield click.Option(["_idempotency_key", "--idempotency-key"], help=text)
    if operation.name in WAITS:
        until = f"until it is {WAITS[operation.name].good} or final"
        yield click.Option(["_wait", "--wait"], is_flag=True, help=f"ask again {until}, showing progress")
        limit = "seconds to wait at most [default: 300]"
        yield click.Option(["_timeout", "--timeout"], type=click.FloatRange(min=0), default=300.0, help=limit)
    yield from picking.options(operation)
    credential = {"join-token": "join token", "resolver": "resolver key"}.get(operation.credential, "access token")
    yield from asking(credential)


def asking(credential: str = "access token") -> Iterator[click.Option]:
    """Options of every command that asks a server."""
    yield click.Option(
        ["_server", "--server"],
        envvar="BETTER_COMPUTE_SERVER",
        default="http://127.0.0.1:8080",
        show_default=True,
        show_envvar=True,
        help="address of the server",
    )
    variable = "BETTER_COMPUTE_TOKEN"
    yield click.Option(["_token", "--token"], envvar=variable, show_envvar=True, help=credential)
    yield click.Option(["_json", "--json"], is_flag=True, help="the answer as JSON, for programs")


def _read(document: IO[str]) -> dict[str, Any]:
    try:
        body = json.load(document)
    except ValueError as wrong:
        raise click.UsageError(f"--json-body is not JSON: {wrong}") from None
    if not isinstance(body, dict):
        raise click.UsageError("--json-body is no JSON object")
    return body


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
    return Screen() if sys.stdout.isatty() else sys.stdout.buffer
