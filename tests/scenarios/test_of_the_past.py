"""What is over is passed over: questions of now and later find theirs by an index, however much there was before."""

import psycopg
import pytest

from queries import capacity_counts, obstacles
from queries.capacity_counts import Points

ASKED = {
    "pools": ["pool_1"], "me": "acme", "_as_of": 1, **Points(1).wanted,
    "pool": "pool_1", "from": 1, "until": 2, "classes": ["gpu"], "without": [], "never": 9, "most": 9,
}  # fmt: skip

NEVER = (1 << 63) - 1

NO_OTHER = """
UPDATE pg_index SET indisvalid = false
WHERE indrelid = (SELECT indrelid FROM pg_index WHERE indexrelid = %(index)s::regclass)
  AND indexrelid <> %(index)s::regclass
"""


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (capacity_counts.BOOKED[0], "device_bookings_pool"),
        (capacity_counts.SCALARS_BOOKED[0], "scalar_bookings_until"),
        (obstacles.TAKEN, "device_bookings_pool"),
        (obstacles.SCALARS_TAKEN, "scalar_bookings_until"),
    ],
)
def test_an_index_says_what_still_matters(connection: psycopg.Connection, sql: str, index: str) -> None:
    """The server takes it, where there is no other, only while question and index say the same, letter by letter."""
    connection.execute("SET enable_seqscan = off")
    with connection.transaction(force_rollback=True):
        assert connection.execute(NO_OTHER, {"index": index}).rowcount
        plan = connection.execute(f"EXPLAIN {sql}".encode(), ASKED).fetchall()
    lines = [line for (line,) in plan]
    used = next(n for n, line in enumerate(lines) if index in line)
    assert str(NEVER) in lines[used + 1], "the end that matters is a condition of the index"
