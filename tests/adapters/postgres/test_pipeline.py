"""Statements straight through libpq: what goes in comes out, and the first error undoes all."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.postgres import pipeline
from adapters.postgres.pool import pool

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
INT8 = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as made:
        yield made


def lists(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Also empty ones, and ones with nulls."""
    return st.lists(of) | st.lists(st.none() | of)


def back(dsn: str, kind: str, value: Any) -> Any:
    """The value after it was a parameter of this type."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TEMP TABLE kept (value {kind})".encode())
        pipeline.run(connection, [("INSERT INTO kept VALUES (%s)", (value,))])
        row = connection.execute("SELECT value FROM kept", binary=True).fetchone()
        assert row is not None
        return row[0]


@settings(max_examples=60, deadline=None)
@given(
    kind_value=st.one_of(
        st.tuples(st.just("text"), st.none() | TEXT),
        st.tuples(st.just("bigint"), st.none() | INT8),
        st.tuples(st.just("boolean"), st.none() | st.booleans()),
        st.tuples(st.just("bytea"), st.none() | st.binary()),
        st.tuples(st.just("text[]"), lists(TEXT)),
        st.tuples(st.just("bigint[]"), lists(INT8)),
        st.tuples(st.just("boolean[]"), lists(st.booleans())),
        st.tuples(st.just("bytea[]"), lists(st.binary())),
    )
)
def test_every_kind_of_parameter_arrives_as_it_was(migrated: str, kind_value: tuple[str, Any]) -> None:
    kind, value = kind_value
    if kind.endswith("[]") and not any(one is not None for one in value):
        kind = "text[]"  # a list without a value says nothing of its type
    assert back(migrated, kind, value) == value


@pytest.mark.parametrize("value", ["a\0b", ["a\0b"]])
def test_a_nul_is_refused_and_never_cuts_a_value_short(connection: psycopg.Connection[Any], value: Any) -> None:
    with pytest.raises(psycopg.DataError):
        pipeline.run(connection, [("SELECT %s::text[]" if isinstance(value, list) else "SELECT %s::text", (value,))])


@pytest.mark.parametrize("value", [2**63, "\ud800", [2**63], ["\ud800"], "a\0b", 1.5])
def test_what_cannot_be_sent_is_a_data_error_and_costs_no_connection(
    connection: psycopg.Connection[Any], value: Any
) -> None:
    with pytest.raises(psycopg.DataError):
        pipeline.run(connection, [("SELECT %s", (value,))])
    assert pipeline.run(connection, [("SELECT 1::bigint", ())]) == [1]


def test_it_returns_the_first_column_of_the_last_statement(connection: psycopg.Connection[Any]) -> None:
    steps = [("SELECT 7::bigint", ()), ("SELECT n FROM generate_series(%s, %s) AS n", (1, 3))]
    assert pipeline.run(connection, steps) == [1, 2, 3]
    assert pipeline.run(connection, [("SELECT 1::bigint WHERE false", ())]) == []


def test_each_question_has_its_own_rows(connection: psycopg.Connection[Any]) -> None:
    questions: list[tuple[str, Any]] = [
        ("SELECT n::bigint, n::integer, n::smallint FROM generate_series(%s, %s) AS n", (-1, 0)),
        ("SELECT 1::bigint WHERE false", ()),
        ("SELECT 'ä' || %s::text, true, false, NULL::text, %s::bytea", ("ö", b"\x00\xff")),
    ]
    rows = [[(-1, -1, -1), (0, 0, 0)], [], [("äö", True, False, None, b"\x00\xff")]]
    assert pipeline.ask(connection, questions) == rows


def test_a_question_that_fails_is_raised_and_costs_no_connection(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        pipeline.ask(connection, [("SELECT 1::bigint", ()), ("SELECT 1 / 0", ()), ("SELECT 2::bigint", ())])
    assert pipeline.ask(connection, [("SELECT 3::bigint", ())]) == [[(3,)]]


def test_the_first_error_is_raised_and_nothing_is_written(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TEMP TABLE kept (n bigint PRIMARY KEY)")
    insert = "INSERT INTO kept VALUES (%s)"
    with pytest.raises(psycopg.errors.UniqueViolation):
        pipeline.run(connection, [(insert, (1,)), (insert, (1,)), ("SELECT 1 / 0", ())])
    assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    assert pipeline.run(connection, [(insert, (1,)), ("SELECT n FROM kept", ())]) == [1]


def test_percent_signs_are_written_twice_as_for_psycopg(connection: psycopg.Connection[Any]) -> None:
    assert pipeline.run(connection, [("SELECT 7 %% %s", (4,))]) == [3]


def test_plans_that_psycopg_dropped_are_made_again(connection: psycopg.Connection[Any]) -> None:
    """After a rollback of its own psycopg sends DEALLOCATE ALL."""
    assert pipeline.run(connection, [("SELECT %s::bigint", (1,))]) == [1]
    connection.execute("SELECT 1", prepare=True)
    with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
        connection.execute("SELECT 1 / 0")
    assert pipeline.run(connection, [("SELECT %s::bigint", (2,))]) == [2]


def test_inside_a_transaction_it_is_part_of_it(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TEMP TABLE kept (n bigint)")
    with connection.transaction(force_rollback=True):
        pipeline.run(connection, [("INSERT INTO kept VALUES (%s)", (1,))])
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_connection_that_broke_is_closed_and_its_pool_makes_another(database: str) -> None:
    with pool(database, 1) as connections, psycopg.connect(database, autocommit=True) as other:
        with connections.connection() as connection:
            pid = connection.info.backend_pid
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
            with pytest.raises(psycopg.OperationalError):
                pipeline.run(connection, [("SELECT 1::bigint", ())])
            assert connection.closed
        with connections.connection() as connection:
            assert pipeline.run(connection, [("SELECT 1::bigint", ())]) == [1]


def test_more_than_the_socket_holds_goes_both_ways_at_once(connection: psycopg.Connection[Any]) -> None:
    """Whoever sent everything before reading anything would wait for a server that waits for its reader."""
    much = "x" * 100_000
    steps: list[tuple[str, Any]] = [("SELECT %s::text", (much,))] * 100
    assert pipeline.run(connection, [*steps, ("SELECT 1::bigint", ())]) == [1]
