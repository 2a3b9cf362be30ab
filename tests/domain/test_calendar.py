"""Rules of the in-memory calendar, and its agreement with a list of bookings read by brute force."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from domain import calendar, outlook

FOREVER = calendar.FOREVER


def gpus(node_id: str, count: int = 4) -> tuple[calendar.Atom, ...]:
    return tuple(calendar.Atom(f"{node_id}-g{i}", "gpu", numa_node=i // 2) for i in range(count))


def node(node_id: str = "a", count: int = 4, **fields: object) -> calendar.Node:
    described = {"devices": gpus(node_id, count), "scalars": {"vcpu": 16}, "gpus": count} | fields
    return calendar.Node(node_id, node_id, **described)  # type: ignore[arg-type]


def pool(*nodes: calendar.Node, gap_ms: int = 0) -> calendar.Calendar:
    made = calendar.Calendar("pool_a", gap_ms)
    for each in nodes or (node(),):
        made.put_node(each)
    return made


def free(made: calendar.Calendar, start: int, until: int, node_id: str = "a") -> set[str]:
    entry = made.entries[node_id]
    return set(entry.atoms(made.free(entry, start, until)))


def everything(node_id: str = "a", count: int = 4) -> set[str]:
    return {atom.id for atom in gpus(node_id, count)}


def tightest(made: calendar.Calendar, need: int, start: int = 0, seed: str = "rsv_1") -> list[str]:
    return [entry.node.id for entry in made.tightest("gpu", need, start, seed)]


def test_touching_bookings_do_not_overlap() -> None:
    made = pool()
    made.book("alloc_1", "a", ["a-g0"], {}, 10, 12)
    assert "a-g0" in free(made, 12, 13)
    assert "a-g0" in free(made, 9, 10)
    assert "a-g0" not in free(made, 11, 12)
    assert "a-g0" not in free(made, 9, 11)


def test_the_cleaning_gap_keeps_bookings_of_a_device_apart() -> None:
    made = pool(gap_ms=5)
    made.book("alloc_1", "a", ["a-g0"], {}, 100, 200)
    assert "a-g0" not in free(made, 204, 300)
    assert "a-g0" in free(made, 205, 300)
    assert "a-g0" not in free(made, 50, 96)
    assert "a-g0" in free(made, 50, 95)


def test_a_booking_that_comes_before_its_node_is_found_when_the_node_comes() -> None:
    made = calendar.Calendar("pool_a")
    made.book("alloc_1", "a", ["a-g0"], {"vcpu": 4}, 0, None)
    made.put_node(node())
    assert free(made, 5, 6) == everything() - {"a-g0"}
    assert made.spare(made.entries["a"], "vcpu", 5, 6) == 12


def test_a_new_inventory_keeps_bookings_by_device_not_by_place() -> None:
    made = pool()
    made.book("alloc_1", "a", ["a-g1"], {}, 0, 100)
    made.put_node(node(devices=tuple(reversed(gpus("a")))))
    assert free(made, 5, 6) == everything() - {"a-g1"}


def test_a_node_taken_away_comes_back_with_its_bookings() -> None:
    made = pool()
    made.book("alloc_1", "a", ["a-g1"], {}, 0, 100)
    made.remove_node("a")
    assert tightest(made, 0) == []
    made.put_node(node())
    assert free(made, 5, 6) == everything() - {"a-g1"}


def test_an_unschedulable_node_offers_nothing() -> None:
    made = pool(node("a", schedulable=False), node("b"))
    assert tightest(made, 0) == ["b"]
    assert made.census("gpu", 0) == {4: 1}


def test_a_device_that_is_not_bookable_is_not_counted() -> None:
    parent = calendar.Atom("p", "gpu", bookable=False)
    slots = tuple(calendar.Atom(f"p/s{i}", "gpu.slot", parent="p") for i in range(4))
    made = pool(node("a", devices=(parent, *slots)))
    made.book("alloc_1", "a", ["p/s0"], {}, 0, 10)
    made.book("alloc_2", "a", ["p/s1"], {}, 0, 10)
    assert made.census("gpu.slot", 0) == {2: 1}
    assert made.census("gpu", 0) == {}


def test_an_end_moved_to_for_ever_holds_the_atom_until_it_is_proved_free() -> None:
    made = pool()
    made.book("alloc_1", "a", ["a-g0"], {}, 0, 100)
    made.rebound("alloc_1", None)
    assert "a-g0" not in free(made, 1000, 1001)
    made.rebound("alloc_1", 150)
    assert "a-g0" in free(made, 150, 1001)


def test_an_end_that_comes_late_still_finds_the_booking_that_was_over() -> None:
    made = pool()
    made.book("alloc_1", "a", ["a-g0"], {}, 0, 100)
    made.forget_before(150)
    assert "a-g0" in free(made, 150, 200)
    made.rebound("alloc_1", None)
    assert "a-g0" not in free(made, 150, 200)


def test_a_booking_that_never_began_leaves_nothing() -> None:
    made = pool()
    made.book("alloc_1", "a", ["a-g0"], {"vcpu": 4}, 50, 100)
    made.rebound("alloc_1", 50)
    assert free(made, 0, FOREVER) == everything()
    assert made.bookings == {}


def test_of_two_holders_of_an_atom_the_other_one_stays() -> None:
    made = pool()
    made.book("alloc_1", "a", ["a-g0", "a-g1"], {}, 0, 100)
    made.book("alloc_2", "a", ["a-g0"], {}, 50, 150)
    made.unbook("alloc_1")
    assert free(made, 0, 50) == everything()
    assert free(made, 0, 51) == everything() - {"a-g0"}


def test_atoms_lost_in_a_race_are_busy_until_the_log_is_read_past_them() -> None:
    made = pool(node("a"), node("b"))
    made.mark_busy(["a-g0", "b-g1", "unknown"], 0, 100, position=7)
    assert free(made, 0, 1) == everything() - {"a-g0"}
    assert free(made, 0, 1, "b") == everything("b") - {"b-g1"}
    made.caught_up(6)
    assert free(made, 0, 1) == everything() - {"a-g0"}
    made.caught_up(7)
    assert free(made, 0, 1) == everything()
    assert made.bookings == {}


def test_the_same_booking_read_twice_counts_once() -> None:
    made = pool()
    for _ in range(2):
        made.book("alloc_1", "a", ["a-g0"], {"vcpu": 4}, 0, 100)
    assert made.spare(made.entries["a"], "vcpu", 0, 10) == 12
    made.unbook("alloc_1")
    made.unbook("alloc_1")
    assert made.spare(made.entries["a"], "vcpu", 0, 10) == 16


def test_memory_is_bounded_by_what_is_not_over() -> None:
    made = pool()
    for hour in range(500):
        start = hour * calendar.LATE_MS
        made.book(f"alloc_{hour}", "a", ["a-g0"], {"vcpu": 1}, start, start + 1000)
        made.book(f"alloc_{hour}x", "unknown", ["x"], {}, start, start + 1000)
        made.forget_before(start)
    assert len(made.bookings) <= 6
    assert len(made.entries["a"].timeline.starts) <= 4
    assert len(made.entries["a"].held) <= 3


def test_ends_moved_again_and_again_do_not_pile_up() -> None:
    made = pool()
    made.book("alloc_1", "a", ["a-g0"], {}, 0, 100)
    for end in range(200, 9000):
        made.rebound("alloc_1", end)
    assert len(made._ends) <= 1100
    assert len(made.entries["a"].timeline.starts) == 3


def test_the_tightest_nodes_come_first() -> None:
    made = pool(node("a"), node("b"), node("c"))
    made.book("alloc_1", "b", ["b-g0", "b-g1"], {}, 0, 100)
    made.book("alloc_2", "c", ["c-g0"], {}, 0, 100)
    assert tightest(made, 2) == ["b", "c", "a"]
    assert tightest(made, 3) == ["c", "a"]


def test_what_changes_before_the_window_is_seen_without_moving_the_clock() -> None:
    made = pool(node("a"), node("b"))
    made.book("alloc_1", "b", ["b-g0"], {}, 0, 100)
    made.book("alloc_2", "a", ["a-g0", "a-g1"], {}, 50, 200)
    assert tightest(made, 4) == ["a"]
    assert tightest(made, 4, start=100) == ["b"]
    assert tightest(made, 2, start=60) == ["a", "b"]


def test_rivals_start_at_different_nodes_and_the_same_seed_at_the_same() -> None:
    made = pool(*(node(f"n{i}") for i in range(64)))
    firsts = Counter(tightest(made, 1, seed=f"rsv_{i}")[0] for i in range(64))
    assert len(firsts) > 20
    assert tightest(made, 1, seed="rsv_9") == tightest(made, 1, seed="rsv_9")
    assert sorted(tightest(made, 1, seed="rsv_9")) == sorted(made.entries)


NODES = st.sampled_from(["a", "b", "c"])
PLACES = st.sets(st.integers(0, 4))
POSITIONS = st.integers(0, 9)
INSTANTS = st.integers(0, 60)
ENDS = st.one_of(st.none(), st.integers(0, 80))


class Histories(RuleBasedStateMachine):
    """Random events against a list of bookings; ends are near, so nothing is forgotten by age here."""

    def __init__(self) -> None:
        super().__init__()
        self.calendar = calendar.Calendar("pool_a", gap_ms=2)
        self.nodes: dict[str, calendar.Node] = {}
        self.bookings: dict[str, tuple[str, set[str], int, int, int]] = {}
        self.marks: dict[str, int] = {}
        self.read = 0
        self.now = 0
        self.made = 0

    @rule(name=NODES, count=st.integers(1, 5), schedulable=st.booleans())
    def put_node(self, name: str, count: int, schedulable: bool) -> None:
        self.nodes[name] = node(name, count, schedulable=schedulable)
        self.calendar.put_node(self.nodes[name])

    @rule(name=NODES)
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.calendar.remove_node(name)

    @rule(name=NODES, places=PLACES, vcpu=st.integers(0, 4), start=INSTANTS, until=ENDS)
    def book(self, name: str, places: set[int], vcpu: int, start: int, until: int | None) -> None:
        self.made += 1
        key, atoms = f"alloc_{self.made}", {f"{name}-g{i}" for i in places}
        self.calendar.book(key, name, atoms, {"vcpu": vcpu}, start, until)
        self._remember(key, name, atoms, vcpu, start, until)

    @rule(name=NODES, places=PLACES, start=INSTANTS, until=ENDS, position=POSITIONS)
    def mark(self, name: str, places: set[int], start: int, until: int | None, position: int) -> None:
        self.made += 1
        known = {atom.id for atom in self.nodes[name].devices} if name in self.nodes else set()
        atoms = {f"{name}-g{i}" for i in places} & known
        self.calendar.mark_busy(atoms, start, until, position)
        if position <= self.read:
            return
        self._remember(f"mark_{self.made}", name, atoms, 0, start, until)
        self.marks[f"mark_{self.made}"] = position

    @rule(position=POSITIONS)
    def caught_up(self, position: int) -> None:
        self.calendar.caught_up(position)
        self.read = max(self.read, position)
        for key in [key for key, marked in self.marks.items() if marked <= position]:
            del self.marks[key]
            self.bookings.pop(key, None)

    def _remember(self, key: str, name: str, atoms: set[str], vcpu: int, start: int, until: int | None) -> None:
        end = FOREVER if until is None else until
        if start < end:
            self.bookings[key] = (name, atoms, vcpu, start, end)

    @precondition(lambda self: self.made)
    @rule(data=st.data(), until=ENDS)
    def rebound(self, data: st.DataObject, until: int | None) -> None:
        key = f"alloc_{data.draw(st.integers(1, self.made))}"
        self.calendar.rebound(key, until)
        if key in self.bookings:
            self._remember(key, *self.bookings.pop(key)[:4], until)

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def unbook(self, data: st.DataObject) -> None:
        key = f"alloc_{data.draw(st.integers(1, self.made))}"
        self.calendar.unbook(key)
        self.bookings.pop(key, None)

    @rule(passed=st.integers(0, 15))
    def forget_before(self, passed: int) -> None:
        self.now += passed
        self.calendar.forget_before(self.now)

    def _free(self, name: str, start: int, until: int) -> set[str]:
        """Atoms that no booking of the list holds anywhere in `[start, until)`."""
        held = [
            atoms
            for booked, atoms, _, begin, end in self.bookings.values()
            if booked == name and begin < until and start < end
        ]
        return {atom.id for atom in self.nodes[name].devices}.difference(*held)

    @invariant()
    def windows_agree_with_the_list(self) -> None:
        for name, ahead, length in product(self.nodes, (0, 7, 31), (1, 20, 200)):
            entry, start = self.calendar.entries[name], self.now + ahead
            found = set(entry.atoms(self.calendar.free(entry, start, start + length)))
            assert found == self._free(name, start - 2, start + length + 2)

    @invariant()
    def scalars_agree_with_the_list(self) -> None:
        for name in self.nodes:
            lasting = [b for b in self.bookings.values() if b[0] == name and b[4] > self.now - 2]
            peak = max(
                sum(vcpu for _, _, vcpu, begin, end in lasting if begin <= at < end)
                for at in range(self.now - 2, self.now + 12)
            )
            spare = self.calendar.spare(self.calendar.entries[name], "vcpu", self.now, self.now + 10)
            assert spare == 16 - peak

    @invariant()
    def buckets_agree_with_the_list(self) -> None:
        for start in (self.now, self.now + 9, self.now + 100):
            counts = {
                name: len(self._free(name, start - 2, start - 1))
                for name, each in self.nodes.items()
                if each.schedulable
            }
            assert self.calendar.census("gpu", start) == Counter(counts.values())
            found = [entry.node.id for entry in self.calendar.tightest("gpu", 2, start, "rsv_1")]
            assert sorted(found) == sorted(name for name, count in counts.items() if count >= 2)
            assert [counts[name] for name in found] == sorted(counts[name] for name in found)


def test_any_history_agrees_with_a_list_of_bookings() -> None:
    bounds = settings(max_examples=80, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(Histories, settings=bounds)


def test_what_was_lost_is_not_marked_where_the_log_is_read_that_far_already() -> None:
    made = pool()
    made.caught_up(7)
    made.mark_busy(["a-g0"], 0, 100, position=7)
    assert free(made, 0, 100) == everything(), "the rival's own booking is read; a mark would stay for nothing"
    made.mark_busy(["a-g0"], 0, 100, position=8)
    assert free(made, 0, 100) == everything() - {"a-g0"}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches and chapters so short that three nodes fill many of them."""
    monkeypatch.setattr(outlook, "CHANGES", 2)
    monkeypatch.setattr(outlook, "STRETCHES", 2)
    monkeypatch.setattr(calendar, "PATIENCE", 0)


