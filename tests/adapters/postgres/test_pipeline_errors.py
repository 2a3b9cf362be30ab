"""After refused appends a connection is as good as new: psycopg notes as prepared what the server skipped."""

import random

import pytest
from eventsourcing.persistence import PersistenceError, StoredEvent

from adapters.postgres import pool, recorder
from projections.projection import Phase, Statement


def test_no_order_of_good_and_refused_appends_spoils_a_connection(database: str) -> None:
    with pool.pool(database, 1) as connections:
        writer = recorder.Recorder(connections)
        shuffled = random.Random(7)
        for number in range(400):
            bad = shuffled.random() < 0.5
            zero = Statement(Phase.KEY, "k", "SELECT 1 / %s::int", (0 if bad else 1,))
            more = Statement(Phase.KEY, "l", f"SELECT {number % 9}, %s::int", (1,))
            event = StoredEvent(f"site_{number}", 1, "t", b"{}")
            if not bad:
                writer.insert_events([event], statements=[more, zero])
                continue
            with pytest.raises(PersistenceError) as refused:
                writer.insert_events([event], statements=[zero, more])
            assert "division by zero" in str(refused.value)
