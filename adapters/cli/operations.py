"""A click command for each operation of the registry: it asks a server and shows the answer to a person."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote
from uuid import uuid4

import click

from adapters.cli import (
    client,
    completing,
    fields,
    picking,
    server_options,
    showing,
    uploading,
    waiting,
    watching,
)
from adapters.cli.main import kebab
from domain.operation import Operation

Registry = Mapping[str, Operation]

MOST_ROWS: Final = 1000
"""Of one page (api.md §2)."""

EVERY: Final = f"{watching.EVERY_SECONDS:g}"
_WATCH: Final = "--watch"
_NUMBER: Final = re.compile(r"[0-9]*\.?[0-9]+")

asking: Final = server_options.asking
show_record: Final = showing.show_record
sink: Final = showing.sink
"""For commands by hand, which import this module."""


def verbs(registry: Registry, group: str) -> dict[str, Operation]:
    """The operations of a group under the verb one types: `nodes.cordon` is `cordon` of `nodes`."""
    found = {}
    for name, operation in registry.items():
        noun, _, verb = name.partition(".")
        if kebab(noun) == group:
            found[kebab(verb.replace(".", "-"))] = operation
    return found


class Command(click.Command):
    """The command of an operation; it knows its operation, for the reference."""

    operation: Operation

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """An example, as one copies it: click would break its lines anew."""
        from adapters.cli import examples

        with formatter.section("Example"):
            for line in examples.line(self.operation, ctx.info_name).split("\n"):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`--watch` may stand before an argument: only a number that follows is its pause."""
        if any("--watch" in param.opts for param in self.params):
            args = [f"{_WATCH}={EVERY}" if _bare_watch(args, at) else word for at, word in enumerate(args)]
        return super().parse_args(ctx, args)


def command(operation: Operation, registry: Registry) -> Command:
    """The command of one operation; `registry` is where `--wait` finds what it asks again."""
    known = fields.of(operation)
    in_path = fields.path_names(operation)
    completes = {name: completing.of(operation, registry, field) for name, field in known.items()}
    arguments = [fields.argument(known[name], completes[name]) for name in in_path]
    options = [fields.option(field, completes[name]) for name, field in known.items() if name not in in_path]
    if operation.content is not None:
        arguments.append(click.Argument(["_file"], metavar="FILE", type=click.Path(dir_okay=False, path_type=Path)))
    verb = operation.name.partition(".")[2].replace(".", "-")
    made = Command(
        kebab(verb),
        params=[*arguments, *options, *_own_options(operation)],
        callback=partial(run, operation, registry),
        help=f"{operation.summary}\n\n{operation.verb} {operation.path}, decided as {operation.action}",
        short_help=operation.summary,
    )
    made.operation = operation
    return made


def run(operation: Operation, registry: Registry, **values: Any) -> None:
    """Ask the server and show the answer; what it refuses leaves as client.Trouble, with its exit status."""
    own = {name[1:]: values.pop(name) for name in [*values] if name.startswith("_")}
    path, request = assemble(operation, values, own.get("json_body"))
    api = client.Client(own["server"], own["token"])
    if own.get("watch") is not None:
        _watch(operation, api, path, request, own)
        return
    act = _look if operation.in_url else _change
    answer = act(api, operation, path, request, own)
    body, otherwise = answer.body, None
    if own.get("wait"):
        body, otherwise = waiting.wait(api, registry, operation.name, body, own["timeout"])
    if own.get("where"):
        body = picking.where(body, own["where"])
    if field := picking.asked(own):
        picking.show(body, field)
    else:
        showing.show(operation, body, as_json=own["json"], streamed=not client.is_json(answer.headers))
    if otherwise is not None:
        raise client.Refused(f"the wait ended in {otherwise}")


def _watch(
    operation: Operation, api: client.Client, path: str, request: dict[str, Any], own: Mapping[str, Any]
) -> None:
    if own.get("wait") or "asOf" in request or picking.asked(own):
        raise click.UsageError("--watch shows what is now, without an end: no --wait, --as-of or --print beside it")

    def ask() -> Any:
        body = _look(api, operation, path, {**request}, own).body
        return picking.where(body, own["where"]) if own.get("where") else body

    watching.watch(operation, ask, own["watch"], as_json=own["json"])


def _look(
    api: client.Client, operation: Operation, path: str, request: dict[str, Any], own: Mapping[str, Any]
) -> client.Answer:
    """Ask a query by GET, for every page with `--all` or `--where`."""
    everything = own.get("all") or own.get("where")
    if everything:
        request.setdefault("limit", MOST_ROWS)
    answer = api.send("GET", path, query=fields.query(request), sink=showing.sink() if operation.streaming else None)
    if everything and answer.body is not None:
        if "asOf" in request:
            request["asOf"] = f"@{answer.headers['X-Position']}"  # an instant just past may yet mean a later one
        answer = answer._replace(body=_every_page(api, path, request, answer.body))
    return answer


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
        return api.send(operation.verb, path, body=body, headers=headers)
    except client.Failed as failure:
        if not key:
            raise
        again = f"to ask again without doing it twice: --idempotency-key {key}"
        raise client.Failed(f"{failure.message}\n{again}") from None


def _every_page(api: client.Client, path: str, request: dict[str, Any], first: Any) -> Any:
    items, cursor = _page(first)
    items = [*items]
    while cursor:
        before = cursor
        more, cursor = _page(api.send("GET", path, query=fields.query(request | {"cursor": cursor})).body)
        if cursor == before:
            raise client.Failed("the server names the same page again and again")
        items += more
    return {"items": items}


def _page(body: Any) -> tuple[list[Any], Any]:
    """The rows of a page, and where the next one begins."""
    rows = body.get("items", []) if isinstance(body, dict) else None
    if not isinstance(rows, list):
        raise client.Failed("the answer is no page of a list")
    return rows, body.get("nextCursor")


def _own_options(operation: Operation) -> Iterator[click.Option]:
    if operation.in_url:
        if operation.streaming is None:
            text = f"show what changes, asked every so many seconds [{EVERY} if left out], until Ctrl-C"
            pause = click.FloatRange(min=watching.LEAST_SECONDS)
            yield click.Option(
                ["_watch", _WATCH],
                type=pause,
                is_flag=False,
                flag_value=watching.EVERY_SECONDS,
                metavar="[SECONDS]",
                help=text,
            )
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
    if operation.name in waiting.WAITS:
        yield from waiting.option(waiting.WAITS[operation.name])
    yield from picking.options(operation)
    credential = {"join-token": "join token", "resolver": "resolver key"}.get(operation.credential, "access token")
    yield from server_options.asking(credential)


def _bare_watch(words: list[str], at: int) -> bool:
    """Whether a word is `--watch` with no number behind it."""
    following = words[at + 1 : at + 2]
    return words[at] == _WATCH and not (following and _NUMBER.fullmatch(following[0]))


def _read(document: IO[str]) -> dict[str, Any]:
    try:
        body = json.load(document)
    except ValueError as wrong:
        raise click.UsageError(f"--json-body is not JSON: {wrong}") from None
    if not isinstance(body, dict):
        raise click.UsageError("--json-body is no JSON object")
    return body
