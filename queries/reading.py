"""What a query works with, and keyset pages."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, LiteralString

import msgspec
from psycopg import Connection

from domain import errors
from domain.access import Session
from domain.event import Recorded
from domain.operation import Answer, Listing, Page


class Reader(msgspec.Struct, frozen=True):
    """A connection for this query, who asks, and the log's own streams for what must be current."""

    connection: Connection[Any]
    session: Session
    now: int
    position: int
    load: Callable[[str], Any]
    history: Callable[[str], list[Recorded]]


def tenants(request: Listing, read: Reader) -> str | None:
    """The tenant whose rows a list shows; None is every tenant's, which only scope=fleet gives."""
    return None if request.scope == "fleet" else read.session.tenant_id


def after(request: Listing) -> tuple[int, str]:
    """Where the page begins: behind the last row of the page before."""
    if request.cursor is None:
        return (-1, "")
    try:
        created, id = msgspec.json.decode(base64.urlsafe_b64decode(request.cursor), type=tuple[int, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise errors.Invalid("cursor", "is not the nextCursor of an earlier page") from None
    return created, id


def page(rows: Sequence[tuple[int, str, bytes]], limit: int, position: int) -> Answer:
    """A page of rows (created, id, view), read with one more than `limit` to know whether another follows."""
    cursor = None
    if len(rows) > limit:
        created, id, _ = rows[limit - 1]
        cursor = base64.urlsafe_b64encode(msgspec.json.encode((created, id))).decode()
    items = tuple(msgspec.Raw(view) for _, _, view in rows[:limit])
    return Answer(body=Page(items, cursor), position=position)


def listed(read: Reader, request: Listing, sql: LiteralString, filters: Sequence[Any]) -> Answer:
    """Run a list's statement, whose last parameters are the place in the order and the number of rows."""
    params = (*filters, *after(request), request.limit + 1)
    rows = read.connection.execute(sql, params, prepare=True).fetchall()
    return page(rows, request.limit, read.position)


def one(read: Reader, stream: str, view: Callable[[str, Any, int], Any]) -> Answer:
    """One thing, folded from its stream: always current."""
    loaded = read.load(stream)
    body = view(stream, loaded.state, loaded.version)
    return Answer(body=body, position=loaded.position, version=loaded.version)
