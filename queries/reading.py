"""What a query works with, and keyset pages."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, LiteralString

import msgspec

from domain import budget, errors, registry
from domain.access import Foresight, Plan, Resource, Session
from domain.calendar import Calendar
from domain.event import Recorded
from domain.operation import Answer, Listing, Page, Paged
from domain.selector import Selectors
from queries import sight
from queries.sight import Sight, Through

if TYPE_CHECKING:
    from psycopg import Connection

SHORT_PAGE_AFTER: Final = 10
"""A page is cut short after so many reads where each row is decided, and most are refused; the cursor goes on."""

_INT64: Final = range(-(1 << 63), 1 << 63)

Ids = Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=100, description="one, or several with commas")]
"""What a list is narrowed to: things of any of these."""

Place = tuple[int, str]
"""Where a row stands in the order, and its id: what a cursor says."""

Row = tuple[int, str, int, bytes]
"""A row's place, its version (0 where it has none), and what is shown of it or the state that it is made from."""

Fetch = Callable[[Place | None], list[tuple[Any, ...]]]
"""One row more than the page behind a place, to know whether another follows; each with what `Sight.over` adds."""


class LookAhead(msgspec.Struct, frozen=True):
    """What a look ahead works with, as a create does.

    `calendar` is a pool's, held still while it is looked at; `foresee` what a decision on a thing that is not there yet
    would be; `accounts` how budgets stand, by their scopes; `offer` the offering, with its priority, under which the
    caller sees a pool; `queue` the first so many who wait for a pool before a claim's spot, priority and since.
    """

    calendar: Callable[[str], AbstractContextManager[Calendar]]
    selectors: Selectors
    foresee: Callable[[str, Resource], Foresight]
    accounts: Callable[[Sequence[str]], Sequence[budget.Account]]
    offer: Callable[[str], tuple[str, int] | None]
    queue: Callable[[str, tuple[bool, int, int], int], Sequence[str]]


class Reader(msgspec.Struct, frozen=True):
    """A connection for this query, who asks, and the log's own streams for what must be current.

    `now` is the present in epoch ms, or the instant of the past that is asked for. `resolve` gives a thing as the
    caller's tenant sees it, `plan` says which things of a type an action is allowed on and `allowed` decides it on
    each, `decide` decides the operation itself and refuses, `unseen` keeps a record of what did not resolve and makes
    the refusal. `log` reads events by position, `visible` is the position up to which everything has been read. `as_of`
    is the position that is asked for, None is the present; `load_as_of` folds a stream up to a position, `load_version`
    up to a version, `versions` reads those in `(after, until]`, `at` those at positions, each with the hex SHA-256 of
    its stored bytes. `load_all` and `load_all_as_of` fold several streams at once. `earlier` is the position that a
    `diff` begins at. `position` is what the answer shows.
    """

    connection: "Connection[Any]"
    session: Session
    now: int
    position: int
    load: Callable[[str], Any]
    history: Callable[[str], list[Recorded]]
    resolve: Callable[[str, str], Resource | None]
    plan: Callable[[str, str], Plan]
    allowed: Callable[[str, Sequence[Resource]], Sequence[bool]]
    unseen: Callable[[str, str, str], errors.NotFound]
    log: Callable[[int, int, int], list[Recorded]]
    visible: Callable[[], int]
    as_of: int | None
    load_as_of: Callable[[str, int], Any]
    load_all_as_of: Callable[..., Sequence[Any]]
    decide: Callable[[Resource], None]
    load_version: Callable[[str, int], Any]
    versions: Callable[[str, int, int], list[Recorded]]
    at: Callable[[Sequence[int]], list[tuple[Recorded, str]]]
    load_all: Callable[[Sequence[str]], Sequence[Any]]
    ahead: LookAhead
    earlier: int | None = None


def tenants(request: Listing, read: Reader) -> str | None:
    """The tenant whose rows a list shows; None is every tenant's, which only scope=fleet gives."""
    return None if request.scope == "fleet" else read.session.tenant_id


def filters(request: Listing, read: Reader) -> dict[str, Any]:
    """A list's parameters by name: the request's own fields, and `tenant`, whose rows it shows (null: everybody's)."""
    asked = msgspec.structs.asdict(request).items()
    return {name: [*value] if type(value) is tuple else value for name, value in asked} | {
        "tenant": tenants(request, read)
    }


