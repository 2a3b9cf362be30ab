"""Completion of ids: a server is asked for the things that one could mean, and only for a second.

Completion says nothing when it fails: whoever types goes on typing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import inspect

from adapters.cli import server_options, tables
from adapters.cli.main import kebab
from domain.operation import Operation, Table

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

WITHIN_SECONDS: Final = 1.0
MOST: Final = 1000

LISTS: Final = {
    "siteId": "sites.list",
    "poolId": "pools.list",
    "projectId": "projects.list",
    "flavorId": "flavors.list",
    "imageId": "images.list",
    "nodeId": "nodes.list",
    "reservationId": "reservations.list",
}
"""Fields that name a thing, and what lists them."""

Completing = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def of(operation: Operation, registry: Table, field: inspect.Field) -> Completing | None:
    """How a field completes; None where no list has its things."""
    name = LISTS.get(field.encode_name)
    if field.encode_name == "id":
        name = _listing(operation, registry)
    if name is None or name.partition(".")[0] not in registry.nouns:
        return None

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        return _matching(_asked(registry[name], ctx), incomplete)

    return complete


def named(listing: str, registry: Callable[[], Table]) -> Completing:
    """How an option completes that takes a name as well as an id: by names."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        rows = _asked(registry()[listing], ctx)
        return _items(((str(row.get("name", "")), row) for row in rows), incomplete) or _matching(rows, incomplete)

    return complete


def _listing(operation: Operation, registry: Table) -> str | None:
    """What lists the things of an `id`: they are of what stands before it in the path; another noun has a list."""
    path, own = operation.path.partition("/{id}")[0], operation.name.partition(".")[0]
    noun = next((noun for noun in registry.nouns if path == f"/v1/{kebab(noun)}"), None)
    listing = f"{noun}.list"
    if noun is None or (noun == own and (listing not in registry or registry[listing].path != path)):
        return None
    return listing


def _matching(rows: list[Any], incomplete: str) -> "list[CompletionItem]":
    """By id; where none begins so, by name: the shell then puts the id in its place."""
    rows = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
    found = [row for row in rows if row["id"].startswith(incomplete)]
    found = found or [row for row in rows if str(row.get("name", "")).startswith(incomplete)]
    return _items(((row["id"], row) for row in found), "")


def _items(rows: Iterable[tuple[str, Mapping[str, Any]]], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(text, help=_told(row))
        for text, row in rows
        if text and text.isprintable() and text.startswith(incomplete)
    ]


def _told(row: Mapping[str, Any]) -> str:
    told = [row.get(name) for name in ("name", "state", "provisionState", "status")]
    return ", ".join(tables.printable(str(value)) for value in told if value)


def _asked(listing: Operation, ctx: click.Context) -> list[Any]:
    """The newest first, as many as come in time; the thread that waits for more ends with the program."""
    from adapters.cli import client

    rows: list[Any] = []

    def ask() -> None:
        query = {"limit": str(MOST), "order": "desc"}
        try:
            api = client.Client(*server_options.meant(ctx), timeout=WITHIN_SECONDS)
            rows.extend(api.send("GET", listing.path, query=query).page.rows)
        except click.ClickException:
            return

    from threading import Thread

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(WITHIN_SECONDS)
    return list(rows)
