"""Leases, notices and ends of reservations, as decisions on what is and what time it is."""

from typing import Any

import pytest

from commands.controllers import presence, timekeeper
from domain import claim, reservation, reservation_fold, reservation_terms
from facts import T0

HOUR = 3_600_000


def draft(lease_seconds: int | None = None) -> reservation.Drafted:
    asked = claim.Claim((claim.DeviceLine("gpu", 1),))
    return reservation.Drafted(
        "acme", "alice", "pool_1", "p", asked, 3600, "hold", False, 60, 1, "H100", "eu", "b", T0,
        lease_seconds=lease_seconds,
    )  # fmt: skip


def active(ends_at: int = T0 + 9 * HOUR, **fields: Any) -> reservation.State:
    return reservation.State(status="active", draft=draft(fields.pop("lease", None)), ends_at=ends_at, **fields)


@pytest.mark.parametrize(("back_at", "lapsed"), [(0, True), (T0 - 60_000, True), (T0 - 59_999, False), (T0 - 1, False)])
def test_no_lease_lapses_before_a_whole_period_since_the_controllers_return(back_at: int, lapsed: bool) -> None:
    state = active(lease=60, lease_until=T0)
    assert reservation_terms.lapses(state, T0, back_at) is lapsed
    assert (timekeeper.due(state, T0, back_at) == "lapse") is lapsed


def test_without_a_lease_nothing_lapses_and_an_end_goes_before_a_lapse() -> None:
    assert not reservation_terms.lapses(active(), T0)
    assert timekeeper.due(active(T0, lease=60, lease_until=T0 - 1), T0) == "end"


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (active(T0 + HOUR), "notice"),
        (active(T0 + HOUR + 1), "nothing"),
        (active(T0 + HOUR, ending=reservation.Ending(T0 + HOUR, "Ended")), "nothing"),
        (active(T0 + HOUR, ending=reservation.Ending(T0 + 1, "NodeDrained")), "nothing"),
        (active(T0, ending=None), "end"),
    ],
)
def test_notice_is_given_once_and_an_hour_before(state: reservation.State, step: str) -> None:
    assert timekeeper.due(state, T0) == step


def test_a_notice_is_of_one_end_and_comes_again_for_another() -> None:
    told = active(T0 + HOUR, ending=reservation.Ending(T0 + HOUR, "Ended"))
    claimed = reservation.Claimed((), {}, T0, T0 + 2 * HOUR)
    extended = reservation.Extended("ext_1", "adm_1", "pool_1", T0 + HOUR, T0 + 2 * HOUR, claimed, 0, (), T0)
    after = reservation_fold.evolve(told, extended)
    assert after.ending is None
    assert timekeeper.due(after, T0) == "nothing"
    assert timekeeper.due(after, T0 + HOUR) == "notice"


def test_what_is_preempted_ends_with_that_reason() -> None:
    state = reservation_fold.evolve(active(), reservation.Preempted(T0, T0 + 60_000))
    assert timekeeper.due(state, T0 + 59_999) == "nothing"
    assert timekeeper.due(state, T0 + 60_000) == "end"
    assert reservation_terms.end_reason(state) == "Preempted"
    drained = active(T0 + 5, ending=reservation.Ending(T0 + 9, "NodeDrained"))
    assert reservation_terms.end_reason(drained) == "Ended"


def test_who_waits_for_confirmation_waits_until_then() -> None:
    awaited = reservation.ConfirmationAwaited("OverBudget", "", T0, T0 + 1000)
    state = reservation_fold.evolve(reservation.State(draft=draft()), awaited)
    assert timekeeper.due(state, T0 + 999) == "nothing"
    assert timekeeper.due(state, T0 + 1000) == "expire"


def test_a_controller_is_back_after_a_takeover_a_gap_and_a_jump_of_the_databases_clock() -> None:
    first = presence.begun(None, 1, 100.0, T0, 5.0)
    assert first.back_at == T0
    assert presence.begun(first, 1, 104.0, T0 + 4000, 5.0).back_at == T0
    assert presence.begun(first, 1, 106.0, T0 + 6000, 5.0).back_at == T0 + 6000
    assert presence.begun(first, 2, 101.0, T0 + 1000, 5.0).back_at == T0 + 1000
    assert presence.begun(first, 1, 101.0, T0 + 86_400_000, 5.0).back_at == T0 + 86_400_000


def test_a_long_round_is_no_gap() -> None:
    long = presence.Round(epoch=1, began_s=100.0, ended_s=130.0, now=T0, back_at=T0)
    assert presence.begun(long, 1, 131.0, T0 + 31_000, 5.0).back_at == T0
