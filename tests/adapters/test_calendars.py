"""The calendars in memory say what the bookings in the database say, however they came to know it."""

from collections.abc import Iterator

import pytest

from adapters.calendars import Calendars
from domain import node, reservation
from domain.calendar import Spot
from facts import T0, Facts, facts, new_id
from naive import busy_in_calendar, busy_in_database, feed

HOUR = 3_600_000


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with facts(database, size=4) as made:
        yield made


@pytest.fixture
def calendars() -> Calendars:
    return Calendars(lambda: 0, lambda position, seconds: True)


class Scene:
    """One node of two atoms: first booked over [0h, 2h), the other one behind it over [2h, 3h)."""

    def __init__(self, given: Facts, calendars: Calendars) -> None:
        self.given, self.calendars = given, calendars
        self.pool_id = given.pool()
        self.node_id, self.atoms = given.node(self.pool_id, 2)
        self.first = given.place(given.placed(self.pool_id, self.node_id, self.atoms, T0, T0 + 2 * HOUR))
        behind = given.placed(self.pool_id, self.node_id, self.atoms[:1], T0 + 2 * HOUR, T0 + 3 * HOUR)
        self.behind = given.place(behind)
        self.position = 0
        self.look()

    def look(self) -> dict[str, list[tuple[int, int | None]]]:
        """What is busy, after the calendars read on; a calendar fed from zero must say the same."""
        self.position = feed(self.calendars, self.given, self.position)
        busy = busy_in_database(self.given, self.pool_id)
        assert busy_in_calendar(self.calendars, self.pool_id) == busy
        fresh = Calendars(lambda: 0, lambda position, seconds: True)
        feed(fresh, self.given, 0)
        assert busy_in_calendar(fresh, self.pool_id) == busy
        return busy


@pytest.fixture
def scene(given: Facts, calendars: Calendars) -> Scene:
    return Scene(given, calendars)


def test_a_booking_is_busy_over_its_window_and_those_that_touch_are_one_stretch(scene: Scene) -> None:
    assert scene.look() == {scene.atoms[0]: [(T0, T0 + 3 * HOUR)], scene.atoms[1]: [(T0, T0 + 2 * HOUR)]}


def test_after_a_release_an_atom_is_busy_to_its_next_booking_or_for_ever(scene: Scene) -> None:
    scene.given.bind(scene.first)
    scene.given.release(scene.first, T0 + HOUR)
    assert scene.look() == {scene.atoms[0]: [(T0, T0 + 3 * HOUR)], scene.atoms[1]: [(T0, None)]}


def test_after_the_proof_it_is_free_from_that_instant(scene: Scene) -> None:
    scene.given.bind(scene.first)
    scene.given.release(scene.first, T0 + HOUR)
    scene.given.tear_down(scene.first, T0 + HOUR + 7)
    first, second = scene.look().values()
    assert first == [(T0, T0 + HOUR + 7), (T0 + 2 * HOUR, T0 + 3 * HOUR)]
    assert second == [(T0, T0 + HOUR + 7)]


def test_when_the_booking_behind_is_cancelled_the_unproved_atom_stays_busy(scene: Scene) -> None:
    scene.given.bind(scene.first)
    scene.given.release(scene.first, T0 + HOUR)
    scene.given.append(scene.behind, reservation.Cancelled("x", T0 + HOUR))
    assert scene.look() == {atom: [(T0, None)] for atom in scene.atoms}
    scene.given.tear_down(scene.first, T0 + HOUR + 7)
    assert scene.look() == {atom: [(T0, T0 + HOUR + 7)] for atom in scene.atoms}


