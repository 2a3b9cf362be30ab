"""Time only labels, position orders: what an instant stands for."""

from collections.abc import Iterator, Sequence

import psycopg
import pytest

from adapters.postgres.runner import writes_of
from domain import site
from domain.event import Recorded
from facts import META, write
from projections import log_time

EVENT = site.Renamed("a", "b", "root")
LOG = [(1, 100), (2, 100), (4, 90), (5, 130), (6, 120), (9, 131)]
"""Positions and the clock's readings, which went back twice."""


def events(log: Sequence[tuple[int, int]]) -> list[Recorded]:
    return [Recorded("site_1", n, EVENT, META, "evt_1", n, at) for n, at in log]


@pytest.fixture
def cursor(connection: psycopg.Connection) -> Iterator[psycopg.Cursor]:
    with connection.cursor() as cursor:
        yield cursor


@pytest.mark.parametrize("size", [1, 2, 4, 6])
@pytest.mark.parametrize(("instant", "position"), [(99, None), (100, 4), (129, 4), (130, 6), (131, 9), (10**13, 9)])
def test_an_instant_stands_for_the_last_position_not_later_however_the_log_was_cut(
    cursor: psycopg.Cursor, size: int, instant: int, position: int | None
) -> None:
    for begin in range(0, len(LOG), size):
        write(cursor.connection, writes_of(cursor.connection, [log_time.apply(events(LOG[begin : begin + size]))]))
    row = cursor.execute(log_time.AS_OF, (instant,)).fetchone()
    assert (row[0] if row else None) == position
