"""What a budget can be, and when it changes."""

import pytest

from commands import budgets
from domain import budget, errors


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"from_": 1}, "from"), ({"until": budget.DAY_MS + 1}, "until"), ({"from_": 0, "until": 0}, "until")],
)
def test_a_period_is_made_of_whole_days(fields: dict[str, int], field: str) -> None:
    command = budgets.Set(kind="tenant", id="acme", gpu_hours=1.0, **fields)
    with pytest.raises(errors.Invalid) as refusal:
        budgets.change(command, budget.State(), "acme", 7)
    assert refusal.value.field == field


def test_hours_are_kept_as_whole_milliseconds_and_the_same_again_is_no_event() -> None:
    command = budgets.Set(kind="tenant", id="acme", gpu_hours=0.1)
    (event,) = budgets.change(command, budget.State(), "acme", 7)
    assert event.gpu_ms == 360_000
    assert budgets.change(command, budget.evolve(budget.State(), event), "acme", 8) == []
    (gone,) = budgets.change(budgets.Set(kind="tenant", id="acme", gpu_hours=None), budget.State(), "acme", 7)
    assert gone.gpu_ms is None
