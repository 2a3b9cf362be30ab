"""The limit: the rows of one reservation, as the plane wrote them, as a template for plain transactions.

They go to a second database of the same server with the same tables, in plain INSERTs without the append's locks and
guards: no program that writes these rows durably, one reservation a transaction, can be faster on this server.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo

from adapters.postgres import migrate, runner
from projections import table
from tests.bench.client import TAG

DATABASE: Final = "bench_limit"

_EVENTS: Final = """
SELECT originator_id, originator_version, topic, state FROM stored_events
WHERE originator_id IN (%(reservation)s, (SELECT admission_id FROM replays WHERE stream = %(reservation)s))
ORDER BY notification_id
"""
_ROWS: Final = (
    (
        """
        SELECT device_id, allocation_id, reservation_id, node_id, pool_id, tenant_id, bound, during::text
        FROM device_bookings WHERE reservation_id = %(reservation)s
        """,
        """
        INSERT INTO device_bookings
            (device_id, allocation_id, reservation_id, node_id, pool_id, tenant_id, bound, during)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s::int8range)
        """,
    ),
    (
        """
        SELECT reservation_id, scope, resource, amount, during::text
        FROM quota_claims WHERE reservation_id = %(reservation)s
        """,
        "INSERT INTO quota_claims (reservation_id, scope, resource, amount, during) VALUES (%s, %s, %s, %s, %s)",
    ),
    (
        "SELECT key, admission_id, body, stream, version, status FROM replays WHERE stream = %(reservation)s",
        "INSERT INTO replays (key, admission_id, body, stream, version, status) VALUES (%s, %s, %s, %s, %s, %s)",
    ),
    (
        "SELECT type, id, tenant_id, parent_id, attributes::text FROM catalog WHERE id = %(reservation)s",
        "INSERT INTO catalog (type, id, tenant_id, parent_id, attributes) VALUES (%s, %s, %s, %s, %s)",
    ),
)
_ID: Final = re.compile(r"\b(rsv|inst|adm|alloc|evt)_([0-9a-z]{26,})\b")
_FILLED: Final = 22


def database(dsn: str) -> str:
    """Make the second database with the plane's own tables, and return how to reach it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}".encode())
    made = make_conninfo(dsn, dbname=DATABASE)
    migrate.migrate(made)
    runner.create_tables(made, table.ALL)
    return made


def statements(dsn: str, reservation_id: str) -> tuple[list[tuple[str, list[Any]]], int]:
    """The INSERTs that repeat a reservation's rows under other ids, and how many rows they are."""
    known: dict[str, str] = {}
    asked = {"reservation": reservation_id}
    with psycopg.connect(dsn) as connection:
        events = connection.execute(_EVENTS, asked).fetchall()
        found = [inserted(events, known), *beside(connection, reservation_id, known)]
    return found, len(events) + len(found) - 1


def inserted(events: Sequence[Sequence[Any]], known: dict[str, str]) -> tuple[str, list[Any]]:
    """One INSERT of rows of the log: stream, version, topic and state."""
    values = ", ".join(["(%s, %s, %s, %s)"] * len(events))
    sql = f"INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES {values}"
    return sql, [_template(cell, known) for row in events for cell in row]


def beside(
    connection: psycopg.Connection[Any], reservation_id: str, known: dict[str, str], asked: str | None = None
) -> list[tuple[str, list[Any]]]:
    """INSERTs of what an append wrote beside the log; `asked` is what was created where that is no reservation."""
    found = []
    for select, insert in _ROWS:
        for of in dict.fromkeys((reservation_id, asked or reservation_id)):
            for row in connection.execute(select.encode(), {"reservation": of}).fetchall():
                found.append((insert, [_template(cell, known) for cell in row]))
    _free(found)
    return found


def _template(cell: Any, known: dict[str, str]) -> Any:
    """Every id of the reservation's own becomes a tag and a number, as long as it was once the tag is filled in."""
    if isinstance(cell, bytes):
        return {"bytes": _template(cell.decode(), known).encode().hex()}
    if not isinstance(cell, str):
        return cell
    return _ID.sub(lambda m: known.setdefault(m[0], f"{m[1]}_{TAG.decode()}{len(known):0{len(m[2]) - _FILLED}}"), cell)


def _free(found: list[tuple[str, list[Any]]]) -> None:
    """A device and an idempotency key of its own for each transaction, so that none refuses another."""
    for sql, cells in found:
        if "device_bookings" in sql or "replays" in sql:
            cells[0] = TAG.decode() + str(cells[0])[_FILLED:]
