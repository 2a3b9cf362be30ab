"""Folds the log again: to prove that the live tables follow from it, or to make them anew (architecture.md §3)."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, LiteralString, cast

import psycopg
from msgspec import Struct

from adapters.postgres.mapper import decode
from adapters.postgres.runner import digest
from domain.event import Recorded
from projections.projection import Async, Inline, Projection, replay

_BATCH: Final = 500
_LOG: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE notification_id > %s ORDER BY notification_id LIMIT %s
"""
_SHOWN: Final = 5

Progress = Callable[[int], None]


class Difference(Struct, frozen=True):
    """Rows of one table that the live one has and the log does not give, or the other way round."""

    projection: str
    table: str
    only_live: int
    only_log: int
    examples: tuple[str, ...]


class Verdict(Struct, frozen=True):
    """What a comparison saw: events read, rows compared, and the tables that differ."""

    events: int
    rows: int
    differences: tuple[Difference, ...]


def tables(projection: Projection) -> list[str]:
    return re.findall(r"CREATE TABLE (\w+)", projection.tables)


def events(connection: psycopg.Connection[Any], after: int = 0) -> Iterator[list[Recorded]]:
    """The log in position order, in batches, as far as the transaction sees it."""
    while rows := connection.execute(_LOG, (after, _BATCH), prepare=True, binary=True).fetchall():
        batch = [decode(*row) for row in rows]
        after = batch[-1].position
        yield batch


def apply(cursor: psycopg.Cursor[Any], projection: Projection, batch: Sequence[Recorded]) -> None:
    if isinstance(projection, Async):
        projection.apply(cursor, batch)
        return
    for statement in replay(cast(Inline, projection), batch):
        cursor.execute(statement.sql.encode(), statement.params, prepare=True)


def compare(dsn: str, projections: Sequence[Projection], progress: Progress = lambda n: None) -> Verdict:
    """Rebuild every projection beside the live one and compare row by row.

    One REPEATABLE READ transaction sees log, live rows and positions as of one moment. The scratch tables are
    temporary ones of that transaction, so nothing of it is left, and nobody waits for it.
    """
    with psycopg.connect(dsn, autocommit=True, application_name="better-compute audit diff") as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        try:
            upto = _positions(connection)
            cursor = connection.cursor()
            for projection in projections:
                cursor.execute(projection.tables.replace("CREATE TABLE", "CREATE TEMP TABLE").encode())
            read = 0
            for batch in events(connection):
                read += len(batch)
                for projection in projections:
                    seen = batch if isinstance(projection, Inline) else _upto(batch, upto[projection.name])
                    if seen:
                        apply(cursor, projection, seen)
                progress(read)
            return _compared(cursor, projections, read)
        finally:
            connection.execute("ROLLBACK")


def _positions(connection: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(connection.execute("SELECT name, position FROM projection_positions").fetchall())


def _upto(batch: Sequence[Recorded], position: int) -> list[Recorded]:
    return [recorded for recorded in batch if recorded.position <= position]


def _compared(cursor: psycopg.Cursor[Any], projections: Sequence[Projection], read: int) -> Verdict:
    differences: list[Difference] = []
    rows = 0
    for projection in projections:
        for table in tables(projection):
            counted = cursor.execute(f"SELECT count(*) FROM public.{table}".encode()).fetchone()
            rows += int(counted[0]) if counted else 0
            only_live = _except(cursor, f"public.{table}", f"pg_temp.{table}")
            only_log = _except(cursor, f"pg_temp.{table}", f"public.{table}")
            if only_live or only_log:
                examples = tuple(f"live {row}" for row in only_live[:_SHOWN])
                examples += tuple(f"log  {row}" for row in only_log[:_SHOWN])
                differences.append(
                    Difference(projection.name, table, len(only_live), len(only_log), examples)
                )
    return Verdict(read, rows, tuple(differences))


def _except(cursor: psycopg.Cursor[Any], one: str, other: str) -> list[str]:
    sql = f"SELECT t::text FROM (SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}) AS t LIMIT 1000"
    return [row[0] for row in cursor.execute(sql.encode()).fetchall()]


def rebuild(dsn: str, projection: Projection, progress: Progress = lambda n: None) -> int:
    """Make one projection anew from the log, in one transaction; return the events read.

    An inline one keeps appends waiting until it is done: it may not miss an event.
    """
    with psycopg.connect(dsn, autocommit=True, application_name="better-compute rebuild") as connection:
        with connection.transaction():
            cursor = connection.cursor()
            if isinstance(projection, Inline):
                cursor.execute("LOCK TABLE stored_events IN SHARE ROW EXCLUSIVE MODE")
            cursor.execute(
                "SELECT 1 FROM projection_positions WHERE name = %s FOR UPDATE", (projection.name,)
            )
            for table in tables(projection):
                cursor.execute(f"DROP TABLE IF EXISTS {table}".encode())
            cursor.execute(projection.tables.encode())
            read = position = 0
            for batch in events(connection):
                apply(cursor, projection, batch)
                read, position = read + len(batch), batch[-1].position
                progress(read)
            _place(cursor, projection, position)
    return read


def _place(cursor: psycopg.Cursor[Any], projection: Projection, position: int) -> None:
    cursor.execute(
        """
        INSERT INTO projection_positions (name, tables_digest, position) VALUES (%s, %s, %s)
        ON CONFLICT (name) DO UPDATE SET
            tables_digest = excluded.tables_digest, position = excluded.position, failure = NULL
        """,
        (projection.name, digest(projection), position if isinstance(projection, Async) else 0),
    )