def test_a_fence_frees_what_had_ended_on_the_node_and_nothing_else(scene: Scene) -> None:
    scene.given.bind(scene.first)
    scene.given.append(scene.first, reservation.Failed("NodeLost", T0 + HOUR, True))
    allocation = scene.given.store.load(scene.first).state.allocations[0]
    scene.given.append(scene.node_id, node.Fenced("off", T0 + HOUR + 7))
    scene.given.append(scene.first, reservation.TornDown(allocation.id, scene.node_id, T0 + HOUR + 7))
    assert scene.look()[scene.atoms[0]] == [(T0, T0 + HOUR + 7), (T0 + 2 * HOUR, T0 + 3 * HOUR)]


@pytest.mark.parametrize(
    "end", [reservation.Cancelled("x", T0), reservation.Expired("x", T0), reservation.Failed("x", T0, False)]
)
def test_a_booking_that_never_began_is_gone(scene: Scene, end: reservation.Events) -> None:
    scene.given.append(scene.first, end)
    assert scene.look() == {scene.atoms[0]: [(T0 + 2 * HOUR, T0 + 3 * HOUR)]}


def test_a_placement_taken_back_to_the_queue_is_gone(scene: Scene) -> None:
    scene.given.append(scene.first, reservation.Queued(scene.pool_id, 0, False, T0, "NodeLost", T0 + 9 * HOUR))
    assert scene.look() == {scene.atoms[0]: [(T0 + 2 * HOUR, T0 + 3 * HOUR)]}


def test_what_is_preempted_makes_room_from_its_new_end(scene: Scene) -> None:
    scene.given.append(scene.first, reservation.Preempted(scene.pool_id, T0, T0 + HOUR))
    first, second = scene.look().values()
    assert first == [(T0, T0 + HOUR), (T0 + 2 * HOUR, T0 + 3 * HOUR)]
    assert second == [(T0, T0 + HOUR)]
    scene.given.bind(scene.first)
    scene.given.release(scene.first, T0 + HOUR)
    scene.look()
    scene.given.tear_down(scene.first, T0 + HOUR + 7)
    scene.look()


def test_the_calendar_knows_whose_bookings_may_be_preempted(given: Facts, calendars: Calendars) -> None:
    pool_id = given.pool()
    node_id, atoms = given.node(pool_id, 2)
    placed = given.placed(pool_id, node_id, atoms[:1], T0, T0 + HOUR, spot=True, priority=3)
    spot = given.place(placed)
    given.place(given.placed(pool_id, node_id, atoms[1:], T0, T0 + HOUR))
    position = feed(calendars, given, 0)
    with calendars.locked(pool_id) as of:
        assert {id: list(keys) for id, keys in of.spots.items()} == {spot: [placed.allocations[0].id]}
        assert of.bookings[placed.allocations[0].id].spot == Spot(spot, 3, T0)
    given.bind(spot)
    given.release(spot, T0 + 1)
    feed(calendars, given, position)
    with calendars.locked(pool_id) as of:
        assert of.spots == {}, "what ends can give nothing more"
        assert {of.bookings[key].ended for key in of.ended} == {T0 + 1}
        assert {atom for key in of.ended for atom in of.bookings[key].atoms} == {atoms[0]}


def test_an_end_that_comes_hours_late_still_holds_the_atom(scene: Scene) -> None:
    """The controllers were down: the calendar had forgotten the booking already."""
    with scene.calendars.locked(scene.pool_id) as of:
        of.forget_before(T0 + 50 * HOUR)
    scene.given.bind(scene.first)
    scene.given.release(scene.first, T0 + 50 * HOUR)
    feed(scene.calendars, scene.given, scene.position)
    with scene.calendars.locked(scene.pool_id) as of:
        entry = of.entries[scene.node_id]
        assert not of.free(entry, T0 + 60 * HOUR, T0 + 61 * HOUR) & entry.bits[scene.atoms[1]]


