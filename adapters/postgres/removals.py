"""The rows of what is to be removed in a Better IAM: who no longer sees what, and how often that was tried."""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg
from msgspec import Struct

from adapters.postgres import pipeline
from adapters.postgres.mapper import decode
from adapters.postgres.pool import Pool
from adapters.postgres.recorder import fencing
from adapters.postgres.refusals import translate
from domain.event import Fence, Recorded

_PROGRESS: LiteralString = "SELECT position FROM relationship_progress"
_ENDS: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events WHERE notification_id > %s AND notification_id <= %s AND topic = ANY(%s)
ORDER BY notification_id
"""
_BELOW: LiteralString = """
SELECT one.id FROM catalog_tenants AS one JOIN tenant_line(one.id) AS line ON line.id = %s AND line.depth > 0
ORDER BY one.id
"""
_OFFERINGS: LiteralString = "SELECT id FROM offerings WHERE pool_id = %s AND NOT withdrawn ORDER BY id"
_DUE: LiteralString = """
SELECT tenant_id, type, id, tries FROM relationship_removals
WHERE due_at <= (SELECT database_ms()) ORDER BY due_at, tenant_id, type, id LIMIT %s
"""
_LEFT: LiteralString = "SELECT count(*) FROM relationship_removals WHERE tries > 0"

_ADD: Final = """
INSERT INTO relationship_removals (tenant_id, type, id, tries, due_at)
SELECT tenant, type, id, 0, database_ms() FROM unnest(%s::text[], %s::text[], %s::text[]) AS new (tenant, type, id)
ON CONFLICT (tenant_id, type, id) DO UPDATE SET tries = 0, due_at = EXCLUDED.due_at, trouble = NULL
"""
_ADVANCE: Final = "UPDATE relationship_progress SET position = %s WHERE position < %s"
_DONE: Final = "DELETE FROM relationship_removals WHERE tenant_id = %s AND type = %s AND id = %s"
_LATER: Final = """
UPDATE relationship_removals SET tries = %s, trouble = %s, due_at = database_ms() + %s
WHERE tenant_id = %s AND type = %s AND id = %s
"""
_ANEW: Final = "UPDATE relationship_removals SET tries = 0, due_at = database_ms() WHERE due_at IS NULL"


class Removal(Struct, frozen=True):
    """In this tenant nobody sees this thing any more; `tries` came to nothing so far."""

    tenant_id: str
    type: str
    id: str
    tries: int = 0


class Removals:
    """All writes are under a fence, each one transaction; raises errors.Fenced once the lease has a new epoch."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def position(self) -> int:
        return int(self._rows(_PROGRESS, ())[0][0])

    def ends(self, after: int, upto: int, topics: Sequence[str]) -> list[Recorded]:
        """The events of these names in `(after, upto]`."""
        return [decode(*row) for row in self._rows(_ENDS, (after, upto, list(topics)), binary=True)]

    def below(self, tenant_id: str) -> list[str]:
        return [row[0] for row in self._rows(_BELOW, (tenant_id,))]

    def offerings(self, pool_id: str) -> list[str]:
        """Those that were not withdrawn, also of a pool that is retired."""
        return [row[0] for row in self._rows(_OFFERINGS, (pool_id,))]

    def due(self, limit: int) -> list[Removal]:
        return [Removal(*row) for row in self._rows(_DUE, (limit,))]

    def left(self) -> int:
        """How many were tried and are not done."""
        return int(self._rows(_LEFT, ())[0][0])

    def add(self, removals: Sequence[Removal], position: int, fence: Fence) -> None:
        """These are to be done, and the log is looked through up to here."""
        steps: list[tuple[str, Sequence[Any]]] = [(_ADVANCE, (position, position))]
        if removals:
            columns = zip(*((one.tenant_id, one.type, one.id) for one in removals), strict=True)
            steps.append((_ADD, [list(column) for column in columns]))
        self._write(fence, *steps)

    def done(self, one: Removal, fence: Fence) -> None:
        self._write(fence, (_DONE, (one.tenant_id, one.type, one.id)))

    def later(self, one: Removal, trouble: str, wait_ms: int | None, fence: Fence) -> None:
        """Tried once more, for nothing: again in so many ms, or not again by this holder."""
        self._write(fence, (_LATER, (one.tries + 1, trouble, wait_ms, one.tenant_id, one.type, one.id)))

    def anew(self, fence: Fence) -> None:
        """What was given up is due again."""
        self._write(fence, (_ANEW, ()))

    def _rows(self, sql: LiteralString, params: Sequence[Any], *, binary: bool = False) -> list[tuple[Any, ...]]:
        with self._pool.connection() as connection:
            return connection.execute(sql, params, prepare=True, binary=binary).fetchall()

    def _write(self, fence: Fence, *steps: tuple[str, Sequence[Any]]) -> None:
        try:
            with self._pool.connection() as connection:
                pipeline.run(connection, [*fencing(fence), *steps])
        except psycopg.Error as refused:
            translate(refused)
