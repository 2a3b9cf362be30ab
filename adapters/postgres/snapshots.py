"""Snapshots of long streams: the folded state at a version, to go on from (architecture.md §2).

One is taken when an append passes a multiple of the kind's `snapshot_every`, and when a load had to fold that many.
Each carries the schema under which it was folded, which is the domain's own code: a program of another domain ignores
it and folds for itself. Nothing depends on a snapshot but the time that a load takes.
"""

import hashlib
import importlib.resources
import logging
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, LiteralString

import msgspec
import psycopg

from adapters.postgres import pipeline
from adapters.postgres.mapper import decode
from adapters.postgres.pool import Pool
from commands.ports import Loaded
from domain import registry

log = logging.getLogger(__name__)

_LATEST: LiteralString = """
SELECT originator_version, position, event_id, correlation, state FROM stream_snapshots
WHERE originator_id = %s AND originator_version <= %s AND position <= %s AND schema = %s
ORDER BY originator_version DESC LIMIT 1
"""
_LATEST_OF_ALL: LiteralString = """
SELECT stream, originator_version, position, event_id, correlation, state FROM unnest(%s::text[]) AS asked (stream),
LATERAL (
    SELECT originator_version, position, event_id, correlation, state FROM stream_snapshots
    WHERE originator_id = stream AND schema = %s AND position <= %s ORDER BY originator_version DESC LIMIT 1
) AS kept
"""
_LATER: Final = ("SELECT set_config('synchronous_commit', 'off', true)", ())
_FORGET: Final = "DELETE FROM stream_snapshots WHERE originator_id = %s AND schema <> %s"
_KEEP: Final = """
INSERT INTO stream_snapshots (originator_id, originator_version, position, schema, event_id, correlation, state)
VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_OF_STREAMS: LiteralString = """
SELECT originator_id, array_agg(originator_version) FROM stream_snapshots
WHERE schema = %s GROUP BY originator_id ORDER BY originator_id
"""
_EVENTS: LiteralString = """
SELECT originator_id, originator_version, event.topic, event.state, event.notification_id, event.recorded_at,
    kept.position, kept.event_id, kept.correlation, kept.state
FROM stored_events AS event LEFT JOIN stream_snapshots AS kept USING (originator_id, originator_version)
WHERE originator_id = %s AND originator_version <= %s ORDER BY originator_version
"""
LAST: Final = 2**62


@cache
def schema() -> str:
    """The SHA-256 of the domain's code, by which every state here was folded."""
    found = hashlib.sha256()
    for file in sorted(importlib.resources.files("domain").iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".py"):
            found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def latest(pool: Pool, stream: str, version: int = LAST, position: int = LAST) -> Loaded | None:
    """The newest state that is not beyond this version and this position; None when there is none to go on from."""
    of = registry.kind(stream)
    if not of.snapshot_every:
        return None
    with pool.connection() as connection:
        row = connection.execute(_LATEST, (stream, version, position, schema()), prepare=True, binary=True).fetchone()
    if row is None:
        return None
    try:
        return Loaded(msgspec.json.decode(row[4], type=type(of.initial)), *row[:4])
    except msgspec.MsgspecError as fault:
        log.warning("the snapshot of %s at version %s cannot be read: %s", stream, row[0], fault)
        return None


def latest_of_all(pool: Pool, streams: Sequence[str], position: int = LAST) -> dict[str, Loaded]:
    """The newest state of each of these streams that has one to go on from, none beyond this position."""
    kept = [stream for stream in streams if registry.kind(stream).snapshot_every]
    if not kept:
        return {}
    with pool.connection() as connection:
        rows = connection.execute(_LATEST_OF_ALL, (kept, schema(), position), prepare=True, binary=True).fetchall()
    found = {}
    for stream, *row, state in rows:
        try:
            of = type(registry.kind(stream).initial)
            found[stream] = Loaded(msgspec.json.decode(state, type=of), *row)
        except msgspec.MsgspecError as fault:
            log.warning("the snapshot of %s at version %s cannot be read: %s", stream, row[0], fault)
    return found


def due(stream: str, before: int, after: int) -> bool:
    """Whether a snapshot is to be taken between these versions."""
    every = registry.kind(stream).snapshot_every
    return bool(every) and before // every != after // every


def take(pool: Pool, stream: str, loaded: Loaded) -> None:
    """Keep a state. What went wrong is logged and no more: the append that led here has been recorded."""
    state = msgspec.json.encode(loaded.state)
    row = (stream, loaded.version, loaded.position, schema(), loaded.event_id, loaded.correlation, state)
    try:
        with pool.connection() as connection:
            pipeline.run(connection, [_LATER, (_FORGET, (stream, schema())), (_KEEP, row)])
    except psycopg.Error as fault:
        log.warning("no snapshot of %s was taken: %s", stream, fault)


def wrong(connection: psycopg.Connection[Any]) -> Iterator[str]:
    """Which snapshots are not what the log gives, each as `stream version`; every stream is folded once.

    The connection must be in a transaction: a stream comes in pieces, so that memory does not grow with it.
    """
    for stream, versions in connection.execute(_OF_STREAMS, (schema(),)).fetchall():
        left, of = set(versions), registry.kind(stream)
        state = of.initial
        with connection.cursor("snapshots", binary=True) as rows:
            for row in rows.execute(_EVENTS, (stream, max(versions))):
                recorded, kept = decode(*row[:6]), row[6:]
                state = of.evolve(state, recorded.event)
                mine = (recorded.position, recorded.event_id, recorded.meta.correlation, msgspec.json.encode(state))
                if recorded.version in left and kept == mine:
                    left.remove(recorded.version)
        yield from (f"{stream} {version}" for version in sorted(left))
