"""What scripts pick from an answer: rows by a field's value, and ids or another field alone."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import click
from msgspec import structs

from adapters.cli import fields, tables, troubles
from domain.operation import Operation


def options(operation: Operation) -> Iterator[click.Option]:
    """`--print`; `--id` where the answer has one and the request no option of that name; for lists `--where`.

    A stream is shown as it comes: nothing is picked from it.
    """
    if operation.streaming is not None:
        return
    known = fields.of(operation)
    if has_id(operation.response) and ("id" not in known or "id" in fields.path_names(operation)):
        yield click.Option(["_id", "--id"], is_flag=True, help="print the id alone, as --print id")
    alone = "print this field alone, one a line; exit status 1 where nothing has it"
    yield click.Option(["_print", "--print"], metavar="FIELD", help=alone)
    if "cursor" in known:
        text = "only rows whose field has this value, of all pages; may be repeated"
        yield click.Option(["_where", "--where"], multiple=True, metavar="FIELD=VALUE", callback=_pairs, help=text)


def has_id(response: Any) -> bool:
    """Whether what a command answers, or each row of its list, has an `id`; of what is no struct nobody knows."""
    try:
        known = {field.encode_name: field.type for field in structs.fields(response)}
    except TypeError:
        return True
    rows = get_args(known["items"]) if "items" in known else ()
    return has_id(rows[0]) if rows else "id" in known


def asked(own: Mapping[str, Any]) -> str | None:
    """The field that is to be printed alone."""
    name: str | None = own.get("print")
    return name or ("id" if own.get("id") else None)


def where(body: dict[str, Any], wanted: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The answer with those rows alone that show each value in its field, as the table would."""

    def is_wanted(row: object) -> bool:
        return all(tables.cell(field, tables.lookup(row, field)) == value for field, value in wanted)

    return body | {"items": [row for row in body["items"] if is_wanted(row)]}


def show(body: Any, field: str) -> None:
    """Print a field of the rows of a list, or of one thing; a text as it is where no terminal would obey it."""
    rows = body.get("items", [body]) if isinstance(body, dict) else []
    values = [value for row in rows if (value := tables.lookup(row, field)) is not None]
    if not rows:
        raise troubles.Refused(f"there is no row, so no {tables.printable(field)!r}")
    if not values:
        raise troubles.Refused(f"nothing there has {tables.printable(field)!r}")
    for value in values:
        text = value if isinstance(value, str) and not sys.stdout.isatty() else tables.cell(field, value)
        click.echo(text, nl=not text.endswith("\n"))


def _pairs(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    if wrong := next((text for text, pair in zip(texts, pairs, strict=True) if not pair[1] or not pair[0]), None):
        raise click.BadParameter(f"{wrong!r} is not FIELD=VALUE", param=option)
    return tuple((field, value) for field, _, value in pairs)
