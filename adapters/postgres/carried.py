"""States of the past on from what row versions carry (docs/decisions/0012): one round trip however many streams."""

from functools import cache
from typing import Any

import msgspec

from adapters.postgres.mapper import told
from commands.ports import Loaded
from domain import registry

_QUESTION = """
SELECT asked.id, coalesce(last.kept_version, 0), last.kept, later.many, later.events
FROM unnest(%s::text[], %s::bigint[]) AS asked (id, until)
LEFT JOIN LATERAL (
    SELECT h.kept_version, h.kept FROM {table}_history AS h
    WHERE h.id = asked.id AND h.from_position <= %s AND h.kept_version IS NOT NULL
    ORDER BY h.from_position DESC LIMIT 1
) AS last ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS many, string_agg(event.state, ','::bytea ORDER BY event.originator_version) AS events
    FROM stored_events AS event
    WHERE event.originator_id = asked.id AND event.originator_version > coalesce(last.kept_version, 0)
        AND event.originator_version <= coalesce(last.kept_version, 0) + %s::bigint
        AND event.originator_version < asked.until AND event.notification_id <= %s
) AS later
"""


@cache
def question(table: str) -> str:
    """Of each stream the last state that a version of it in `table` carries, its version, and the events after it.

    Asks for streams, for the version of each that it has not reached, the position, the most events to read, and the
    position. Without that version all that ever happened later would be looked through.
    """
    return _QUESTION.format(table=table)


def folded(stream: str, version: int, kept: bytes | None, many: int, events: bytes | None) -> Loaded | None:
    """One row of the answer; None when it cannot be read so."""
    of = registry.kind(stream)
    shape: type[msgspec.Struct] = type(of.initial)
    try:
        state = of.initial if kept is None else _decoder(shape).decode(kept)
        for event in told(stream, events) if events else ():
            state = of.evolve(state, event)
    except msgspec.MsgspecError:
        return None
    return Loaded(state, version + many)


@cache
def _decoder(shape: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)