def test_maintenance_that_ends_hours_late_leaves_what_is_not_given_back(scene: Scene) -> None:
    """The calendar had forgotten the maintenance already, and whoever held on before it."""
    plan = node.Plan(new_id("alloc"), "test", T0 + 5 * HOUR, T0 + 6 * HOUR, tuple(scene.atoms))
    scene.given.append(scene.node_id, node.MaintenancePlanned(scene.pool_id, "root", plan))
    scene.given.bind(scene.first)
    scene.given.release(scene.first, T0 + HOUR)
    scene.look()
    with scene.calendars.locked(scene.pool_id) as of:
        of.forget_before(T0 + 50 * HOUR)
    scene.given.append(scene.node_id, node.PlanEnded(plan.id, T0 + 50 * HOUR))
    feed(scene.calendars, scene.given, scene.position)
    with scene.calendars.locked(scene.pool_id) as of:
        entry = of.entries[scene.node_id]
        assert not of.free(entry, T0 + 60 * HOUR, T0 + 61 * HOUR) & entry.bits[scene.atoms[1]]


def test_what_makes_room_is_counted_so_that_the_queue_is_looked_at(scene: Scene) -> None:
    before = scene.calendars.changes(scene.pool_id)
    scene.given.bind(scene.first)
    scene.look()
    assert scene.calendars.changes(scene.pool_id) == before
    scene.given.release(scene.first, T0 + 1)
    scene.given.tear_down(scene.first, T0 + 2)
    scene.look()
    assert scene.calendars.changes(scene.pool_id) > before


def test_atoms_lost_to_a_rival_are_kept_off_until_the_log_was_read_past_that_moment(given: Facts) -> None:
    waited: list[tuple[int, float]] = []
    calendars = Calendars(lambda: 10**9, lambda position, seconds: not waited.append((position, seconds)))
    pool_id = given.pool()
    node_id, atoms = given.node(pool_id, 2)
    position = feed(calendars, given, 0)
    calendars.lost(pool_id, atoms[:1], (T0, T0 + HOUR))
    assert waited == [(10**9, 0.2)]
    assert busy_in_calendar(calendars, pool_id) == {atoms[0]: [(T0, T0 + HOUR)]}
    given.append(node_id, node.Labelled({"a": "b"}))
    feed(calendars, given, position)
    assert busy_in_calendar(calendars, pool_id) == {atoms[0]: [(T0, T0 + HOUR)]}
    with calendars.locked(pool_id) as of:
        of.caught_up(10**9)
    assert busy_in_calendar(calendars, pool_id) == {}


def test_a_node_that_leaves_the_pool_or_closes_offers_nothing(given: Facts, calendars: Calendars) -> None:
    pool_id = given.pool()
    node_id, _ = given.node(pool_id)
    other, _ = given.node(pool_id)
    given.append(node_id, node.Assigned("host", None, None, pool_id))
    given.append(other, node.SchedulabilityChanged({"Cordoned": 1}))
    feed(calendars, given, 0)
    with calendars.locked(pool_id) as of:
        assert list(of.entries) == [other]
        assert list(of.tightest("gpu", 1, T0, "seed")) == []


def test_what_is_extended_long_after_its_end_is_busy_again(scene: Scene) -> None:
    now = scene.given.store.now()
    ended, ends_at = now - 2 * HOUR, now + 2 * HOUR
    (atom, _) = scene.atoms
    overdue = scene.given.place(scene.given.placed(scene.pool_id, scene.node_id, [atom], now - 3 * HOUR, ended))
    scene.given.bind(overdue)
    scene.position = feed(scene.calendars, scene.given, scene.position)
    (allocation,) = scene.given.store.load(overdue).state.allocations
    claimed = reservation.Claimed((), {"gpu": 1}, now - 3 * HOUR, ends_at)
    extended = reservation.Extended("ext_1", "adm_2", scene.pool_id, ended, ends_at, claimed, 0, (allocation.id,), now)
    scene.given.append(overdue, extended)
    feed(scene.calendars, scene.given, scene.position)
    with scene.calendars.locked(scene.pool_id) as of:
        assert of.entries[scene.node_id].timeline.busy_at(now + HOUR) == 1
