"""A reservation's life: what time brings about, what its nodes report, which verbs it takes."""

from typing import Any

import pytest
from msgspec.structs import replace

from commands import agents, teardown
from commands.controllers import timekeeper
from domain import asking, errors, reservation, reservation_fold, reservation_life, reservation_terms, waiting

NOW = 1_000_000
CLAIM: Any = None


def allocation(n: int, **fields: Any) -> reservation.Allocation:
    return reservation.Allocation(f"alloc_{n}", f"node_{n}", f"n{n}", (), (f"GPU-{n}",), (), {}, 1, **fields)


def being(status: str, **fields: Any) -> reservation.State:
    return reservation.State(status=status, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (being("active", ends_at=NOW), "end"),
        (being("active", ends_at=NOW + 1), "notice"),
        (being("active", ends_at=NOW + 1, ending=reservation.Ending(NOW + 1, "Ended")), "nothing"),
        (being("active", ends_at=None), "nothing"),
        (being("binding", ends_at=NOW, fail_at=NOW), "end"),
        (being("binding", ends_at=NOW + 1, fail_at=NOW), "fail"),
        (being("binding", ends_at=NOW + 1, fail_at=NOW + 1), "nothing"),
        (being("placed", starts_at=NOW, ends_at=NOW + 1), "start"),
        (being("placed", starts_at=NOW + 1, ends_at=NOW + 2), "nothing"),
        (being("placed", starts_at=NOW - 2, ends_at=NOW), "expire"),
        (being("pending", give_up_at=NOW), "expire"),
        (being("pending", give_up_at=NOW + 1), "nothing"),
        (being("draft", since=NOW - reservation_terms.DRAFT_MS), "expire"),
        (being("draft", since=NOW - reservation_terms.DRAFT_MS + 1), "nothing"),
        (being("releasing", ends_at=NOW - 1), "nothing"),
        *(
            (being(state, ends_at=1, starts_at=1, fail_at=1, give_up_at=1), "nothing")
            for state in reservation_life.FINAL
        ),
    ],
)
def test_what_is_due(state: reservation.State, step: str) -> None:
    assert timekeeper.due(state, NOW) == step


def test_it_is_active_once_every_node_has_prepared_its_part() -> None:
    gang = being("binding", allocations=(allocation(1), allocation(2)))
    first = agents.prepared(gang, "node_1", {"alloc_1": "prepared"}, 3, NOW, False)
    assert first == [reservation.Prepared("alloc_1", 3)]
    half = replace(gang, allocations=(allocation(1, prepared=True), allocation(2)))
    assert agents.prepared(half, "node_1", {"alloc_1": "prepared"}, 3, NOW, False) == [], "once said is said"
    last = agents.prepared(half, "node_2", {"alloc_2": "prepared"}, 4, NOW, False)
    assert last == [reservation.Prepared("alloc_2", 4), reservation.Activated(NOW)]


@pytest.mark.parametrize("item", ["preparing", "failed"])
def test_a_part_that_is_not_prepared_makes_nothing_active(item: Any) -> None:
    assert (
        agents.prepared(being("binding", allocations=(allocation(1),)), "node_1", {"alloc_1": item}, 3, NOW, False)
        == []
    )


def test_while_somebody_before_holds_an_atom_it_is_prepared_and_not_active() -> None:
    """O15."""
    state = being("binding", allocations=(allocation(1),))
    (told,) = agents.prepared(state, "node_1", {"alloc_1": "prepared"}, 3, NOW, True)
    assert told == reservation.Prepared("alloc_1", 3)
    after = reservation_fold.evolve(state, told)
    assert agents.prepared(after, "node_1", {"alloc_1": "prepared"}, 3, NOW, False) == [reservation.Activated(NOW)]


