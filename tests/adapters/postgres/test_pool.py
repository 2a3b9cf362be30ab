"""Pools: every connection bounded by timeouts, every queue bounded, and recovery without anybody's help."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import psycopg_pool
import pytest
from psycopg.conninfo import make_conninfo

from adapters.postgres import embedded, pool

SECONDS = 30.0


@pytest.fixture
def server() -> Iterator[tuple[embedded.Embedded, str]]:
    """A server of the test's own, to be killed, and its connection string."""
    directory = Path(tempfile.mkdtemp(prefix="bc-pool-", dir="/tmp"))
    directory.chmod(0o711)
    running = embedded.Embedded(directory / "data", durable=False)
    try:
        yield running, running.start()
    finally:
        running.stop()
        shutil.rmtree(directory)


def kill(server: embedded.Embedded) -> None:
    assert server.pid
    os.kill(server.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("statement_timeout", "10s"),
        ("lock_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "10s"),
        ("application_name", "api"),
    ],
)
def test_every_connection_carries_its_bounds(database: str, setting: str, value: str) -> None:
    with (
        pool.pool(database, 1, application_name="api") as connections,
        connections.connection() as connection,
    ):
        assert connection.autocommit
        assert connection.execute(f"SHOW {setting}".encode()).fetchone() == (value,)


def test_options_of_the_operator_win(database: str) -> None:
    dsn = make_conninfo(database, options="-c statement_timeout=123")
    with pool.pool(dsn, 1) as connections, connections.connection() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("123ms",)
        assert connection.execute("SHOW lock_timeout").fetchone() == ("5s",)


def test_a_caller_waits_two_seconds_at_most(database: str) -> None:
    with pool.pool(database, 1) as connections, connections.connection():
        began = time.monotonic()
        with pytest.raises(psycopg_pool.PoolTimeout), connections.connection():
            pass
        assert 1.9 < time.monotonic() - began < 4


def test_overload_is_told_at_once(database: str) -> None:
    """As many callers wait as may; the next is refused while they still wait."""
    many = pool.WAITING_PER_CONNECTION
    with (
        pool.pool(database, 1) as connections,
        connections.connection(),
        ThreadPoolExecutor(many) as callers,
    ):
        waiting = [callers.submit(connections.getconn) for _ in range(many)]
        while connections.get_stats().get("requests_waiting", 0) < many:
            assert not any(caller.done() for caller in waiting)
        with pytest.raises(psycopg_pool.TooManyRequests):
            connections.getconn()
        for caller in waiting:
            assert isinstance(caller.exception(), psycopg_pool.PoolTimeout)


def test_a_transaction_rolls_back_and_the_connection_is_used_again(database: str) -> None:
    with pool.pool(database, 1) as connections:
        with (
            contextlib.suppress(psycopg.errors.DivisionByZero),
            connections.connection() as connection,
            connection.transaction(),
        ):
            connection.execute("CREATE TABLE never ()")
            connection.execute("SELECT 1/0")
        with connections.connection() as connection:
            assert connection.execute("SELECT to_regclass('never')").fetchone() == (None,)


def test_a_pool_recovers_from_a_restart_of_the_server(server: tuple[embedded.Embedded, str]) -> None:
    running, dsn = server
    with pool.pool(dsn, 2) as connections:
        for _ in range(2):
            kill(running)
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    with connections.connection() as connection:
                        connection.execute("SELECT 1")
                    break
                except psycopg.OperationalError:
                    assert time.monotonic() < deadline


def test_a_pool_whose_server_is_down_fails_within_its_wait(server: tuple[embedded.Embedded, str]) -> None:
    running, dsn = server
    with pool.pool(dsn, 2) as connections:
        with connections.connection() as connection:
            connection.execute("SELECT 1")
        running.stop()
        began = time.monotonic()
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError), connections.connection() as connection:
                connection.execute("SELECT 1")
        assert time.monotonic() - began < 4


def test_many_callers_in_a_long_outage_do_not_wedge_the_pool(server: tuple[embedded.Embedded, str]) -> None:
    """Waits that ended in vain must not count as waiting for ever (seen: 96 dead waiters refused everybody)."""
    running, dsn = server
    many = 2 * pool.WAITING_PER_CONNECTION + 8
    with pool.pool(dsn, 2) as connections, ThreadPoolExecutor(many) as callers:

        def refused_until(deadline: float) -> int:
            refused = 0
            while time.monotonic() < deadline:
                try:
                    with connections.connection(timeout=0.2) as connection:
                        connection.execute("SELECT 1")
                except psycopg.OperationalError:
                    refused += 1
            return refused

        running.stop()
        until = time.monotonic() + 3 * pool.RECONNECT_SECONDS
        assert min(callers.map(refused_until, [until] * many)) > 0
        again = embedded.Embedded(running.data_dir, durable=False)
        assert again.start() == dsn
        try:
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    with connections.connection() as connection:
                        assert connection.execute("SELECT 1").fetchone() == (1,)
                    break
                except psycopg.OperationalError:
                    assert time.monotonic() < deadline
        finally:
            again.stop()


def test_a_connection_without_its_settings_is_found_out(database: str) -> None:
    """As a pooler gives it, which drops the options of a connection that it opened for others."""
    with pool.pool(database, 1) as connections:
        pool.check_kept(connections)
        with connections.connection() as connection:
            connection.execute("RESET ALL")
            connection.execute("SET better_compute.settings = ''")
        with pytest.raises(pool.NotKept, match="connect to the PostgreSQL itself"):
            pool.check_kept(connections)
