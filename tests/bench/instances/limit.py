"""The limit: what the log and its tables had to take of one instance until it ran, in plain transactions.

One for each append that the plane made of it, without the append's locks and guards: no program that writes these rows
durably, as they become known, can be faster on this server.
"""

from itertools import groupby
from typing import Any, Final

import psycopg

from tests.bench import limit

_EVENTS: Final = """
SELECT convert_from(state, 'UTF8')::jsonb #>> '{part,append}', originator_id, originator_version, topic, state
FROM stored_events
WHERE convert_from(state, 'UTF8')::jsonb #>> '{part,append}' IN (
    SELECT convert_from(state, 'UTF8')::jsonb #>> '{part,append}' FROM stored_events
    WHERE originator_id IN (%(instance)s, %(reservation)s)
)
ORDER BY notification_id
"""
_RESERVATION: Final = """
SELECT convert_from(state, 'UTF8')::jsonb #>> '{data,reservationId}' FROM stored_events
WHERE originator_id = %s AND originator_version = 1
"""


def transactions(dsn: str, instance_id: str) -> tuple[list[list[tuple[str, list[Any]]]], int]:
    """A list of INSERTs for each append, under other ids, and how many rows they are."""
    known: dict[str, str] = {}
    with psycopg.connect(dsn) as connection:
        row = connection.execute(_RESERVATION, (instance_id,)).fetchone()
        assert row is not None
        asked = {"instance": instance_id, "reservation": row[0]}
        events = connection.execute(_EVENTS, asked).fetchall()
        mine = [(append, (_own(id, instance_id), *rest)) for append, id, *rest in events]
        found = [[limit.inserted([one for _, one in of], known)] for _, of in groupby(mine, key=lambda pair: pair[0])]
        found[0] += limit.beside(connection, row[0], known, instance_id)
    return found, len(events) + len(found[0]) - 1


def _own(stream: str, instance_id: str) -> str:
    """A node's event goes into a stream of its own: every node's next version is somebody else's."""
    return stream if not stream.startswith("node_") else f"evt_{stream[5:]}"
