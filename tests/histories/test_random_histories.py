"""A bounded number of random histories; `make histories` goes on for longer."""

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from adapters.postgres.pool import pool
from histories import clock
from histories.history import History
from histories.machine import Histories


@pytest.fixture
def machine(emptied, migrated: str) -> Iterator[type[Histories]]:
    with (
        psycopg.connect(migrated, autocommit=True) as connection,
        clock.ours(connection),
        pool(migrated, 4, by_key=True) as writes,
        pool(migrated, 4) as reads,
    ):

        def begin(cleaning_s: int) -> History:
            emptied()
            return History(migrated, writes, reads, cleaning_s)

        yield type("OnDatabase", (Histories,), {"begin": staticmethod(begin)})


def test_whatever_happens_every_invariant_holds_after_it(machine: type[Histories]) -> None:
    bounds = settings(
        max_examples=40,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=bounds)