def test_it_is_released_when_the_last_node_has_torn_down() -> None:
    gang = being("releasing", reason="Ended", allocations=(allocation(1), allocation(2)))
    change = teardown.torn_down("rsv_1", gang, 7, "node_1", NOW)
    assert change is not None
    assert change.events == (reservation.TornDown("alloc_1", "node_1", NOW),)
    half = reservation_fold.evolve(gang, change.events[0])
    assert teardown.torn_down("rsv_1", half, 8, "node_1", NOW) is None
    last = teardown.torn_down("rsv_1", half, 8, "node_2", NOW)
    assert last is not None
    assert last.events[1] == reservation.Released("Ended", NOW)
    failed = replace(gang, status="failed")
    assert [type(e).__name__ for e in teardown.torn_down("rsv_1", failed, 7, "node_1", NOW).events] == ["TornDown"]
    assert teardown.torn_down("rsv_1", being("active", allocations=(allocation(1),)), 7, "node_1", NOW) is None


@pytest.mark.parametrize("status", list(reservation_life.MOVES))
@pytest.mark.parametrize("verb", list(reservation_life.VERBS))
def test_a_verb_is_taken_in_its_states_and_else_names_those_that_are(verb: str, status: Any) -> None:
    state = being(status)
    if status in reservation_life.VERBS[verb]:
        reservation_life.must_take(state, verb)
        return
    with pytest.raises(errors.IllegalTransition) as refused:
        reservation_life.must_take(state, verb)
    legal = tuple(name for name, states in reservation_life.VERBS.items() if status in states)
    assert refused.value.extra == {"state": status, "allowed": legal}
    assert ("final" in refused.value.detail) is (status in reservation_life.FINAL)


def draft(starts_at: int | None) -> reservation.Drafted:
    return reservation.Drafted(
        tenant_id="acme",
        identity_id="alice",
        pool_id="pool_1",
        pool_name="p",
        claim=CLAIM,
        duration_seconds=60,
        binding="hold",
        spot=False,
        max_pending_seconds=60,
        gpu_count=1,
        gpu_model="H100",
        region="eu",
        body="",
        at=NOW,
        starts_at=starts_at,
    )


@pytest.mark.parametrize(
    ("starts_at", "window"),
    [
        (None, (NOW, NOW + 60_000)),
        (NOW + 5, (NOW + 5, NOW + 60_005)),
        (NOW - 10_000, (NOW, NOW + 50_000)),
        (NOW - 60_000, None),
    ],
)
def test_a_start_that_comes_late_keeps_its_end(starts_at: int | None, window: tuple[int, int] | None) -> None:
    assert waiting.span(reservation.State(draft=draft(starts_at), starts_at=starts_at), NOW) == window


def test_a_claim_is_not_placed_before_what_it_was_admitted_for_though_the_clock_was_set_back() -> None:
    claimed = reservation.Claimed((), {"gpu": 1}, NOW, NOW + 120_000)
    state = reservation.State(draft=draft(None), claimed=claimed)
    assert waiting.span(state, NOW - 5) == (NOW, NOW + 60_000)
    assert waiting.span(state, NOW + 5) == (NOW + 5, NOW + 60_005)


def test_a_policy_reads_hours_that_are_not_rounded_and_no_unknowns() -> None:
    read = asking.attributes(replace(draft(None), duration_seconds=5400))
    assert read["durationHours"] == 1.5
    assert "projectId" not in read
    assert read["ownerId"] == "alice"


def test_final_is_final() -> None:
    for state in reservation_life.FINAL:
        assert reservation_life.MOVES[state] == ()
        assert not any(state in states for states in reservation_life.VERBS.values())


def test_a_drain_that_is_called_off_does_not_call_off_a_preemption() -> None:
    state = being("active", ends_at=NOW + 60_000)
    told = (
        reservation.Preempted("pool_1", NOW, NOW + 30_000),
        reservation.Ending(NOW + 10_000, "Drained"),
        reservation.Stays(),
    )
    for event in told:
        state = reservation_fold.evolve(state, event)
    assert state.ending == reservation.Ending(NOW + 30_000, "Preempted")
    assert reservation_terms.end_reason(state) == "Preempted"
