"""What a query works with, and keyset pages."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final, LiteralString

import msgspec
from psycopg import Connection

from domain import catalog, errors
from domain.access import Resource, Session
from domain.event import Recorded
from domain.operation import Answer, Listing, Page, Paged

SHORT_PAGE_AFTER: Final = 10
"""A page whose rows the caller may mostly not see is cut short after so many reads; the cursor goes on."""

_INT64: Final = range(-(1 << 63), 1 << 63)

Row = tuple[int, str, bytes]
"""Where a row stands in the order, its id, and what is shown of it."""


class Reader(msgspec.Struct, frozen=True):
    """A connection for this query, who asks, and the log's own streams for what must be current.

    `resolve` gives a thing as the caller's tenant sees it, `allowed` decides an action on it, `unseen` keeps a record
    of what did not resolve and makes the refusal. `log` reads events by position, `visible` is the position up to
    which everything has been read.
    """

    connection: Connection[Any]
    session: Session
    now: int
    position: int
    load: Callable[[str], Any]
    history: Callable[[str], list[Recorded]]
    resolve: Callable[[str, str], Resource | None]
    allowed: Callable[[str, Resource], bool]
    unseen: Callable[[str, str, str], errors.NotFound]
    log: Callable[[int, int, int], list[Recorded]]
    visible: Callable[[], int]


def tenants(request: Listing, read: Reader) -> str | None:
    """The tenant whose rows a list shows; None is every tenant's, which only scope=fleet gives."""
    return None if request.scope == "fleet" else read.session.tenant_id


def after(request: Paged) -> tuple[int, str] | None:
    """Where the page begins: behind the last row of the page before."""
    if request.cursor is None:
        return None
    try:
        at, id = msgspec.json.decode(base64.urlsafe_b64decode(request.cursor), type=tuple[int, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        at, id = -1, ""
    if not id.isprintable() or not id or at not in _INT64:
        raise errors.Invalid("cursor", "is not the nextCursor of an earlier page")
    return at, id


def may_get(read: Reader, type: str, ids: Sequence[str]) -> frozenset[str]:
    """Which of these things of one type, all within the caller's view, the caller may `get`."""
    sql = "SELECT id, parent_id, attributes FROM catalog WHERE type = %s AND id = ANY(%s)"
    tenant, pool = read.session.tenant_id, "compute-pool"
    return frozenset(
        id
        for id, parent, attributes in read.connection.execute(sql, (type, ids), prepare=True).fetchall()
        if read.allowed(catalog.GET[type], Resource(type, id, tenant, attributes, pool if parent else None, parent))
    )


def listed(read: Reader, request: Paged, sql: LiteralString, filters: Sequence[Any], of: str | None = None) -> Answer:
    """One page of the rows that `sql` selects as (place in the order, id, view), in the order of place and id.

    With `of`, a resource type, only rows whose `get` the caller may are shown (api.md §2, Lists); whoever may list
    the whole fleet sees all of it.
    """
    whole = of is None or getattr(request, "scope", "tenant") == "fleet"
    place, more = after(request), True
    rows: list[Row] = []
    for _ in range(SHORT_PAGE_AFTER):
        found = _read(read, request, sql, filters, place)
        ids = [id for _, id, _ in found]
        may = frozenset(ids) if of is None or whole else may_get(read, of, ids)
        for row in found[: request.limit]:
            place = row[:2]
            if row[1] in may:
                rows.append(row)
            if len(rows) == request.limit:
                break
        more = bool(found) and place != found[-1][:2]
        if not more or len(rows) == request.limit:
            break
    return _page(rows, place if more else None, read.position)


def _read(
    read: Reader, request: Paged, sql: LiteralString, filters: Sequence[Any], place: tuple[int, str] | None
) -> list[Row]:
    """One row more than the page, to know whether another follows."""
    rows: LiteralString = "SELECT * FROM (" + sql + ") AS listed (at, id, view)"
    behind: LiteralString = " WHERE (at, id) > (%s, %s) ORDER BY at, id LIMIT %s"
    before: LiteralString = " WHERE (at, id) < (%s, %s) ORDER BY at DESC, id DESC LIMIT %s"
    start = (-(1 << 63), "") if request.order == "asc" else ((1 << 63) - 1, "")
    params = (*filters, *(place or start), request.limit + 1)
    return read.connection.execute(
        rows + (behind if request.order == "asc" else before), params, prepare=True
    ).fetchall()


def _page(rows: Sequence[Row], place: tuple[int, str] | None, position: int) -> Answer:
    cursor = None if place is None else base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()
    return Answer(body=Page(tuple(msgspec.Raw(view) for _, _, view in rows), cursor), position=position)


def one(read: Reader, stream: str, view: Callable[[str, Any, int], Any]) -> Answer:
    """One thing, folded from its stream: always current."""
    loaded = read.load(stream)
    body = view(stream, loaded.state, loaded.version)
    return Answer(body=body, position=loaded.position, version=loaded.version)
