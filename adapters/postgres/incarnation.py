"""A database that was restored from a backup is another log from there on: it gets a name of its own."""

from typing import LiteralString

import psycopg
from msgspec import Struct

_LOCK: LiteralString = "LOCK TABLE log_identity IN EXCLUSIVE MODE"
_LIVE: LiteralString = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'better-compute' AND pid <> pg_backend_pid() LIMIT 1
"""
_KEEP: LiteralString = """
INSERT INTO log_restores (incarnation, size)
SELECT incarnation, (SELECT size FROM audit_progress) FROM log_identity RETURNING incarnation, size
"""
_RENAME: LiteralString = """
UPDATE log_identity SET incarnation = replace(gen_random_uuid()::text, '-', '') RETURNING incarnation
"""
_FENCE: LiteralString = "UPDATE coordination_leases SET epoch = epoch + 1, holder = ''"
_FORMER: LiteralString = "SELECT incarnation, size FROM log_restores"


class Restored(Struct, frozen=True):
    """The log's name before and from now on; `size` leaves are common to both."""

    former: str
    incarnation: str
    size: int


class InUse(Exception):
    """A process serves this database, under the name that is to go."""


def begin(dsn: str) -> Restored:
    """Give the log a new name, and every coordination lease an epoch that no earlier process has.

    Raises InUse while a process serves the database.
    """
    with psycopg.connect(dsn, application_name="better-compute restored") as connection:
        connection.execute(_LOCK)
        live = connection.execute(_LIVE).fetchone()
        if live is not None:
            raise InUse(f"a process serves this database (server process {live[0]}): stop all of them first")
        kept = connection.execute(_KEEP).fetchone()
        named = connection.execute(_RENAME).fetchone()
        assert kept is not None
        assert named is not None
        connection.execute(_FENCE)
    return Restored(kept[0], named[0], kept[1])


def formers(connection: psycopg.Connection) -> dict[str, int]:
    """By the names that this log had: how many of the leaves that were signed in it are in this log."""
    return dict(connection.execute(_FORMER).fetchall())
