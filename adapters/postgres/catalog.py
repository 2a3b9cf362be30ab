"""Reads of the inline rows that a decision needs: what resolves where, offers, keys (domain.md §10)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, LiteralString

import msgspec

from adapters.postgres.pool import Pool
from commands.ports import Ahead, Following, Offer, Queue
from domain import catalog
from domain.access import Resource
from domain.admission import Replay

_SCOPES = {"compute-fleet", "compute-tenant"}

_ROW: LiteralString = "SELECT tenant_id, parent_id, attributes::text FROM catalog WHERE type = %s AND id = %s"

_REPLAY: LiteralString = "SELECT key, body, stream, version, status FROM replays WHERE key = %s"

_ROWS: LiteralString = """
SELECT type, id, tenant_id, parent_id, attributes::text FROM catalog WHERE id = ANY(%s)
"""

_OFFERED: LiteralString = """
SELECT DISTINCT pool_id FROM catalog_offers
JOIN tenant_line(%s) AS line ON line.id = catalog_offers.tenant_id
WHERE pool_id = ANY(%s) AND (line.depth = 0 OR include_descendants)
"""

_OFFER: LiteralString = """
SELECT offer_id, priority FROM catalog_offers
JOIN tenant_line(%s) AS line ON line.id = catalog_offers.tenant_id
WHERE pool_id = %s AND (line.depth = 0 OR include_descendants)
ORDER BY line.depth LIMIT 1
"""


_AHEAD: LiteralString = """
SELECT queue_version, ARRAY(
    SELECT reservation_id FROM pool_queue
    WHERE pool_id = %(pool)s AND (spot, -priority, since) < (%(spot)s, -%(priority)s, %(since)s)
    ORDER BY spot, priority DESC, since, reservation_id LIMIT %(limit)s
) FROM pool_gates WHERE pool_id = %(pool)s
"""

_BLOCKING: LiteralString = """
FROM device_bookings AS mine JOIN device_bookings AS earlier ON earlier.device_id = mine.device_id
WHERE mine.reservation_id = ANY(%s) AND NOT mine.ended AND earlier.reservation_id <> mine.reservation_id
  AND earlier.bound AND NOT earlier.freed AND lower(earlier.during) < lower(mine.during)
"""

Question = tuple[str, tuple[Any, ...]]
Found = tuple[Replay | None, dict[tuple[str, str], Resource | None], dict[str, Offer | None]]


def _rows(ahead: Ahead) -> list[tuple[str, str]]:
    return [thing for thing in ahead.things if thing[0] not in _SCOPES]


def _pools(ahead: Ahead) -> list[str]:
    return [id for type, id in ahead.things if type == "compute-pool"]


def _visible(
    tenant_id: str, type: str, id: str, row: tuple[Any, ...] | None, offer: Callable[[], object]
) -> Resource | None:
    """What a tenant sees of a thing's row: its own things, pools that are offered to it, and public images."""
    if row is None:
        return None
    owner, parent_id, written = row
    attributes = msgspec.json.decode(written)
    shared = (type == catalog.POOL and offer()) or (type == catalog.IMAGE and attributes["visibility"] == "public")
    if owner != tenant_id and not shared:
        return None
    parent = catalog.POOL if parent_id is not None else None
    return Resource(type, id, tenant_id, attributes, parent, parent_id)


