"""As known when: the position that `asOf` names, and lists of the row versions of then (architecture.md §3)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, LiteralString

import msgspec

from domain import errors, registry
from domain.operation import Answer, Paged
from domain.policy.instant import written
from projections import log_time
from queries import reading
from queries.reading import Place, Reader, Row
from queries.sight import Through

if TYPE_CHECKING:
    from psycopg import Connection

_LABEL: LiteralString = f"SELECT coalesce(({log_time.AS_OF}), 0), EXISTS (SELECT 1 FROM log_time WHERE t > %s)"
_KEPT: LiteralString = "SELECT position FROM history_horizon"


_VERBS: tuple[LiteralString, ...] = ("FROM ", "JOIN ", "LATERAL ")
_SHOWN: LiteralString = "SELECT %(_as_of)s::bigint, id, 0::bigint, coalesce(view, '') FROM ("
_AS_SHOWN: LiteralString = ") AS walked (id, view)"
_STOOD: LiteralString = "SELECT %(_as_of)s::bigint, id, coalesce(until, 0), ''::bytea FROM ("
_AS_STOOD: LiteralString = ") AS walked (id, until)"

MARK: Literal["asOf"] = "asOf"
"""In a cursor of the past: it is none of the present, which has other places."""


class Rows(msgspec.Struct, frozen=True):
    """What a list selects: `now` as `reading.Row`, `then` as (id, view) at position `_as_of`.

    Those of a read model's `table` are shown by the thing's state: the row's own, or then the one folded from its
    stream. There `then` is (id, until), the version of the stream that ended how the row was; null if it still is so.
    """

    now: LiteralString
    then: LiteralString
    table: LiteralString = ""

    @property
    def past(self) -> LiteralString:
        """`then` as `reading.Row`, whose version is `until`."""
        return _STOOD + self.then + _AS_STOOD if self.table else _SHOWN + self.then + _AS_SHOWN


def rows(table: LiteralString, mine: LiteralString, wanted: LiteralString) -> Rows:
    """The list of a read model: `mine` are the rows that the caller sees today, `wanted` is what filters ask.

    The version found bears the table's name, so that `wanted` asks the same of it as of the row.
    """
    return Rows(
        f"SELECT created_at, id, version, state FROM {table} WHERE {mine} AND {wanted}",
        f"""
        SELECT walked.id, {table}.to_version
        FROM (SELECT id FROM {table} WHERE {mine}) AS walked CROSS JOIN LATERAL {version_of(table)}
        WHERE {wanted}
        """,
        table,
    )


def version_of(table: LiteralString) -> LiteralString:
    """The version of the thing `walked.id` that was current at `_as_of`; no row: it was not there."""
    return f"""(
        SELECT * FROM (
            SELECT * FROM {table}_history AS h WHERE h.id = walked.id AND h.from_position <= %(_as_of)s
            ORDER BY h.from_position DESC LIMIT 1
        ) AS newest
        WHERE newest.to_position IS NULL OR newest.to_position > %(_as_of)s
    ) AS {table}"""


def over(sql: LiteralString, **tables: LiteralString) -> LiteralString:
    """A statement over what its tables are now or, as queries in brackets, were: `FROM name AS` and `JOIN name AS`."""
    for name, rows in tables.items():
        for verb in _VERBS:
            sql = sql.replace(verb + name + " AS", verb + rows + " AS")
    return sql


def listed(
    read: Reader,
    request: Paged,
    of: Rows,
    wanted: Mapping[str, Any],
    view: Callable[[str, Any, int], Any] | None = None,
    type: str | Through | None = None,
) -> Answer:
    """One page of a list as it is or, in the order of ids, as it was; `view` shows a state that was folded.

    Only rows whose `get` the caller may today are shown, if they are of an IAM `type` or belong to something that is.
    """
    through = Through(type) if isinstance(type, str) else type
    if read.as_of is None:
        return reading.listed(read, request, of.now, wanted, through, lambda row: _now(row, view))
    position = read.as_of
    sees = reading.sight_of(read, request, through)
    fetch = partial(_read, read, request, sees.over(of.past), {**wanted, **sees.params})
    found, place = reading.page_of(read, request, _start(request, position), fetch, sees)
    return reading.page(request, _shown(read, found, view, of.table), place, position, mark=MARK)


def _start(request: Paged, position: int) -> Place | None:
    """A cursor says which position its walk is of: pages of two never mix."""
    place = reading.after(request, MARK)
    if place is not None and place[0] != position:
        raise errors.Invalid("cursor", f"is not the nextCursor of a page as of @{position}")
    return place


def _read(
    read: Reader, request: Paged, rows: LiteralString, wanted: Mapping[str, Any], place: Place | None
) -> list[tuple[Any, ...]]:
    """Planned anew each time: what a filter leaves open decides which index serves."""
    behind: LiteralString = " AND listed.id > %(_id)s ORDER BY listed.id LIMIT %(_most)s"
    before: LiteralString = " AND (%(_id)s = '' OR listed.id < %(_id)s) ORDER BY listed.id DESC LIMIT %(_most)s"
    params = {**wanted, "_as_of": read.as_of, "_id": place[1] if place else "", "_most": request.limit + 1}
    return read.connection.execute(
        rows + (behind if request.order == "asc" else before), params, prepare=False
    ).fetchall()


def _now(row: Row, view: Callable[[str, Any, int], Any] | None) -> Row:
    """A read model keeps states: what is shown of one is made here, so that a view that gains a field shows it."""
    if view is None:
        return row
    at, id, version, state = row
    return at, id, version, msgspec.json.encode(view(id, _state(id, state), version))


def _shown(
    read: Reader, found: Sequence[Row], view: Callable[[str, Any, int], Any] | None, table: LiteralString
) -> list[Row]:
    if view is None or read.as_of is None:
        return list(found)
    ids, until = [row[1] for row in found], [row[2] for row in found]
    return [
        (read.as_of, id, then.version, msgspec.json.encode(view(id, then.state, then.version)))
        for id, then in zip(ids, read.load_all_as_of(ids, read.as_of, table, until), strict=True)
    ]


def _state(id: str, kept: bytes) -> Any:
    return msgspec.json.decode(kept, type=type(registry.kind(id).initial))


def check_position(position: int, head: int, field: str = MARK) -> None:
    if position > head:
        raise errors.Invalid(field, f"lies beyond the log, which ends at @{head}")


def check_instant(asked: int, now: int, field: str = MARK) -> None:
    if asked > now:
        raise errors.Invalid(field, f"lies in the future: now is {written(now)}")


def label(connection: "Connection[Any]", instant: int) -> tuple[int, bool]:
    """The position that an instant stands for, 0 before the log, and whether no event can come that moves it."""
    row = connection.execute(_LABEL, (instant, instant)).fetchone()
    assert row is not None
    return row[0], row[1]


def window(connection: "Connection[Any]", from_: int | None, until: int | None) -> tuple[int, int | None]:
    """The positions `(low, high]` of what was recorded in `[from, until)` epoch ms; without an until there is no high.

    Time only labels and is taken as never going back, so that a window is one stretch of the log.
    """
    if from_ is not None and until is not None and from_ >= until:
        raise errors.Invalid("until", "lies at or before from")
    low = 0 if from_ is None else label(connection, from_ - 1)[0]
    return low, None if until is None else label(connection, until - 1)[0]


def instant(connection: "Connection[Any]", as_of: str) -> int | None:
    """What was now as of then, in epoch ms: the instant that is asked for, or when the log came to the position."""
    if not as_of.startswith("@"):
        return int(as_of)
    row = connection.execute(log_time.WHEN, (int(as_of[1:]),)).fetchone()
    return None if row is None else int(row[0])


def check_kept(connection: "Connection[Any]", position: int) -> None:
    """Versions that ended up to the horizon are forgotten; whatever was current there or later is not."""
    row = connection.execute(_KEPT).fetchone()
    if row is not None and position < row[0]:
        raise errors.HistoryPruned(row[0])
