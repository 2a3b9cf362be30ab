"""The gap that a pool keeps between bookings of a device is the database's to keep (domain.md §2)."""

from collections.abc import Iterator

import pytest

from adapters.calendars import Calendars
from adapters.cel import CelSelectors
from domain import claim, errors, node, placement, reservation
from domain import pool as pools
from facts import T0, TENANT, Facts, at_once, facts, new_id
from naive import feed

HOUR, GAP_S = 3_600_000, 600
GAP = GAP_S * 1000


class Scene:
    """One GPU, booked over [T0, T0 + 1 h), in a pool that cleans for ten minutes."""

    def __init__(self, given: Facts) -> None:
        self.given = given
        self.pool_id = given.pool(cleaning_seconds=GAP_S)
        self.node_id, self.atoms = given.node(self.pool_id, 2)
        self.first = self.place(T0, T0 + HOUR)

    def place(self, start: int, end: int) -> str:
        return self.given.place(self.given.placed(self.pool_id, self.node_id, self.atoms[:1], start, end))


@pytest.fixture
def scene(database: str) -> Iterator[Scene]:
    with facts(database, size=12) as given:
        yield Scene(given)


@pytest.mark.parametrize("start", [T0 + HOUR, T0 + HOUR + GAP - 1, T0 - 2 * HOUR, T0 - HOUR - GAP + 1])
def test_nearer_than_the_gap_is_refused_before_and_after(scene: Scene, start: int) -> None:
    with pytest.raises(errors.DoubleBooked, match="600 seconds"):
        scene.place(start, T0 if start == T0 - 2 * HOUR else start + HOUR)
    assert len(scene.given.bookings(scene.atoms[0])) == 1


def test_just_the_gap_is_enough(scene: Scene) -> None:
    scene.place(T0 + HOUR + GAP, T0 + 2 * HOUR)
    scene.place(T0 - HOUR, T0 - GAP)
    assert len(scene.given.bookings(scene.atoms[0])) == 3


def test_what_is_torn_down_early_is_cleaned_from_then_on(scene: Scene) -> None:
    scene.given.bind(scene.first)
    scene.given.release(scene.first, T0 + 1000)
    scene.given.tear_down(scene.first, T0 + 2000)
    with pytest.raises(errors.DoubleBooked):
        scene.place(T0 + 2000 + GAP - 1, T0 + 2 * HOUR)
    scene.place(T0 + 2000 + GAP, T0 + 2 * HOUR)


def test_the_policy_counts_as_it_is_at_the_booking(scene: Scene) -> None:
    scene.given.append(scene.pool_id, pools.PolicyChanged(pools.Policy()))
    second = scene.place(T0 + HOUR, T0 + 2 * HOUR)
    scene.given.append(scene.pool_id, pools.PolicyChanged(pools.Policy(cleaning_seconds=GAP_S)))
    with pytest.raises(errors.DoubleBooked):
        scene.place(T0 + 2 * HOUR, T0 + 3 * HOUR)
    assert scene.given.store.load(second).state.status == "placed"


def test_whoever_was_there_before_is_in_no_extensions_way(scene: Scene) -> None:
    """The policy came after the two were booked one behind the other."""
    short = T0 + HOUR + GAP // 2
    scene.given.append(scene.pool_id, pools.PolicyChanged(pools.Policy()))
    second = scene.place(T0 + HOUR, short)
    scene.given.append(scene.pool_id, pools.PolicyChanged(pools.Policy(cleaning_seconds=GAP_S)))
    (allocation,) = scene.given.store.load(second).state.allocations
    end = T0 + 2 * HOUR
    claimed = reservation.Claimed((), {"gpu": 1}, T0 + HOUR, end)
    scene.given.append(
        second, reservation.Extended("ext_1", "adm_2", scene.pool_id, short, end, claimed, 0, (allocation.id,), T0)
    )
    assert scene.given.bookings(scene.atoms[0])[-1][-1] == end


def test_maintenance_needs_no_cleaning(scene: Scene) -> None:
    plan = node.Plan("alloc_plan", "bios", T0 + 3 * HOUR, T0 + 4 * HOUR, tuple(scene.atoms))
    scene.given.append(scene.node_id, node.MaintenancePlanned(scene.pool_id, "root", plan))
    scene.place(T0 + 2 * HOUR, T0 + 3 * HOUR)


def test_a_member_in_place_of_a_lost_one_keeps_the_gap_as_well(scene: Scene) -> None:
    given = scene.given
    other, (free, _) = given.node(scene.pool_id, 2)
    parts = [
        given.placed(scene.pool_id, n, [a], T0, T0 + HOUR) for n, a in ((scene.node_id, scene.atoms[1]), (other, free))
    ]
    gang = given.place(parts[0])
    given.bind(gang)
    given.append(gang, reservation.MemberLost(parts[0].allocations[0].id, scene.node_id, "NodeLost", T0))
    (near,) = given.placed(scene.pool_id, scene.node_id, scene.atoms[:1], T0, T0).allocations
    for start in (T0 + HOUR, T0 + HOUR + GAP):
        placed = reservation.MemberPlaced(scene.pool_id, TENANT, near, start, start + HOUR, 1, T0)
        if start == T0 + HOUR:
            with pytest.raises(errors.DoubleBooked):
                given.append(gang, placed)
        else:
            given.append(gang, placed)


def test_two_processes_book_with_the_gap_between(scene: Scene) -> None:
    """Each has read the same of the log and chooses the same device: the second is refused, and then sees why."""
    given = scene.given
    asked = claim.Claim((claim.DeviceLine("gpu", 1),))
    calendars = [Calendars(lambda: 0, lambda position, seconds: True) for _ in range(2)]
    read = [feed(one, given, 0) for one in calendars]
    windows = [(T0 + 5 * HOUR, T0 + 6 * HOUR), (T0 + 6 * HOUR, T0 + 7 * HOUR)]

    def choose(one: Calendars, window: tuple[int, int]) -> tuple[str, ...]:
        with one.locked(scene.pool_id) as of:
            found = placement.place(of, asked, window, "seed", CelSelectors())
        assert isinstance(found, placement.Placement)
        return found.members[0].atoms

    chosen = [choose(one, window) for one, window in zip(calendars, windows, strict=True)]
    assert chosen[0] == chosen[1]
    wanted = [
        given.placed(scene.pool_id, scene.node_id, atoms, *window)
        for atoms, window in zip(chosen, windows, strict=True)
    ]
    answers = at_once([lambda one=one: given.place(one, new_id("rsv")) for one in wanted])  # type: ignore[misc]
    assert sorted(type(answer).__name__ for answer in answers) == ["DoubleBooked", "str"]
    late = next(n for n, answer in enumerate(answers) if isinstance(answer, errors.DoubleBooked))
    feed(calendars[late], given, read[late])
    assert choose(calendars[late], windows[late]) != chosen[late]
