"""What a claim takes of a budget (domain.md §5)."""

from hypothesis import given
from hypothesis import strategies as st

from domain import budget

INSTANTS = st.integers(0, 60)


@given(st.integers(0, 5), INSTANTS, INSTANTS, st.none() | INSTANTS, st.none() | INSTANTS)
def test_it_takes_its_gpus_in_every_instant_that_lies_in_the_period(
    gpus: int, start: int, length: int, from_: int | None, until: int | None
) -> None:
    account = budget.Account("tenant", 100, 0, 0, from_, until)
    window = (start, start + length)
    naive = sum(gpus for at in range(*window) if (from_ is None or at >= from_) and (until is None or at < until))
    assert budget.needed(account, gpus, window) == naive


def test_the_first_budget_that_has_not_enough_left_is_named_and_one_of_another_time_asks_nothing() -> None:
    whole = budget.Account("tenant", 100, 40, 50)
    assert budget.exceeded([whole], 1, (0, 10)) is None, "all that is left may be taken"
    assert budget.exceeded([whole], 1, (0, 11)) == budget.Exceeded("tenant", 100, 11, 10)
    over = budget.Account("project", 1, 2, 0, from_=0, until=5)
    assert budget.exceeded([whole, over], 1, (0, 5)) == budget.Exceeded("project", 1, 5, -1)
    assert budget.exceeded([whole, over], 1, (5, 10)) is None, "nothing of it lies in the period"
