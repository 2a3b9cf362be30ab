"""The end of what instances wrote to their consoles, beside the log: it goes with its instance (domain.md §6)."""

from collections.abc import Sequence
from typing import LiteralString

from adapters.postgres.pool import Pool
from commands.instance_consoles import Console

_KEEP: LiteralString = """
INSERT INTO instance_consoles (instance_id, tenant_id, total_bytes, tail, written_at)
SELECT given.*, database_ms() FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::text[]) AS given ORDER BY 1
ON CONFLICT (instance_id) DO UPDATE SET
    total_bytes = excluded.total_bytes, tail = excluded.tail, written_at = excluded.written_at
"""
_DROP: LiteralString = "DELETE FROM instance_consoles WHERE instance_id = ANY(%s)"


class Consoles:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def keep(self, consoles: Sequence[Console]) -> None:
        """The last of each instance counts. A text of PostgreSQL has no NUL: what wrote one is shown without."""
        last = {one.instance_id: one for one in consoles}
        rows = [(one.instance_id, one.tenant_id, one.total_bytes, one.tail.replace("\0", "")) for one in last.values()]
        if rows:
            with self._pool.connection() as connection:
                connection.execute(_KEEP, [list(column) for column in zip(*rows, strict=True)], prepare=True)

    def drop(self, instance_ids: Sequence[str]) -> None:
        """Delete them; what is not there is as good."""
        with self._pool.connection() as connection:
            connection.execute(_DROP, (list(instance_ids),), prepare=True)
