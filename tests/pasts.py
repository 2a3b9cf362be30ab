"""What the append's own tables hold, and what their past says that they held: row by row the same (decisions/0026)."""

from adapters.postgres.pool import Pool
from projections import bookings, bookings_past, quotas_past, versions

Rows = dict[str, list[str]]

_BEYOND = "matters_until < coalesce(upper(during), 9223372036854775807)"
"""Of no row: who passes over what does not matter any more would miss it."""

_DEVICES = "device_id, allocation_id, reservation_id, node_id, pool_id, tenant_id, bound, ended, freed, during"
_SCALARS = "allocation_id, resource, reservation_id, node_id, amount, during"

NOW = {
    "devices": f"SELECT {_DEVICES} FROM {bookings.DEVICES} AS present",
    "devices missed": f"SELECT * FROM {bookings.DEVICES} AS present WHERE {_BEYOND}",
    "scalars": f"SELECT {_SCALARS} FROM {bookings.SCALARS} AS present",
    "scalars missed": f"SELECT * FROM {bookings.SCALARS} AS present WHERE {_BEYOND}",
    "claims": "SELECT reservation_id, scope, resource, amount, during FROM quota_claims",
    "budgets": """
    SELECT reservation_id, scope, gpus, gpu_ms, placed, members, each, during, active_at FROM budget_claims
    """,
    "spent": "SELECT * FROM budget_spent",
}
THEN = {
    "devices": f"SELECT {_DEVICES} FROM {bookings_past.DEVICES} AS past",
    "devices missed": f"SELECT * FROM {bookings_past.DEVICES} AS past WHERE {_BEYOND}",
    "scalars": f"SELECT {_SCALARS} FROM {bookings_past.SCALARS} AS past",
    "scalars missed": f"SELECT * FROM {bookings_past.SCALARS} AS past WHERE {_BEYOND}",
    "claims": f"SELECT * FROM {quotas_past.CLAIMS} AS past",
    "budgets": f"""
    SELECT h.id, scopes.scope, h.gpus, h.gpu_ms, h.placed, h.members, h.each, int8range(h.from_at, h.until_at),
           h.active_at
    FROM budget_claims_history AS h CROSS JOIN LATERAL jsonb_array_elements_text(h.scopes) AS scopes (scope)
    WHERE h.from_at IS NOT NULL AND {versions.CURRENT}
    UNION ALL
    SELECT h.id, scopes.scope, h.gpus, h.gpu_ms, h.placed, h.members, h.each, NULL, h.active_at
    FROM budget_claims_history AS h CROSS JOIN LATERAL jsonb_array_elements_text(h.scopes) AS scopes (scope)
    WHERE h.from_at IS NULL AND {versions.CURRENT}
    """,
    "spent": f"SELECT h.scope, h.day, h.gpu_ms FROM budget_spent_history AS h WHERE {versions.CURRENT}",
}


def now(connections: Pool) -> Rows:
    return _rows(connections, NOW, 0)


def then(connections: Pool, position: int) -> Rows:
    return _rows(connections, THEN, position)


def _rows(connections: Pool, of: dict[str, str], position: int) -> Rows:
    found = {}
    with connections.connection() as connection:
        for name, sql in of.items():
            asked = f"SELECT t::text FROM ({sql}) AS t ORDER BY 1".encode()
            found[name] = [row[0] for row in connection.execute(asked, {"_as_of": position}).fetchall()]
    return found
