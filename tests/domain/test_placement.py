"""Rules of placement, and its agreement with brute force over every choice of devices."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import calendar, claim, errors, outlook, placement, selector

Claimed = placement.Placement
NOW = 1_000


class Compare:
    """A stand-in for CEL: "odd=1" or "n=0|1" compares an attribute, "bad" does not compile."""

    def compile(self, text: str, field: str = "selector") -> selector.Selector:
        if text == "bad":
            raise errors.Invalid(field, "does not compile")
        return Equals(*text.split("="))


class Equals:
    def __init__(self, name: str, value: str) -> None:
        self._name, self._values = name, value.split("|")

    def matches(self, device: calendar.Atom, node: calendar.Node) -> bool:
        return str(device.attributes.get(self._name)) in self._values


Answer = placement.Placement | placement.Refusal
Atoms = tuple[calendar.Atom, ...]


def gpu(node_id: str, index: int) -> calendar.Atom:
    attributes = {"n": index, "odd": index % 2}
    group = f"l{index // 2}"
    return calendar.Atom(f"{node_id}-g{index}", "gpu", attributes, numa_node=index // 4, nvlink_group=group)


def node(node_id: str, gpus: int = 8, extra: Atoms = (), **fields: object) -> calendar.Node:
    devices = (*(gpu(node_id, i) for i in range(gpus)), *extra)
    described = {"devices": devices, "scalars": {"vcpu": 16}, "gpus": gpus} | fields
    return calendar.Node(node_id, node_id, **described)  # type: ignore[arg-type]


def pool(*nodes: calendar.Node, gap_ms: int = 0, **held: int) -> calendar.Calendar:
    """A calendar in which the first GPUs of the nodes named in `held` are busy for ever."""
    made = calendar.Calendar("pool_a", gap_ms)
    for each in nodes:
        made.put_node(each)
    for name, count in held.items():
        made.book(f"held_{name}", name, [f"{name}-g{i}" for i in range(count)], {}, 0, None)
    return made


def line(count: int, class_: str = "gpu", selector: str | None = None, colocate: str | None = None) -> claim.DeviceLine:
    topology = claim.Colocation(colocate) if colocate else None  # type: ignore[arg-type]
    return claim.DeviceLine(class_, count, selector, topology)  # type: ignore[arg-type]


def ask(*lines: claim.DeviceLine | int, nodes: int = 1, vcpu: int = 0, **topology: str) -> claim.Claim:
    made = tuple(line(each) if isinstance(each, int) else each for each in lines)
    return claim.Claim(made, nodes, claim.Topology(**topology) if topology else None, {"vcpu": vcpu})


def place(
    made: calendar.Calendar,
    wanted: claim.Claim,
    start: int = NOW,
    until: int | None = NOW + 100,
    seed: str = "rsv_1",
) -> Answer:
    return placement.place(made, wanted, (start, until), seed, Compare())


def landed(answer: Answer) -> list[str]:
    assert isinstance(answer, placement.Placement), answer
    return [member.node_id for member in answer.members]


def refused(answer: Answer) -> placement.Refusal:
    assert isinstance(answer, placement.Refusal), answer
    return answer


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    made = pool(node("a"), node("b"), a=5, b=5)
    answer = refused(place(made, ask(4, nodes=2)))
    assert (answer.reason, answer.message) == ("NoCapacity", "no node fits: 2 nodes with 3 free")
    assert answer.causes == {"few": 2}
    assert sorted(landed(place(made, ask(3, nodes=2)))) == ["a", "b"]


def test_one_fitting_node_does_not_make_a_gang_of_two() -> None:
    answer = refused(place(pool(node("a"), node("b"), b=5), ask(4, nodes=2)))
    assert answer.message == "2 nodes asked, 1 fit: 1 node with 3 free"


def test_the_tightest_node_is_taken_so_that_whole_nodes_stay_free() -> None:
    made = pool(node("a"), node("b"), node("c"), b=3, c=6)
    assert landed(place(made, ask(2))) == ["c"]
    assert landed(place(made, ask(3))) == ["b"]
    assert landed(place(made, ask(6))) == ["a"]


def test_rivals_spread_over_equal_nodes() -> None:
    made = pool(*(node(f"n{i}") for i in range(16)))
    assert len({landed(place(made, ask(8), seed=f"rsv_{i}"))[0] for i in range(16)}) > 5


def test_an_unschedulable_an_excluded_and_a_booked_node_offer_nothing() -> None:
    made = pool(node("a", schedulable=False), node("b"), node("c"), c=8)
    answer = placement.place(made, ask(1), (NOW, None), "rsv_1", Compare(), frozenset({"b"}))
    assert refused(answer).causes == {"unschedulable": 1, "excluded": 1, "few": 1}


def test_an_empty_window_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="empty window"):
        place(pool(), ask(1), start=NOW, until=NOW)


def test_a_booking_later_in_the_window_counts() -> None:
    made = pool(node("a"))
    made.book("alloc_1", "a", ["a-g0"], {}, NOW + 50, NOW + 60)
    assert refused(place(made, ask(8))).causes == {"later": 1}
    assert landed(place(made, ask(8), until=NOW + 50)) == ["a"]
    assert landed(place(made, ask(8), start=NOW + 60, until=None)) == ["a"]


def test_scalars_are_never_exceeded_at_any_instant_of_the_window() -> None:
    made = pool(node("a"))
    made.book("alloc_1", "a", [], {"vcpu": 10}, NOW + 50, NOW + 60)
    assert refused(place(made, ask(1, vcpu=7))).causes == {"scalars": 1}
    assert landed(place(made, ask(1, vcpu=6))) == ["a"]
    assert landed(place(made, ask(1, vcpu=16), until=NOW + 50)) == ["a"]
    assert refused(place(pool(node("b", scalars={})), ask(0, vcpu=1))).causes == {"scalars": 1}


def test_scalars_alone_need_no_device_and_take_none() -> None:
    answer = place(pool(node("a"), a=8), ask(0, vcpu=4))
    assert answer == Claimed((placement.Member("a", (), {"vcpu": 4}, 0),))


def test_scalars_alone_are_placed_on_nodes_without_devices_too() -> None:
    made = pool(node("a"), node("b", gpus=0), a=8)
    made.book("alloc_1", "b", [], {"vcpu": 14}, NOW, NOW + 50)
    assert landed(place(made, ask(0, vcpu=2, nodes=2))) in (["a", "b"], ["b", "a"])
    assert refused(place(made, ask(0, vcpu=4, nodes=2))).causes == {"scalars": 1}
    later = placement.earliest_start(made, ask(0, vcpu=4, nodes=2), 10, NOW, NOW + 100, Compare())
    assert later == NOW + 50
    assert refused(place(made, ask(1, nodes=2))).causes == {"few": 2}


def test_a_selector_narrows_the_devices() -> None:
    made = pool(node("a"))
    answer = place(made, ask(line(4, selector="odd=1")))
    assert isinstance(answer, Claimed)
    assert set(answer.members[0].atoms) == {"a-g1", "a-g3", "a-g5", "a-g7"}
    assert refused(place(made, ask(line(5, selector="odd=1")))).causes == {"selector": 1}


def test_a_selector_that_does_not_compile_is_refused_naming_its_line() -> None:
    with pytest.raises(errors.Invalid) as wrong:
        place(pool(), ask(1, line(1, selector="bad")))
    assert wrong.value.errors[0].field == "devices[1].selector"


def test_a_selector_is_asked_anew_about_a_changed_node() -> None:
    made = pool(node("a", devices=(gpu("a", 1),)))
    assert landed(place(made, ask(line(1, selector="odd=1")))) == ["a"]
    made.put_node(node("a", devices=(gpu("a", 2),)))
    assert refused(place(made, ask(line(1, selector="odd=1")))).causes == {"selector": 1}


@pytest.mark.parametrize(("group", "size"), [("numa", 4), ("nvlink", 2)])
def test_colocated_devices_share_one_group(group: str, size: int) -> None:
    answer = place(pool(node("a"), a=1), ask(line(size, colocate=group)))
    assert isinstance(answer, Claimed)
    taken = {int(atom[-1]) // size for atom in answer.members[0].atoms}
    assert len(taken) == 1
    assert refused(place(pool(node("a")), ask(line(size + 1, colocate=group)))).causes == {"topology": 1}


def test_a_device_of_no_known_group_is_not_colocated() -> None:
    lone = (calendar.Atom("x0", "gpu"), calendar.Atom("x1", "gpu"))
    answer = place(pool(node("a", devices=lone)), ask(line(2, colocate="numa")))
    assert refused(answer).causes == {"topology": 1}


def test_few_devices_come_from_the_tightest_numa_node() -> None:
    answer = place(pool(node("a"), a=2), ask(2))
    assert isinstance(answer, Claimed)
    assert set(answer.members[0].atoms) == {"a-g2", "a-g3"}


def test_lines_of_one_class_get_distinct_devices_even_if_the_first_choice_was_in_the_way() -> None:
    made = pool(node("a", 3))
    answer = place(made, ask(line(1), line(1, selector="n=0"), line(1, selector="odd=0")))
    assert isinstance(answer, Claimed)
    assert sorted(answer.members[0].atoms) == ["a-g0", "a-g1", "a-g2"]
    answer = place(made, ask(line(1, selector="n=0"), line(1, selector="n=0")))
    assert refused(answer).causes == {"selector": 1}


def test_a_line_gets_its_device_along_a_chain_of_others_that_move() -> None:
    lines = [line(1, selector=f"n={suited}") for suited in ("0|1", "1|2", "0|1")]
    answer = place(pool(node("a", 3)), ask(*lines))
    assert isinstance(answer, Claimed)
    assert len(set(answer.members[0].atoms)) == 3


def test_two_colocated_lines_find_the_groups_that_suit_both() -> None:
    answer = place(pool(node("a"), a=1), ask(line(3, colocate="numa"), line(4, colocate="numa")))
    assert isinstance(answer, Claimed)
    assert len(set(answer.members[0].atoms)) == 7


def test_slots_are_placed_and_their_gpu_is_not() -> None:
    parents = tuple(calendar.Atom(f"p{i}", "gpu", bookable=False) for i in range(2))
    slots = tuple(calendar.Atom(f"p{i}/s{k}", "gpu.slot", parent=f"p{i}") for i in range(2) for k in range(4))
    made = pool(node("a", devices=(*parents, *slots), layout=7))
    made.book("alloc_1", "a", ["p1/s0"], {}, 0, None)
    answer = place(made, ask(line(2, "gpu.slot")))
    assert isinstance(answer, Claimed)
    assert answer.members[0].layout == 7
    assert {atom[:2] for atom in answer.members[0].atoms} == {"p1"}
    assert refused(place(made, ask(1))).causes == {"few": 1}
    assert refused(place(made, ask(line(8, "gpu.slot")))).message == "no node fits: 1 node with 7 free"


def test_other_classes_are_taken_with_the_gpus() -> None:
    nics = tuple(calendar.Atom(f"vf{i}", "nic.vf", numa_node=0) for i in range(2))
    made = pool(node("a", extra=nics), node("b"))
    answer = place(made, ask(2, line(2, "nic.vf")))
    assert isinstance(answer, Claimed)
    assert {"vf0", "vf1"} < set(answer.members[0].atoms)
    assert refused(place(made, ask(2, line(3, "nic.vf")))).causes == {"devices": 2}


def racks(**sizes: int) -> calendar.Calendar:
    names = [(rack, f"{rack}{i}") for rack, size in sizes.items() for i in range(size)]
    return pool(*(node(name, labels={"rack": rack}) for rack, name in names), node("bare"))


def test_a_packed_gang_shares_one_value_of_the_label() -> None:
    made = racks(x=2, y=3)
    assert {name[0] for name in landed(place(made, ask(8, nodes=3, pack="rack")))} == {"y"}
    answer = refused(place(made, ask(8, nodes=4, pack="rack")))
    assert answer.message == "5 nodes fit, but not 4 on one rack: 1 node without the label"


def test_a_spread_gang_has_every_member_on_another_value() -> None:
    made = racks(x=2, y=3)
    assert {name[0] for name in landed(place(made, ask(8, nodes=2, spread="rack")))} == {"x", "y"}
    assert "not 3 on different rack" in refused(place(made, ask(8, nodes=3, spread="rack"))).message


def earliest(
    made: calendar.Calendar, wanted: claim.Claim, duration: int | None = 100, not_after: int | None = None
) -> int | None:
    return placement.earliest_start(made, wanted, duration, NOW, not_after, Compare())


def test_the_earliest_start_is_now_or_the_end_of_a_booking() -> None:
    made = pool(node("a"), node("b"))
    assert earliest(made, ask(8, nodes=2)) == NOW
    made.book("alloc_1", "a", ["a-g0"], {}, 0, NOW + 70)
    made.book("alloc_2", "b", ["b-g0"], {}, 0, NOW + 50)
    assert earliest(made, ask(8)) == NOW + 50
    assert earliest(made, ask(8, nodes=2)) == NOW + 70
    assert earliest(made, ask(8, nodes=2), not_after=NOW + 70) == NOW + 70
    assert earliest(made, ask(8, nodes=2), not_after=NOW + 69) is None
    assert earliest(made, ask(9)) is None


def test_a_hole_between_bookings_is_used_if_it_is_long_enough() -> None:
    made = pool(node("a"), gap_ms=5)
    made.book("alloc_1", "a", ["a-g0"], {}, 0, NOW + 50)
    made.book("alloc_2", "a", ["a-g0"], {}, NOW + 160, NOW + 200)
    assert earliest(made, ask(8), duration=100) == NOW + 55
    assert earliest(made, ask(8), duration=101) == NOW + 205
    assert earliest(made, ask(8), duration=None) == NOW + 205


# Against brute force


def fits(made: calendar.Calendar, name: str, wanted: claim.Claim, start: int, until: int) -> bool:
    """Whether some choice of distinct devices satisfies every line, trying all of them."""
    held = [b for b in made.bookings.values() if b.node_id == name and b.start < until and start < b.until]
    busy = {atom for booking in held for atom in booking.atoms}
    node = made.entries[name].node
    load = max(sum(b.scalars["vcpu"] for b in held if b.start <= at < b.until) for at in range(start, until))
    asked = wanted.scalars.get("vcpu", 0)
    if not node.schedulable or (asked and load + asked > node.scalars["vcpu"]):
        return False
    return choose([atom for atom in node.devices if atom.id not in busy], node, list(wanted.devices))


def choose(atoms: list[calendar.Atom], node: calendar.Node, lines: list[claim.DeviceLine]) -> bool:
    if not lines:
        return True
    first, *rest = lines
    compiled = Compare().compile(first.selector) if first.selector else None
    suited = [atom for atom in atoms if compiled is None or compiled.matches(atom, node)]
    for taken in combinations(suited, first.count):
        groups = {atom.numa_node for atom in taken}
        together = first.topology is None or len(groups) <= 1
        if together and choose([atom for atom in atoms if atom not in taken], node, rest):
            return True
    return False


def possible(made: calendar.Calendar, wanted: claim.Claim, start: int, until: int) -> bool:
    fitting = [name for name in made.entries if fits(made, name, wanted, start, until)]
    values = [made.entries[name].node.labels["rack"] for name in fitting]
    if wanted.topology and wanted.topology.spread:
        return len(set(values)) >= wanted.nodes
    if wanted.topology:
        return any(values.count(value) >= wanted.nodes for value in values)
    return len(fitting) >= wanted.nodes


LINES = st.builds(
    line,
    count=st.integers(0, 3),
    selector=st.sampled_from([None, None, "odd=1", "odd=0", "n=0", "n=0|1", "n=1|2|3"]),
    colocate=st.sampled_from([None, None, "numa"]),
)
CLAIMS = st.builds(
    claim.Claim,
    devices=st.lists(LINES, min_size=1, max_size=4).map(tuple),
    nodes=st.integers(1, 3),
    topology=st.sampled_from([None, claim.Topology(pack="rack"), claim.Topology(spread="rack")]),
    scalars=st.sampled_from([{}, {"vcpu": 3}, {"vcpu": 9}]),
)
NAMES, PLACES = st.sampled_from("abcd"), st.sets(st.integers(0, 5))
BOOKINGS = st.tuples(NAMES, PLACES, st.integers(0, 9), st.integers(0, 30), st.integers(1, 20))


@st.composite
def pools(draw: st.DrawFn) -> calendar.Calendar:
    made = calendar.Calendar("pool_a")
    for name, rack in zip("abcd", "xxyz", strict=True):
        schedulable = draw(st.integers(0, 5)) > 0
        made.put_node(node(name, draw(st.integers(0, 6)), labels={"rack": rack}, schedulable=schedulable))
    for number, (name, places, vcpu, start, length) in enumerate(draw(st.lists(BOOKINGS, max_size=12))):
        atoms = [f"{name}-g{i}" for i in places]
        made.book(f"alloc_{number}", name, atoms, {"vcpu": vcpu}, start, start + length)
    made.forget_before(draw(st.integers(0, 5)))
    return made


@settings(max_examples=400, deadline=None)
@given(made=pools(), wanted=CLAIMS, start=st.integers(5, 40), length=st.integers(1, 20))
def test_a_placement_is_found_exactly_where_one_exists_and_it_holds(
    made: calendar.Calendar, wanted: claim.Claim, start: int, length: int
) -> None:
    answer = place(made, wanted, start, start + length)
    assert isinstance(answer, Claimed) == possible(made, wanted, start, start + length)
    if isinstance(answer, placement.Refusal):
        return
    names = [member.node_id for member in answer.members]
    assert len(set(names)) == len(names) == wanted.nodes
    for member in answer.members:
        chosen = [atom for atom in made.entries[member.node_id].node.devices if atom.id in member.atoms]
        assert len(chosen) == sum(each.count for each in wanted.devices)
        assert choose(chosen, made.entries[member.node_id].node, list(wanted.devices))
        others = [b for b in made.bookings.values() if b.start < start + length and start < b.until]
        assert not {atom for b in others for atom in b.atoms} & set(member.atoms)


@settings(max_examples=200, deadline=None)
@given(made=pools(), wanted=CLAIMS, length=st.integers(1, 20))
def test_the_earliest_start_is_feasible_and_none_is_earlier(
    made: calendar.Calendar, wanted: claim.Claim, length: int
) -> None:
    found = placement.earliest_start(made, wanted, length, 5, 60, Compare())
    feasible = [start for start in range(5, 61) if possible(made, wanted, start, start + length)]
    assert found == (feasible[0] if feasible else None)


@settings(max_examples=60, deadline=None)
@given(made=pools(), wanted=st.lists(CLAIMS, max_size=15), starts=st.lists(st.integers(5, 30), min_size=15))
def test_claims_placed_one_after_another_never_overlap_nor_exceed_scalars(
    made: calendar.Calendar, wanted: list[claim.Claim], starts: list[int]
) -> None:
    before = set(made.bookings)
    for number, (each, start) in enumerate(zip(wanted, starts, strict=False)):
        answer = place(made, each, start, start + 10, f"rsv_{number}")
        for member in answer.members if isinstance(answer, Claimed) else ():
            key = f"new_{number}_{member.node_id}"
            made.book(key, member.node_id, member.atoms, member.scalars, start, start + 10)
    new = [booking for key, booking in made.bookings.items() if key not in before]
    for one, other in combinations(new, 2):
        apart = one.until <= other.start or other.until <= one.start
        assert apart or not set(one.atoms) & set(other.atoms)
    for booking in new:
        spare = made.spare(made.entries[booking.node_id], "vcpu", booking.start, booking.until)
        assert spare >= 0 or not booking.scalars


@pytest.mark.parametrize("changes", [1, 3])
def test_far_ahead_it_is_the_same_however_time_is_cut(monkeypatch: pytest.MonkeyPatch, changes: int) -> None:
    monkeypatch.setattr(outlook, "CHANGES", changes)
    monkeypatch.setattr(outlook, "STRETCHES", 2)
    monkeypatch.setattr(calendar, "PATIENCE", 0)
    test_a_placement_is_found_exactly_where_one_exists_and_it_holds()
    test_the_earliest_start_is_feasible_and_none_is_earlier()
    test_claims_placed_one_after_another_never_overlap_nor_exceed_scalars()


def slotted(*healthy: bool) -> calendar.Node:
    """A node whose GPUs are shared by four each; the slots of one that is not healthy are not bookable."""
    devices: list[calendar.Atom] = []
    for gpu_index, well in enumerate(healthy):
        name = f"p{gpu_index}"
        devices.append(calendar.Atom(name, "gpu", bookable=False))
        devices += [calendar.Atom(f"{name}/s{k}", "gpu.slot", parent=name, bookable=well) for k in range(4)]
    return node("a", devices=tuple(devices))


def test_two_reservations_on_slots_of_one_gpu_leave_two_and_never_less_than_none() -> None:
    made = pool(slotted(True))
    for number in range(2):
        answer = place(made, ask(line(1, "gpu.slot")), seed=f"rsv_{number}")
        assert isinstance(answer, Claimed)
        made.book(f"alloc_{number}", "a", answer.members[0].atoms, {}, NOW, NOW + 100)
    assert made.census("gpu.slot", NOW) == {2: 1}
    assert made.census("gpu", NOW) == {}
    assert refused(place(made, ask(line(3, "gpu.slot")))).causes == {"few": 1}
    assert isinstance(place(made, ask(line(2, "gpu.slot"))), Claimed)


def test_two_slots_come_from_any_gpu_that_is_well() -> None:
    made = pool(slotted(False, True))
    answer = place(made, ask(line(2, "gpu.slot")))
    assert isinstance(answer, Claimed)
    assert {atom[:2] for atom in answer.members[0].atoms} == {"p1"}
    assert refused(place(made, ask(line(5, "gpu.slot")))).message == "no node fits: 1 node with 4 free"
    both = place(pool(slotted(True, True)), ask(line(5, "gpu.slot")))
    assert isinstance(both, Claimed), "more than one GPU has are taken from two"
