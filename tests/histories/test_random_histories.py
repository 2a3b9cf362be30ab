"""A bounded number of random histories; `make histories` goes on for longer."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from histories import driver
from histories.history import on_database
from histories.machine import Histories


@pytest.fixture
def machine(emptied: Callable[[], str], migrated: str) -> Iterator[type[Histories]]:
    with on_database(migrated, emptied) as begin:
        yield type("OnDatabase", (Histories,), {"begin": staticmethod(begin)})


def test_whatever_happens_every_invariant_holds_after_it(machine: type[Histories]) -> None:
    bounds = settings(
        max_examples=10,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=bounds)


@pytest.mark.parametrize("seed", range(5))
def test_every_invariant_holds_all_through_a_busy_day(machine: type[Histories], seed: int) -> None:
    driver.run(machine(), seed, 40, audited=seed == 0)
