"""Bounded pools of connections, which fail at once when overloaded and recover by themselves after a restart.

Every connection is in autocommit mode, so that a transaction is always a visible `with
connection.transaction()`, and carries timeouts, so that none holds a lock or a snapshot for long
(architecture.md §2).
"""

import time
from threading import BoundedSemaphore
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict, make_conninfo

STATEMENT_MS = 10_000
LOCK_MS = 5_000
IDLE_IN_TRANSACTION_MS = 10_000
WAIT_SECONDS = 2.0
WAITING_PER_CONNECTION = 8
RECONNECT_SECONDS = 2.0
TRUSTED_SECONDS = 1.0

BY_KEY = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""Plan each statement once: the server would plan a quota check anew each time, 0.25 ms to run 0.08 ms. And never by
reading a whole table: a plan made while the tables are empty would do that, and would be kept while they grow."""

_MARK = "better_compute.settings"
"""A setting that means nothing to the server, and tells us that it got the others too."""

Pool: TypeAlias = psycopg_pool.ConnectionPool[psycopg.Connection]


class _Bounded(psycopg_pool.ConnectionPool[psycopg.Connection]):
    """Counts the callers that wait here and now.

    psycopg_pool's own `max_waiting` goes on counting those whose wait ended in vain, and refuses before it would make
    a connection: after an outage of some seconds under load nobody could ever get one again.
    """

    def __init__(self, conninfo: str, *, places: int, **bounds: Any) -> None:
        self._places = BoundedSemaphore(places)
        super().__init__(conninfo, **bounds)

    def getconn(self, timeout: float | None = None) -> psycopg.Connection:
        if not self._places.acquire(blocking=False):
            raise psycopg_pool.TooManyRequests(f"the pool {self.name!r} has all the callers that may wait for it")
        try:
            return super().getconn(timeout)
        finally:
            self._places.release()


def pool(dsn: str, size: int, *, application_name: str = "better-compute", by_key: bool = False) -> Pool:
    """A closed pool of at most `size` connections; open it in a with block.

    `by_key` is for statements that find their rows by a key, whatever the parameters and however full the tables.

    A caller waits 2 s at most, and 8 callers per connection wait at most: then psycopg_pool.PoolTimeout and
    TooManyRequests (both psycopg.OperationalError) tell of overload or of a server that is down.
    """
    return _Bounded(
        _conninfo(dsn, by_key=by_key),
        places=size * WAITING_PER_CONNECTION,
        check=_check,
        **_bounds(size, application_name),
    )


class NotKept(Exception):
    """Something between us and the database takes our connections' settings away."""


def check_kept(connections: Pool) -> None:
    """Raise NotKept where connections lack what they were opened with: poolers drop it."""
    with connections.connection() as connection:
        if connection.execute("SELECT current_setting(%s, true)", (_MARK,)).fetchone() != ("kept",):
            raise NotKept(
                "the connection does not keep its settings, as through a pooler: connect to the PostgreSQL itself; "
                "a process shares its connections already"
            )


def find_by_key(connection: psycopg.Connection) -> None:
    """Let a connection of no pool plan as those of a `by_key` pool do."""
    for name, value in BY_KEY.items():
        connection.execute(f"SET {name} TO {value}".encode())


def _check(connection: psycopg.Connection) -> None:
    """Ask the server only when the connection was not asked for a second: it costs a round trip each time.

    One that broke within that second fails its first user, who gets 503, and is then replaced.
    """
    now = time.monotonic()
    if now - _asked.get(connection, -TRUSTED_SECONDS) >= TRUSTED_SECONDS:
        psycopg_pool.ConnectionPool.check_connection(connection)
        _asked[connection] = now


_asked: WeakKeyDictionary[psycopg.Connection, float] = WeakKeyDictionary()


def _conninfo(dsn: str, *, by_key: bool) -> str:
    """Add the timeouts; options the operator wrote into the DSN come last and win."""
    ours: dict[str, int | str] = {
        _MARK: "kept",
        "statement_timeout": STATEMENT_MS,
        "lock_timeout": LOCK_MS,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MS,
    }
    if by_key:
        ours |= BY_KEY
    theirs = conninfo_to_dict(dsn).get("options") or ""
    options = [f"-c {name}={value}" for name, value in ours.items()]
    return make_conninfo(dsn, options=" ".join([*options, str(theirs)]))


def _bounds(size: int, application_name: str) -> dict[str, Any]:
    """The arguments that bound it.

    `reconnect_timeout` is short because the pause between attempts doubles: a pool that gave up tries again
    when the next caller comes, one still pausing would stay down long after the server is back.
    """
    return {
        "kwargs": {"autocommit": True, "application_name": application_name, "connect_timeout": 2},
        "min_size": min(size, 2),
        "max_size": size,
        "timeout": WAIT_SECONDS,
        "reconnect_timeout": RECONNECT_SECONDS,
        "open": False,
        "name": application_name,
    }
