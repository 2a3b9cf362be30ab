"""What the tables hold of a gang that lost a member (domain.md §5, Lost node)."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from domain import errors, node, reservation
from facts import T0, TENANT, Facts, facts

HOUR = 3_600_000


class Scene:
    """A gang bound on two nodes over [T0, T0 + 4 h), with 40 vcpu on each; it lost the first at T0 + 1 h."""

    def __init__(self, given: Facts) -> None:
        self.given = given
        self.pool_id = given.pool()
        self.nodes = [given.node(self.pool_id, 2) for _ in range(3)]
        self.window = (T0, T0 + 4 * HOUR)
        parts = [self.part(n, *self.window) for n in range(2)]
        both = tuple(part.allocations[0] for part in parts)
        self.gang = given.place(replace(parts[0], allocations=both))
        given.bind(self.gang)
        self.lost, self.kept = both
        given.append(self.gang, reservation.MemberLost(self.lost.id, self.nodes[0][0], "NodeLost", T0 + HOUR))

    def part(self, n: int, start: int, end: int) -> reservation.Placed:
        node_id, (atom, _) = self.nodes[n]
        return self.given.placed(self.pool_id, node_id, [atom], start, end, scalars={"vcpu": 40})

    def joins(self, n: int, start: int) -> None:
        (one,) = self.part(n, start, self.window[1]).allocations
        placed = reservation.MemberPlaced(self.pool_id, TENANT, one, start, self.window[1], 1, start + HOUR)
        self.given.append(self.gang, placed)

    def rows(self) -> dict[str, tuple[int, int | None]]:
        """Devices and scalars agree: from when to when each allocation holds."""
        found = {}
        for table in ("device_bookings", "scalar_bookings"):
            sql = f"SELECT allocation_id, lower(during), upper(during) FROM {table} WHERE reservation_id = %s"
            found[table] = {id: (start, end) for id, start, end in self.given.rows(sql, self.gang)}
        assert found["device_bookings"] == found["scalar_bookings"]
        return found["device_bookings"]


@pytest.fixture
def scene(database: str) -> Iterator[Scene]:
    with facts(database, size=4) as given:
        yield Scene(given)


def test_only_the_lost_member_holds_on_without_an_end(scene: Scene) -> None:
    assert scene.rows() == {scene.lost.id: (T0, None), scene.kept.id: scene.window}
    with pytest.raises(errors.DoubleBooked):
        scene.given.place(scene.part(0, T0 + 9 * HOUR, T0 + 10 * HOUR))


def test_an_extension_is_of_the_members_that_it_has(scene: Scene) -> None:
    """Neither what is held of the lost one nor what was proved free of it moves."""
    given = scene.given

    def extend(former: int, end: int) -> None:
        claimed = given.claimed(None, 2, T0, end)
        extended = reservation.Extended("ext_1", "adm_1", scene.pool_id, former, end, claimed, 0, (scene.kept.id,), T0)
        given.append(scene.gang, extended)

    extend(T0 + 4 * HOUR, T0 + 5 * HOUR)
    assert scene.rows() == {scene.lost.id: (T0, None), scene.kept.id: (T0, T0 + 5 * HOUR)}
    given.append(scene.gang, reservation.TornDown(scene.lost.id, scene.nodes[0][0], T0 + 2 * HOUR))
    extend(T0 + 5 * HOUR, T0 + 6 * HOUR)
    assert scene.rows() == {scene.lost.id: (T0, T0 + 2 * HOUR), scene.kept.id: (T0, T0 + 6 * HOUR)}


def test_the_new_member_holds_for_the_rest_and_all_hold_on_when_the_gang_ends(scene: Scene) -> None:
    given = scene.given
    scene.joins(2, T0 + HOUR)
    (new,) = (a for a in given.store.load(scene.gang).state.allocations if a.id != scene.kept.id)
    assert scene.rows()[new.id] == (T0 + HOUR, T0 + 4 * HOUR)
    given.append(scene.gang, reservation.TornDown(scene.lost.id, scene.nodes[0][0], T0 + 2 * HOUR))
    given.release(scene.gang, T0 + 3 * HOUR)
    assert scene.rows() == {
        scene.lost.id: (T0, T0 + 2 * HOUR),
        scene.kept.id: (T0, None),
        new.id: (T0 + HOUR, None),
    }


def test_a_node_that_closed_takes_no_member(scene: Scene) -> None:
    scene.given.append(scene.nodes[2][0], node.SchedulabilityChanged({"Cordoned": 1}))
    with pytest.raises(Exception, match="NODE_CLOSED"):
        scene.joins(2, T0 + HOUR)


def test_what_a_gang_lost_blocks_whoever_comes_next_and_not_the_gang(scene: Scene) -> None:
    given = scene.given
    following = given.place(scene.part(1, T0 + 4 * HOUR, T0 + 5 * HOUR))
    assert given.store.blockers(following) == [scene.gang]
    assert given.store.blockers(scene.gang) == []
