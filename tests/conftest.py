"""Fixtures every test may use: one PostgreSQL cluster per run, one migrated database per xdist worker.

The process that runs pytest (with xdist: the controller) owns the cluster and starts it when the first test
asks, so a run of domain tests alone pays nothing. Workers ask over a socket. Between tests tables are
emptied, not made anew: 3 ms instead of 37 (ecosystem.md §2.4).
"""

import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import given
from adapters.http import sse
from adapters.postgres import embedded, migrate, pool, runner
from projections.table import ALL

ROOT = Path(f"/tmp/better-compute-tests-{os.geteuid()}")
CLUSTER = pytest.StashKey["Cluster"]()

# Every table of ours with its columns that can be written; a partition is emptied through its parent.
TABLES = """
SELECT c.relname, array_agg(a.attname ORDER BY a.attnum)
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND c.relname <> 'schema_migrations'
GROUP BY c.relname
ORDER BY c.relname
"""


class Cluster:
    """The cluster of this run, started by the first who asks; answers workers with its connection string."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: embedded.Embedded | None = None
        self._dsn = ""
        self._listener: Listener | None = None
        self._home = ROOT / str(os.getpid())

    def dsn(self) -> str:
        with self._lock:
            if self._server is None:
                _remove_leftovers()
                server = embedded.Embedded(self._home, durable=False)
                self._dsn = server.start()
                self._server = server
            return self._dsn

    def listen(self) -> str:
        """Answer workers from a thread; returns the address, the same each time."""
        if self._listener is None:
            self._listener = Listener(family="AF_UNIX")
            threading.Thread(target=self._answer, args=(self._listener,), daemon=True).start()
        return str(self._listener.address)

    def stop(self) -> None:
        with self._lock:
            if self._server is not None:
                self._server.stop()
                shutil.rmtree(self._home, ignore_errors=True)
            if self._listener is not None:
                self._listener.close()

    def _answer(self, listener: Listener) -> None:
        while True:
            with listener.accept() as worker:
                try:
                    worker.send((self.dsn(), ""))
                except Exception as problem:
                    worker.send(("", str(problem)))


def _remove_leftovers() -> None:
    """Remove the data of runs that were killed: their directory is named after a process that is gone."""
    for left in ROOT.glob("*"):
        if left.name.isdigit() and not Path("/proc", left.name).exists() and Path("/proc").exists():
            shutil.rmtree(left, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of command lines would compile us anew, each of them
    if not hasattr(config, "workerinput"):
        config.stash[CLUSTER] = Cluster()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist, in the controller, before it starts a worker."""
    node.workerinput["cluster"] = node.config.stash[CLUSTER].listen()


def pytest_unconfigure(config: pytest.Config) -> None:
    if CLUSTER in config.stash:
        config.stash[CLUSTER].stop()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> str:
    """The connection string of the run's server, as superuser on its default database; fsync is off."""
    if CLUSTER in request.config.stash:
        return request.config.stash[CLUSTER].dsn()
    with Client(vars(request.config)["workerinput"]["cluster"], "AF_UNIX") as controller:
        dsn, problem = controller.recv()
    if problem:
        pytest.fail(f"no test cluster: {problem}", pytrace=False)
    return str(dsn)


@pytest.fixture
def fresh(cluster: str) -> Iterator[str]:
    """A connection string to a new, empty database of this test."""
    name = f"fresh_{uuid.uuid4().hex}"
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield make_conninfo(cluster, dbname=name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def migrated(cluster: str) -> str:
    """This worker's own database at the head of all migrations; `database` is the one to use in a test."""
    name = f"test_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    dsn = make_conninfo(cluster, dbname=name)
    return prepared(dsn)


@pytest.fixture(scope="session")
def janitor(migrated: str) -> Iterator[pool.Pool]:
    """The connection that empties the tables: kept, because a new one takes longer than the work."""
    with pool.pool(migrated, 1, application_name="janitor") as connections:
        yield connections


@pytest.fixture(scope="session")
def emptied(migrated: str, janitor: pool.Pool) -> Callable[[], str]:
    """Empties the tables down to what the migrations put there, and gives the connection string; sequences go on."""

    def empty() -> str:
        with janitor.connection() as connection:
            emptied_by(connection)
        return migrated

    return empty


@pytest.fixture
def database(emptied: Callable[[], str]) -> str:
    """A connection string to a database whose tables hold what the migrations put there."""
    return emptied()


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    """A connection to `database` in autocommit mode."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def plane(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[given.Plane]:
    """The whole product on an empty database, with the demo's tenants and one client for each of its tokens."""
    monkeypatch.setattr(sse, "SECONDS", 0.0)
    with given.plane(database, tmp_path) as made:
        yield made


def prepared(dsn: str) -> str:
    """A database at the head of all migrations, which can be emptied again and again."""
    migrate.migrate(dsn)
    runner.create_tables(dsn, ALL)
    with psycopg.connect(dsn) as connection:
        _keep_seeds(connection)
    return dsn


def emptied_by(connection: psycopg.Connection) -> None:
    with connection.transaction():
        _empty(connection)


def _keep_seeds(connection: psycopg.Connection) -> None:
    """Copy the rows that migrations themselves inserted, so that emptying can put them back."""
    connection.execute("CREATE SCHEMA seeds")
    for table, columns in connection.execute(TABLES).fetchall():
        names = {"table": sql.Identifier(table), "columns": _columns(columns)}
        if connection.execute(sql.SQL("SELECT FROM {table} LIMIT 1").format(**names)).rowcount:
            copy = sql.SQL("CREATE TABLE seeds.{table} AS SELECT {columns} FROM public.{table}")
            connection.execute(copy.format(**names))


def _empty(connection: psycopg.Connection) -> None:
    """Empty every table in one round trip; as replica, so that no foreign key or guard trigger objects."""
    seeds = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'seeds'").fetchall()
    tables = connection.execute(TABLES).fetchall()
    put_back = sql.SQL(
        "INSERT INTO public.{table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM seeds.{table}"
    )
    with connection.pipeline():
        connection.execute("SET LOCAL session_replication_role = replica")
        for table, columns in tables:
            names = {"table": sql.Identifier(table), "columns": _columns(columns)}
            connection.execute(sql.SQL("DELETE FROM public.{table}").format(**names))
            if (table,) in seeds:
                connection.execute(put_back.format(**names))


def _columns(names: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
