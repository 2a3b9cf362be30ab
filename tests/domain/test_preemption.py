"""As few spot reservations give way as it takes, and none that is not needed."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from test_placement import Compare, ask, node, pool

from domain import calendar, placement, preemption
from domain.claim import Claim

MINUTE = 60_000
NOW = 1_000 * MINUTE
WINDOW = (NOW, NOW + 60 * MINUTE)


def spot(made: calendar.Calendar, id: str, *atoms: str, priority: int = 0, since: int = 0, **window: int) -> None:
    """A spot reservation with these atoms, one booking for each."""
    start, until = window.get("start", 0), window.get("until", NOW + 90 * MINUTE)
    for atom in atoms:
        whose = calendar.Spot(id, priority, since)
        made.book(f"{id}/{atom}", atom.partition("-")[0], [atom], {}, start, until, spot=whose)


def find(made: calendar.Calendar, wanted: Claim, window: tuple[int, int] = WINDOW) -> preemption.Preemption | None:
    before = dict(made.bookings)
    found = preemption.find(made, wanted, window, "rsv_1", Compare())
    assert made.bookings == before, "it only looks"
    return found


def victims(made: calendar.Calendar, wanted: Claim, window: tuple[int, int] = WINDOW) -> tuple[str, ...]:
    found = find(made, wanted, window)
    return found.victims if found is not None else ()


def test_the_lowest_priority_gives_way_and_of_equals_the_youngest() -> None:
    made = pool(node("a", 3))
    spot(made, "dear", "a-g0", priority=5, since=9)
    spot(made, "old", "a-g1", priority=1, since=1)
    spot(made, "young", "a-g2", priority=1, since=2)
    assert victims(made, ask(1)) == ("young",)
    assert victims(made, ask(2)) == ("young", "old")
    assert victims(made, ask(3)) == ("young", "old", "dear")


def test_whoever_is_not_needed_in_the_end_is_put_back() -> None:
    """Two on one node: the youngest stands alone on another, and its end would help nobody."""
    made = pool(node("a", 1), node("b", 2))
    spot(made, "alone", "a-g0", since=3)
    spot(made, "young", "b-g0", since=2)
    spot(made, "old", "b-g1", since=1)
    assert victims(made, ask(2)) == ("young", "old")


def test_a_gang_gives_way_whole() -> None:
    made = pool(node("a", 1), node("b", 1))
    spot(made, "gang", "a-g0", "b-g0")
    found = find(made, ask(1))
    assert found is not None
    assert (found.victims, found.ends_at) == (("gang",), NOW)


def test_what_is_not_spot_stays() -> None:
    made = pool(node("a", 2), a=1)
    spot(made, "spot", "a-g1")
    assert victims(made, ask(2)) == ()
    assert victims(made, ask(1)) == ("spot",)


def test_what_is_over_before_the_claim_begins_is_left_alone() -> None:
    made = pool(node("a", 2))
    spot(made, "over", "a-g0", until=NOW, since=9)
    spot(made, "later", "a-g0", start=NOW + 60 * MINUTE, since=8)
    spot(made, "there", "a-g1")
    assert victims(made, ask(2)) == ("there",)


def test_a_cleaning_gap_lies_between_the_victims_end_and_the_claims_start() -> None:
    made = pool(node("a", 1), gap_ms=MINUTE)
    spot(made, "spot", "a-g0")
    found = find(made, ask(1))
    assert found is not None
    assert (found.window, found.ends_at) == (WINDOW, NOW - MINUTE)


def test_nodes_that_take_nothing_give_nothing() -> None:
    made = pool(node("a", 1, schedulable=False))
    spot(made, "spot", "a-g0")
    assert preemption.candidates(made, ask(1), WINDOW) == []


HELD = st.tuples(st.integers(0, 2), st.sets(st.integers(0, 5), min_size=1, max_size=3), st.integers(-90, 90))


@settings(max_examples=200, deadline=None)
@given(
    held=st.lists(HELD, max_size=7),
    fixed=st.sets(st.integers(0, 5), max_size=2),
    devices=st.integers(1, 3),
    nodes=st.integers(1, 3),
    gap=st.sampled_from([0, MINUTE]),
)
def test_it_finds_victims_whenever_there_are_any_and_none_of_them_is_needless(
    held: list[tuple[int, set[int], int]], fixed: set[int], devices: int, nodes: int, gap: int
) -> None:
    made = pool(node("a", 2), node("b", 2), node("c", 2), gap_ms=gap)
    atoms = ["a-g0", "a-g1", "b-g0", "b-g1", "c-g0", "c-g1"]
    for n, atom in enumerate(atoms[i] for i in sorted(fixed)):
        made.book(f"fixed{n}", atom[0], [atom], {}, 0, None)
    for n, (priority, indices, start) in enumerate(held):
        free = [
            atoms[i]
            for i in sorted(indices)
            if not any(atoms[i] in booking.atoms for booking in made.bookings.values())
        ]
        spot(made, f"s{n}", *free, priority=priority, since=n, start=NOW + start * MINUTE)
    wanted = ask(devices, nodes=nodes)
    order = preemption.candidates(made, wanted, WINDOW)
    helping = [set(some) for n in range(len(order) + 1) for some in combinations(order, n) if fits(made, wanted, some)]
    found = find(made, wanted)
    if found is None:
        assert set() in helping or not helping
        return
    chosen = set(found.victims)
    assert chosen in helping
    assert not any(others < chosen for others in helping), "one of them is needless"
    prefix = next(n for n in range(len(order) + 1) if set(order[:n]) in helping)
    assert chosen <= set(order[:prefix])


def fits(made: calendar.Calendar, wanted: Claim, gone: tuple[str, ...]) -> bool:
    bookings = [booking for id in gone for booking in (made.bookings[key] for key in list(made.spots.get(id, ())))]
    for booking in bookings:
        made.unbook(booking.key)
        if booking.start < NOW - made.gap_ms:
            made.book(booking.key, booking.node_id, booking.atoms, {}, booking.start, NOW - made.gap_ms)
    placed = placement.place(made, wanted, WINDOW, "rsv_1", Compare())
    for booking in bookings:
        made.unbook(booking.key)
        made.restore(booking)
    return isinstance(placed, placement.Placement)
