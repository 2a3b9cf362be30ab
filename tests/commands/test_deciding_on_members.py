"""What a gang does without, and which nodes may take the place of one that it lost (domain.md §5, Lost node)."""

from typing import Any

import pytest
from msgspec.structs import replace

from commands import agents, members
from commands.controllers import replacing
from domain import claim, reservation, reservation_fold

NOW = 1_000_000
TWO = claim.Claim((claim.DeviceLine("gpu", 1),), 2)


def draft(asked: claim.Claim = TWO) -> reservation.Drafted:
    return reservation.Drafted(
        "acme", "alice", "pool_1", "p", asked, 3600, "hold", False, 60, 1, "H100", "eu-north", "b", NOW
    )


def allocation(n: int, prepared: bool = True) -> reservation.Allocation:
    return reservation.Allocation(f"alloc_{n}", f"node_{n}", f"n{n}", (), (f"GPU-{n}",), (), {}, 1, prepared)


WHOLE = reservation.State(status="active", draft=draft(), allocations=(allocation(1), allocation(2)))
LACKING = replace(WHOLE, allocations=(allocation(1),), lost=(allocation(2),), degraded="NodeLost")
REPLACED = replace(LACKING, allocations=(allocation(1), allocation(3, prepared=False)))
MISSING = replace(WHOLE, degraded="DeviceMissing", missing=("GPU-1",))
MENDED = reservation.Mended(NOW)


def degraded(reason: str, *names: str) -> reservation.Degraded:
    return reservation.Degraded(reason, names, NOW)


@pytest.mark.parametrize(
    ("state", "missing", "told"),
    [
        (WHOLE, (), None),
        (WHOLE, ("GPU-2", "GPU-1"), degraded("DeviceMissing", "GPU-1", "GPU-2")),
        (MISSING, ("GPU-1",), None),
        (MISSING, ("GPU-2",), degraded("DeviceMissing", "GPU-2")),
        (MISSING, (), MENDED),
        (LACKING, (), None),
        (LACKING, ("GPU-1",), degraded("NodeLost", "GPU-1")),
        (REPLACED, (), None),
        (replace(REPLACED, allocations=(allocation(1), allocation(3))), (), MENDED),
        (replace(REPLACED, allocations=WHOLE.allocations), ("GPU-1",), degraded("DeviceMissing", "GPU-1")),
    ],
)
def test_what_it_does_without_is_told_once_and_a_lost_member_first(
    state: reservation.State, missing: tuple[str, ...], told: Any
) -> None:
    assert members.lacks(state, missing, NOW) == ([] if told is None else [told])


LABELS = {f"node_{n}": {"rack": rack} if rack else {} for n, rack in enumerate(("", "a", "a", "b", "b", "c"))}


@pytest.mark.parametrize(
    ("topology", "open_to_it"),
    [
        (None, {"node_0", "node_3", "node_4", "node_5"}),
        (claim.Topology(pack="rack"), set()),
        (claim.Topology(spread="rack"), {"node_3", "node_4", "node_5"}),
    ],
)
def test_where_a_member_may_go(topology: claim.Topology | None, open_to_it: set[str]) -> None:
    """Not beside another, not where the lost one is not torn down yet; the label decides the rest."""
    state = replace(LACKING, draft=draft(replace(TWO, topology=topology)))
    assert set(LABELS) - replacing.barred(state, LABELS) == open_to_it


def test_a_pack_stays_on_its_value_once_the_lost_member_is_torn_down() -> None:
    state = replace(LACKING, draft=draft(replace(TWO, topology=claim.Topology(pack="rack"))), lost=())
    assert set(LABELS) - replacing.barred(state, LABELS) == {"node_2"}


def test_a_replacement_is_late_when_its_time_is_over_and_not_when_it_is_prepared() -> None:
    state = replace(REPLACED, prepare_by={"alloc_3": NOW})
    assert members.late(state, NOW - 1) is None
    assert members.late(state, NOW) == allocation(3, prepared=False)


@pytest.mark.parametrize(
    "end",
    [reservation.ReleaseStarted("Released", NOW, {"node_1": 8}), reservation.Failed("x", NOW, True, {"node_1": 8})],
)
def test_a_lost_member_is_torn_down_by_a_node_that_knows_of_it_also_when_the_rest_has_ended(end: Any) -> None:
    """What a node says that has not read so far says nothing of the member: it may be preparing it."""
    lost = reservation.MemberLost("alloc_2", "node_2", "NodeLost", NOW, 6)
    state = reservation_fold.evolve(reservation_fold.evolve(replace(WHOLE, generations={"node_2": 5}), lost), end)
    assert not agents.torn_down_by(state, "node_2", 4, {})
    assert agents.torn_down_by(state, "node_2", 6, {})
    assert not agents.torn_down_by(state, "node_1", 7, {})
