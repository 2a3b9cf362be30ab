"""What inline tables were is what their past says: random histories, cut into batches of any size."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_histories import bring, empty
from test_versions import Told

from adapters.postgres import rebuild
from adapters.postgres.pool import Pool, pool
from adapters.postgres.runner import Runner
from facts import Facts, differences
from projections import bookings_past, quotas_past, table

NOW = {
    "devices": "SELECT * FROM device_bookings",
    "scalars": "SELECT allocation_id, resource, reservation_id, node_id, amount, during FROM scalar_bookings",
    "claims": "SELECT reservation_id, scope, resource, amount, during FROM quota_claims",
}
THEN = {
    "devices": f"SELECT * FROM {bookings_past.DEVICES} AS past",
    "scalars": f"SELECT * FROM {bookings_past.SCALARS} AS past",
    "claims": f"SELECT * FROM {quotas_past.CLAIMS} AS past",
}

Rows = dict[str, list[str]]


def rows(connections: Pool, of: dict[str, str], position: int) -> Rows:
    found = {}
    with connections.connection() as connection:
        for name, sql in of.items():
            asked = f"SELECT t::text FROM ({sql}) AS t ORDER BY 1".encode()
            found[name] = [row[0] for row in connection.execute(asked, {"_as_of": position}).fetchall()]
    return found


def tell(connections: Pool, seed: int, moves: int) -> dict[int, Rows]:
    """What the inline tables held after each move; the read models have read all of it, in pieces."""
    empty(connections)
    dice = random.Random(seed)
    told = Told(Facts(connections), lambda: dice.randrange(2**16))
    running = Runner(connections, table.ASYNC)
    held: dict[int, Rows] = {}
    for _ in told.go_on(dice, moves):
        held[told.position] = rows(connections, NOW, told.position)
        if not dice.randrange(4):
            bring(running)
    bring(running)
    return held


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), moves=st.integers(10, 60))
def test_the_past_of_bookings_and_claims_is_what_they_were(migrated: str, seed: int, moves: int) -> None:
    with pool(migrated, 3) as connections:
        for position, held in tell(connections, seed, moves).items():
            assert rows(connections, THEN, position) == held, position
        assert differences(migrated) == []


@pytest.mark.parametrize("of", [one for one in table.ASYNC if one.name.endswith("_past")], ids=lambda of: of.name)
def test_it_can_be_made_anew(database: str, of: rebuild.Async) -> None:
    with pool(database, 3) as connections:
        held = tell(connections, 7, 40)
        rebuild.rebuild(database, of)
        for position, before in held.items():
            assert rows(connections, THEN, position) == before, position
