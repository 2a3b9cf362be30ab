"""What a command of an operation does: the request that was typed, asked and shown."""

import json
from collections.abc import Mapping
from typing import IO, Any, Final
from urllib.parse import quote
from uuid import uuid4

import click

from adapters.cli import answers, client, fields, picking, showing, troubles, uploading, waiting, watching
from domain.operation import Operation, Table

MOST_ROWS: Final = 1000
"""Of one page (api.md §2)."""


def run(operation: Operation, registry: Table, **values: Any) -> None:
    """Ask the server and show the answer; what it refuses leaves as troubles.Trouble, with its exit status."""
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
        body, otherwise = waiting.wait(api, registry, operation.name, answer.thing, own["timeout"])
    if own.get("where"):
        body = picking.where(body, own["where"])
    if field := picking.asked(own):
        picking.show(body, field)
    else:
        showing.show(operation, body, as_json=own["json"], streamed=not client.is_json(answer.headers))
    if otherwise is not None:
        raise troubles.Refused(f"the wait ended in {otherwise}")


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
    if everything:
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
    except troubles.Failed as failure:
        if not key:
            raise
        again = f"to ask again without doing it twice: --idempotency-key {key}"
        raise troubles.Failed(f"{failure.message}\n{again}") from None


def _every_page(api: client.Client, path: str, request: dict[str, Any], first: Any) -> Any:
    items, cursor = answers.page(first)
    items = [*items]
    while cursor:
        before = cursor
        more, cursor = api.send("GET", path, query=fields.query(request | {"cursor": cursor})).page
        if cursor == before:
            raise troubles.Failed("the server names the same page again and again")
        items += more
    return {"items": items}


def _read(document: IO[str]) -> dict[str, Any]:
    try:
        body = json.load(document)
    except ValueError as wrong:
        raise click.UsageError(f"--json-body is not JSON: {wrong}") from None
    if not isinstance(body, dict):
        raise click.UsageError("--json-body is no JSON object")
    return body
