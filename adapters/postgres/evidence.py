"""The rows of the evidence: chains, tiles, checkpoints, and how far they go (api.md §6)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import psycopg
from eventsourcing.persistence import MapperDeserialisationError
from msgspec import Struct

from adapters.postgres import pipeline
from adapters.postgres.pool import Pool
from adapters.postgres.recorder import fencing
from adapters.postgres.refusals import translate
from domain import chain, errors, merkle
from domain.event import Fence

Row = tuple[str, int, str, bytes, int, int]
"""Stream, version, stored name, stored bytes, position and time of one row of the log."""

LOG: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE notification_id > %s AND notification_id <= %s ORDER BY notification_id
"""
_BATCH: LiteralString = f"{LOG} LIMIT %s"
_PROGRESS: LiteralString = "SELECT position, size FROM audit_progress"
_INCARNATION: LiteralString = "SELECT incarnation FROM log_identity"
_TILE: LiteralString = "SELECT hashes, positions FROM audit_tiles WHERE level = %s AND index = %s"
_HEADS: LiteralString = """
SELECT tenant, head.sequence, head.hash FROM unnest(%s::text[]) AS asked (tenant), LATERAL (
    SELECT sequence, hash FROM audit_chain WHERE tenant_id = tenant ORDER BY sequence DESC LIMIT 1
) AS head
"""
_LAST_NOTE: LiteralString = "SELECT note FROM audit_checkpoints ORDER BY size DESC LIMIT 1"
_NOTE: LiteralString = "SELECT note FROM audit_checkpoints WHERE size = %s"
_SIGNED: LiteralString = "INSERT INTO audit_checkpoints (size, note) VALUES (%s, %s) ON CONFLICT DO NOTHING"

_PUT_TILE: Final = """
INSERT INTO audit_tiles (level, index, hashes, positions) VALUES (%s, %s, %s, %s::bigint[])
ON CONFLICT (level, index) DO UPDATE SET hashes = EXCLUDED.hashes, positions = EXCLUDED.positions
"""
_PUT_LINKS: Final = """
INSERT INTO audit_chain (tenant_id, sequence, position, leaf, hash)
SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])
"""
_LOCKED: LiteralString = "SELECT size FROM audit_progress FOR UPDATE"
_UNMOVED: LiteralString = """
SELECT refuse('EVIDENCE_MOVED', '{}') WHERE NOT EXISTS (SELECT 1 FROM audit_progress WHERE size = %s)
"""
_ADVANCE: LiteralString = "UPDATE audit_progress SET position = %s, size = %s"


class Progress(Struct, frozen=True):
    """The position of the last leaf, and how many there are."""

    position: int
    size: int


class Tile(Struct, frozen=True):
    """A tile as it is stored: at level 0 with the positions of its leaves."""

    hashes: bytes
    positions: tuple[int, ...] = ()


class Lost(Exception):
    """The evidence is further than the writer knew: another has written."""


@contextmanager
def sound() -> Iterator[None]:
    """What fails only where somebody changed log or evidence is a refusal that says so."""
    try:
        yield
    except (merkle.Lacking, MapperDeserialisationError) as fault:
        raise errors.EvidenceUnsound(str(fault)) from fault


def progress(connection: psycopg.Connection[Any]) -> Progress:
    """Raises Lacking where the row is gone that the migration put there."""
    row = connection.execute(_PROGRESS).fetchone()
    if row is None:
        raise merkle.Lacking("how far it goes is not recorded any more")
    return Progress(*row)


def incarnation(connection: psycopg.Connection[Any]) -> str:
    """What tells this log from any other. Raises Lacking where the row is gone that the migration put there."""
    row = connection.execute(_INCARNATION).fetchone()
    if row is None:
        raise merkle.Lacking("which log it is of is not recorded any more")
    return str(row[0])


def batch(connection: psycopg.Connection[Any], after: int, upto: int, limit: int) -> list[Row]:
    """Rows of the log in `(after, upto]` by position, as they are stored."""
    return connection.execute(_BATCH, (after, upto, limit), prepare=True, binary=True).fetchall()


def tile(connection: psycopg.Connection[Any], level: int, index: int) -> Tile:
    """One that is missing holds nothing."""
    row = connection.execute(_TILE, (level, index), prepare=True, binary=True).fetchone()
    return Tile(bytes(row[0]), tuple(row[1])) if row is not None else Tile(b"")


def position(connection: psycopg.Connection[Any], leaf: int) -> int:
    """The log position of a leaf. Raises Lacking."""
    index, place = divmod(leaf, merkle.WIDTH)
    positions = tile(connection, 0, index).positions
    if place >= len(positions):
        raise merkle.Lacking(f"tile 0/{index} has no position of leaf {leaf}")
    return positions[place]


def tree(connection: psycopg.Connection[Any]) -> merkle.Tree:
    """The tree as the connection sees it: take one snapshot for all that belongs together."""
    return merkle.Tree(lambda level, index: tile(connection, level, index).hashes)


def heads(connection: psycopg.Connection[Any], tenants: Sequence[str]) -> dict[str, chain.Head]:
    """Where the chains of these tenants end; of those that have none, nothing."""
    rows = connection.execute(_HEADS, (list(tenants),), prepare=True, binary=True)
    return {tenant: chain.Head(sequence, hash.hex()) for tenant, sequence, hash in rows}


def note(connection: psycopg.Connection[Any], size: int | None = None) -> str | None:
    """The checkpoint of this size, or the latest."""
    found = connection.execute(_LAST_NOTE) if size is None else connection.execute(_NOTE, (size,))
    row = found.fetchone()
    return row[0] if row else None


def keep(connection: psycopg.Connection[Any], size: int, signed: str) -> None:
    """Store a checkpoint; the first of a size stays."""
    connection.execute(_SIGNED, (size, signed))


def write(
    pool: Pool,
    fence: Fence,
    before: int,
    after: Progress,
    links: Sequence[chain.Link],
    tiles: Sequence[tuple[merkle.Tile, Sequence[int]]],
) -> None:
    """Put a batch down in one round trip and one transaction, on evidence of `before` leaves.

    Raises errors.Fenced once the lease has a new epoch, and Lost where the evidence is not of that size.
    """
    steps: list[tuple[str, Sequence[Any]]] = [*fencing(fence), (_LOCKED, ()), (_UNMOVED, (before,))]
    steps.append((_ADVANCE, (after.position, after.size)))
    if links:
        columns = zip(*((one.tenant_id, one.sequence, one.position, one.leaf, one.hash) for one in links), strict=True)
        steps.append((_PUT_LINKS, [list(column) for column in columns]))
    steps += [(_PUT_TILE, (tile.level, tile.index, tile.hashes, list(positions))) for tile, positions in tiles]
    try:
        with pool.connection() as connection:
            pipeline.run(connection, steps)
    except psycopg.Error as refused:
        if refused.diag.message_primary == "EVIDENCE_MOVED":
            raise Lost(f"the evidence is no longer of {before} events") from refused
        translate(refused)
