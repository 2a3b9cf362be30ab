"""Folding the log again, apart from the live tables: its steps, and what each kind of thing came to (api.md §6).

Nothing outside is called and nothing is written: the database is told that the session only reads. A batch of events
and one thing's state are all that is held at once, however long the log is.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, LiteralString

import psycopg
from msgspec import Struct, field

from adapters.postgres import reader
from adapters.postgres.mapper import decode
from domain import admission, join_token, node, offering, pool, project, registry, tenant
from domain.event import Recorded, tag

BATCH: Final = 500
END: Final = 2**62

_STREAM: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE originator_id = %s AND originator_version > %s AND notification_id <= %s
ORDER BY originator_version LIMIT %s
"""
_BY_STREAM: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE (originator_id, originator_version) > (%s, %s)
ORDER BY originator_id, originator_version LIMIT %s
"""
_COUNT: LiteralString = "SELECT count(*) FROM stored_events WHERE notification_id <= %s"

Progress = Callable[[int, int], None]
"""Told after each batch: the events read, and about how many are left."""


class Kind(Struct):
    """What one kind of thing came to: how many things, of how many events, in which states."""

    noun: str
    things: int = 0
    events: int = 0
    states: Counter[str] = field(default_factory=Counter)


@contextmanager
def opened(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """One moment of the log, in a session that the server lets write nothing."""
    with psycopg.connect(dsn, application_name="better-compute audit replay") as connection:
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        yield connection


def of_stream(connection: psycopg.Connection[Any], stream: str, upto: int) -> Iterator[Recorded]:
    """The events of one thing, oldest first."""
    version = 0
    while rows := connection.execute(_STREAM, (stream, version, upto, BATCH), binary=True).fetchall():
        yield from (decode(*row) for row in rows)
        version = rows[-1][1]


def steps(connection: psycopg.Connection[Any], upto: int, of_tenant: str | None) -> Iterator[Recorded]:
    """The log in position order; of a tenant, what stands in its own audit log."""
    after = 0
    while rows := connection.execute(reader.AFTER, (after, BATCH), binary=True).fetchall():
        for recorded in (decode(*row) for row in rows if row[4] <= upto):
            if of_tenant is None or of_tenant in recorded.tenants:
                yield recorded
        after = rows[-1][4]
        if after > upto:
            return


def came_to(
    connection: psycopg.Connection[Any], upto: int, of_tenant: str | None, progress: Progress = lambda *_: None
) -> list[Kind]:
    """Fold every thing from its first event, one thing after another."""
    row = connection.execute(_COUNT, (upto,)).fetchone()
    kinds = {kind.noun: Kind(kind.noun) for kind in registry.KINDS.values()}
    read, total = 0, row[0] if row else 0
    for stream, events in groupby(_by_stream(connection, upto), attrgetter("stream")):
        of = registry.kind(stream)
        state, count = of.initial, 0
        for recorded in events:
            state = of.evolve(state, recorded.event)
            count += of_tenant is None or of_tenant in recorded.tenants
            read += 1
            if not read % BATCH:
                progress(read, max(1, total - read))
        if count:
            kind = kinds[of.noun]
            kind.things += 1
            kind.events += count
            kind.states[status(state)] += 1
    progress(read, 0)
    return sorted((kind for kind in kinds.values() if kind.things), key=attrgetter("noun"))


def _by_stream(connection: psycopg.Connection[Any], upto: int) -> Iterator[Recorded]:
    place: tuple[str, int] = ("", 0)
    while rows := connection.execute(_BY_STREAM, (*place, BATCH), binary=True).fetchall():
        yield from (decode(*row) for row in rows if row[4] <= upto)
        place = rows[-1][:2]


def status(state: Any) -> str:
    """The one word that a thing's state comes to; an admission is what was decided."""
    match state:
        case admission.State(recorded=recorded):
            return tag(recorded).split(".")[1] if recorded else "none"
        case node.State(provision_state=provision):
            return provision
        case offering.State(withdrawn=over) if over:
            return "withdrawn"
        case pool.State(retired=over) if over:
            return "retired"
        case join_token.State(revoked=over) if over:
            return "revoked"
        case project.State(archived_at=at) if at is not None:
            return "archived"
        case tenant.State(digest=digest) if digest is not None:
            return "access file in force"
        case _:
            return str(getattr(state, "status", "current"))
