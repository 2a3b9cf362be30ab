"""What scripts pick from an answer: rows by a field's value, and ids alone."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from adapters.cli import fields, tables
from domain.operation import Operation


def options(operation: Operation) -> Iterator[click.Option]:
    """`--id`, unless the request has a field of that name, and for lists `--where`."""
    known = fields.of(operation)
    if "id" not in known or "id" in fields.path_names(operation):
        yield click.Option(["_id", "--id"], is_flag=True, help="print the id alone, one a line; exit status 1 for none")
    if "cursor" in known:
        text = "only rows whose field has this value, of all pages; may be repeated"
        yield click.Option(["_where", "--where"], multiple=True, metavar="FIELD=VALUE", callback=_pairs, help=text)


def where(body: dict[str, Any], wanted: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The answer with those rows alone that show each value in its field, as the table would."""

    def is_wanted(row: object) -> bool:
        return all(tables.cell(field, tables.lookup(row, field)) == value for field, value in wanted)

    return body | {"items": [row for row in body["items"] if is_wanted(row)]}


def ids(body: Any) -> list[str]:
    """Of the rows of a list, or of the one thing that was answered."""
    rows = body.get("items", [body]) if isinstance(body, dict) else []
    return [tables.printable(str(row["id"])) for row in rows if isinstance(row, dict) and "id" in row]


def _pairs(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    if wrong := next((text for text, pair in zip(texts, pairs, strict=True) if not pair[1] or not pair[0]), None):
        raise click.BadParameter(f"{wrong!r} is not FIELD=VALUE", param=option)
    return tuple((field, value) for field, _, value in pairs)