@pytest.mark.usefixtures("short")
def test_any_history_agrees_with_the_list_over_many_stretches_and_chapters() -> None:
    test_any_history_agrees_with_a_list_of_bookings()


@pytest.mark.usefixtures("short")
def test_a_node_that_is_taken_all_through_later_is_passed_over_and_counted() -> None:
    made = pool(node("a"), node("b"), node("c"))
    for at in range(10, 60, 10):
        made.book(f"alloc_{at}", "b", ["b-g0"], {}, at, at + 5)
        made.book(f"alloc_{at}c", "c", ["c-g1"], {}, at, at + 5)
    found = made.tightest("gpu", 4, 0, "rsv_1", until=50)
    assert [entry.node.id for entry in found] == ["a"]
    assert found.passed == 2


def test_many_that_end_at_one_instant_do_not_hide_what_comes_after() -> None:
    made = pool(*(node(f"n{i:03}") for i in range(300)))
    assert len(tightest(made, 4)) == 300
    for i in range(300):
        made.book(f"alloc_{i}", f"n{i:03}", [f"n{i:03}-g0"], {}, 10, 100)
    assert tightest(made, 4, start=99) == []
    assert len(tightest(made, 4, start=100)) == 300
    made.forget_before(100)
    assert len(tightest(made, 4, start=100)) == 300