def after(request: Paged, mark: str = "") -> Place | None:
    """Where the page begins: behind the last row of the page before, which was of this list, order and mark."""
    if request.cursor is None:
        return None
    try:
        decoded = base64.b64decode(request.cursor, altchars=b"-_", validate=True)
        at, id, marked = msgspec.json.decode(decoded, type=tuple[int, str, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        at, id, marked = -1, "", ""
    if not id.isprintable() or not id or at not in _INT64 or marked != _of(request, mark):
        raise errors.Invalid("cursor", "is not the nextCursor of an earlier page")
    return at, id


def _of(request: Paged, mark: str) -> str:
    """The list that a cursor is of."""
    list_ = type(request)
    return f"{list_.__module__.removeprefix('queries.')}.{list_.__name__} {request.order}{mark}"


def listed(
    read: Reader,
    request: Paged,
    sql: LiteralString,
    wanted: Mapping[str, Any],
    of: Through | None = None,
    show: Callable[[Row], Row] = lambda row: row,
    mark: str = "",
) -> Answer:
    """One page of the rows that `sql` selects, in the order of place and id; `mark` tells cursors of other orders."""
    sees = sight_of(read, request, of)
    fetch = partial(_read, read, request, sees.over(sql), {**wanted, **sees.params})
    rows, place = page_of(read, request, after(request, mark), fetch, sees)
    return page(request, [show(row) for row in rows], place, read.position, mark)


def sight_of(read: Reader, request: Paged, of: Through | None) -> Sight:
    """Only rows that the caller may see are shown (api.md §2, Lists); whoever may list the whole fleet sees all."""
    if of is None or getattr(request, "scope", "tenant") == "fleet":
        return sight.EVERYTHING
    return sight.of(read, of)


def page_of(
    read: Reader, request: Paged, place: Place | None, fetch: Fetch, sees: Sight
) -> tuple[list[Row], Place | None]:
    """The page's rows behind a place, and where the next page begins."""
    if sees.blind:
        return [], None
    more = True
    rows: list[Row] = []
    for _ in range(SHORT_PAGE_AFTER):
        found = fetch(place)
        may = sees.seen(read, found)
        for row in found[: request.limit]:
            place = row[:2]
            if row[1] in may:
                rows.append(row[:4])
            if len(rows) == request.limit:
                break
        more = bool(found) and place != found[-1][:2]
        if not more or len(rows) == request.limit:
            break
    return rows, place if more else None


def _read(
    read: Reader, request: Paged, rows: LiteralString, wanted: Mapping[str, Any], place: Place | None
) -> list[tuple[Any, ...]]:
    behind: LiteralString = " AND (at, listed.id) > (%(_at)s, %(_id)s) ORDER BY at, listed.id LIMIT %(_most)s"
    before: LiteralString = " AND (at, listed.id) < (%(_at)s, %(_id)s) ORDER BY at DESC, listed.id DESC LIMIT %(_most)s"
    at, id = place or ((-(1 << 63), "") if request.order == "asc" else ((1 << 63) - 1, ""))
    params = {**wanted, "_at": at, "_id": id, "_most": request.limit + 1}
    return read.connection.execute(
        rows + (behind if request.order == "asc" else before), params, prepare=False
    ).fetchall()


def page(request: Paged, rows: Sequence[Row], place: Place | None, position: int, mark: str = "") -> Answer:
    following = None if place is None else cursor(request, place, mark)
    return Answer(body=Page(tuple(msgspec.Raw(row[3]) for row in rows), following), position=position)


def cursor(request: Paged, place: Place, mark: str = "") -> str:
    """What `after` reads again."""
    return base64.urlsafe_b64encode(msgspec.json.encode((*place, _of(request, mark)))).decode()


def known(read: Reader, stream: str) -> Any:
    """A stream's state, as it is or as it was; version 0 where there is nothing of it."""
    return read.load(stream) if read.as_of is None else read.load_as_of(stream, read.as_of)


def one(read: Reader, stream: str, view: Callable[[str, Any, int], Any]) -> Answer:
    """One thing, folded from its stream: always current, or as of the position that is asked for."""
    if read.as_of is None:
        loaded = read.load(stream)
        position = loaded.position
    else:
        loaded, position = read.load_as_of(stream, read.as_of), read.as_of
        if not loaded.version:
            raise errors.NotFound(registry.kind(stream).noun, stream, when=f" as of @{position}")
    return Answer(body=view(stream, loaded.state, loaded.version), position=position, version=loaded.version)