class CatalogReader:
    """One query a question; every tenant is an argument, none is ambient."""

    def __init__(self, pool: Pool, root_tenant: str) -> None:
        self._pool = pool
        self._root = root_tenant

    def _row(self, sql: LiteralString, params: Sequence[Any]) -> tuple[Any, ...] | None:
        with self._pool.connection() as connection:
            return connection.execute(sql, params, prepare=True).fetchone()

    def _column(self, sql: LiteralString, params: Sequence[Any]) -> list[str]:
        with self._pool.connection() as connection:
            return [row[0] for row in connection.execute(sql, params, prepare=True).fetchall()]

    def resolve(self, tenant_id: str, type: str, id: str) -> Resource | None:
        if type in _SCOPES:
            return self._scope(tenant_id, type, id)
        return _visible(tenant_id, type, id, self._row(_ROW, (type, id)), lambda: self.offer(tenant_id, id))

    def resolve_all(self, tenant_id: str, ids: Sequence[str]) -> dict[str, Resource | None]:
        """As `resolve`, of many at once; a thing that is there and not seen by the tenant is None."""
        with self._pool.connection() as connection:
            rows = connection.execute(_ROWS, (list(ids),), prepare=True).fetchall()
            pools = [id for type, id, *_ in rows if type == catalog.POOL]
            offered = connection.execute(_OFFERED, (tenant_id, pools), prepare=True).fetchall() if pools else ()
        mine = {pool_id for (pool_id,) in offered}
        return {
            id: _visible(tenant_id, type, id, tuple(row), partial(mine.__contains__, id)) for type, id, *row in rows
        }

    def _questions(self, ahead: Ahead) -> list[Question]:
        """For the key, for each thing's row and for each pool's offer; `_found` takes the answers."""
        key: list[Question] = [(_REPLAY, (ahead.key,))] if ahead.key is not None else []
        rows: list[Question] = [(_ROW, thing) for thing in _rows(ahead)]
        return [*key, *rows, *((_OFFER, (ahead.tenant_id, pool_id)) for pool_id in _pools(ahead))]

    def _found(self, ahead: Ahead, answers: Sequence[list[tuple[Any, ...]]]) -> Found:
        first = iter([rows[0] if rows else None for rows in answers])
        replay = next(first) if ahead.key is not None else None
        rows = {thing: next(first) for thing in _rows(ahead)}
        offers = {pool_id: Offer(*row) if (row := next(first)) else None for pool_id in _pools(ahead)}
        resources = {}
        for type, id in ahead.things:
            if type in _SCOPES:
                resources[type, id] = self._scope(ahead.tenant_id, type, id)
            else:
                resources[type, id] = _visible(ahead.tenant_id, type, id, rows[type, id], partial(offers.get, id))
        return Replay(*replay) if replay else None, resources, offers

    def _scope(self, tenant_id: str, type: str, id: str) -> Resource | None:
        mine = tenant_id == self._root and id == "global" if type == "compute-fleet" else id == tenant_id
        return Resource(type, id, tenant_id, {}) if mine else None

    def offer(self, tenant_id: str, pool_id: str) -> Offer | None:
        row = self._row(_OFFER, (tenant_id, pool_id))
        return Offer(*row) if row else None

    def holder(self, kind: str, scope: str, key: str) -> str | None:
        sql: LiteralString = "SELECT holder FROM unique_keys WHERE kind = %s AND scope = %s AND key = %s"
        row = self._row(sql, (kind, scope, key))
        return row[0] if row else None

    def holders(self, identifiers: Sequence[str]) -> dict[str, tuple[str, ...]]:
        sql: LiteralString = """
        SELECT identifier, nodes FROM hardware_identifiers WHERE identifier = ANY(%s) AND cardinality(nodes) > 0
        """
        with self._pool.connection() as connection:
            rows = connection.execute(sql, (list(identifiers),), prepare=True).fetchall()
        return {identifier: tuple(nodes) for identifier, nodes in rows}

    def crowded(self, identifiers: Sequence[str]) -> set[str]:
        sql: LiteralString = """
        SELECT identifier FROM hardware_identifiers WHERE identifier = ANY(%s) AND cardinality(nodes) > 1
        """
        return set(self._column(sql, (list(identifiers),)))

    def nodes_of(self, pool_id: str) -> list[str]:
        return self._column("SELECT node_id FROM node_gates WHERE pool_id = %s ORDER BY 1", (pool_id,))

    def booked(self, node_id: str) -> list[str]:
        sql: LiteralString = """
        SELECT DISTINCT reservation_id FROM device_bookings WHERE node_id = %s AND bound AND NOT freed ORDER BY 1
        """
        return self._column(sql, (node_id,))

    def booked_all(self, nodes: Sequence[str]) -> dict[str, list[str]]:
        sql: LiteralString = """
        SELECT node_id, array_agg(DISTINCT reservation_id ORDER BY reservation_id) FROM device_bookings
        WHERE node_id = ANY(%s) AND bound AND NOT freed GROUP BY node_id
        """
        with self._pool.connection() as connection:
            return dict(connection.execute(sql, (list(nodes),), prepare=True).fetchall())

    def saw_inventory(self, *nodes: str) -> None:
        sql: LiteralString = """
        INSERT INTO node_sightings (node_id, inventory_at)
        SELECT seen, database_ms() FROM unnest(%s::text[]) AS seen ORDER BY seen
        ON CONFLICT (node_id) DO UPDATE SET inventory_at = excluded.inventory_at
        """
        with self._pool.connection() as connection:
            connection.execute(sql, (sorted(set(nodes)),), prepare=True)

    def carried(self, node_id: str) -> list[str]:
        sql: LiteralString = """
        SELECT DISTINCT reservation_id FROM device_bookings
        WHERE node_id = %s AND reservation_id IS NOT NULL
          AND ((bound AND NOT freed) OR (NOT bound AND upper(during) > database_ms()))
        ORDER BY 1
        """
        return self._column(sql, (node_id,))

    def booked_devices(self, node_id: str) -> list[str]:
        sql: LiteralString = """
        SELECT DISTINCT device_id FROM device_bookings
        WHERE node_id = %s AND reservation_id IS NOT NULL AND NOT freed
          AND (upper_inf(during) OR upper(during) > database_ms())
        ORDER BY 1
        """
        return self._column(sql, (node_id,))

    def blockers(self, reservation_id: str) -> list[str]:
        return self._column(f"SELECT DISTINCT earlier.reservation_id {_BLOCKING} ORDER BY 1", ([reservation_id],))

    def blocked(self, reservations: Sequence[str]) -> set[str]:
        return set(self._column(f"SELECT DISTINCT mine.reservation_id {_BLOCKING}", (list(reservations),)))

    def following(self, reservation_id: str, since: int, until: int) -> list[Following]:
        sql: LiteralString = """
        WITH mine AS (SELECT device_id, node_id FROM device_bookings WHERE reservation_id = %s AND NOT ended)
        SELECT reservation_id, min(lower(during)) FROM (
            SELECT other.reservation_id, other.during FROM mine JOIN device_bookings AS other USING (device_id)
            WHERE other.reservation_id <> %s
            UNION ALL
            SELECT NULL, planned.during FROM device_bookings AS planned
            WHERE planned.reservation_id IS NULL AND planned.node_id IN (SELECT node_id FROM mine)
        ) AS ahead
        WHERE during && int8range(%s, %s)
        GROUP BY 1 ORDER BY 2, 1 LIMIT 20
        """
        with self._pool.connection() as connection:
            rows = connection.execute(sql, (reservation_id, reservation_id, since, until), prepare=True).fetchall()
        return [Following(*row) for row in rows]

    def queue(self, pool_id: str, place: tuple[bool, int, int], limit: int) -> Queue:
        spot, priority, since = place
        params = {"pool": pool_id, "spot": spot, "priority": priority, "since": since, "limit": limit}
        with self._pool.connection() as connection:
            row = connection.execute(_AHEAD, params, prepare=True).fetchone()
        assert row is not None, "a pool has a gate from its beginning"
        return Queue(row[0], tuple(row[1]))

    def tenants(self) -> list[str]:
        return self._column("SELECT id FROM catalog_tenants WHERE status <> 'deleted' ORDER BY id", ())

    def tenant(self, tenant_id: str) -> str | None:
        row = self._row("SELECT status FROM catalog_tenants WHERE id = %s", (tenant_id,))
        return row[0] if row else None
