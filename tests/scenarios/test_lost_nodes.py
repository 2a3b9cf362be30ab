"""A node that falls silent: unreachable, then lost; what that means for what is booked there (O33)."""

from typing import Any

import pytest

from adapters.watch import NodeWatch
from commands import agents, health
from domain import node
from given import Plane
from silence import Watched


@pytest.fixture
def watched(plane: Plane) -> Watched:
    return Watched(plane)


def shown(plane: Plane, reservation_id: str) -> tuple[str, str | None]:
    answer: dict[str, Any] = plane.acme.ok("GET", f"/v1/reservations/{reservation_id}")
    return answer["state"], answer["stateReason"]


def test_lost_is_not_dead_until_its_pools_time_is_over_and_its_atoms_are_free_only_when_proved(
    watched: Watched,
) -> None:
    """O33."""
    plane = watched.plane
    pool_id, (node_id,) = plane.fleet(gpus=1)
    active = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    watched.silence(node_id)
    watched.wait(300)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["connectivity"] == "unreachable"
    assert shown(plane, active["id"]) == ("active", None)
    before = plane.store.load(active["id"]).version
    plane.connect(node_id)
    watched.wait(400)
    assert plane.store.load(active["id"]).version == before, "nothing restarts when it is back in time"

    watched.silence(node_id)
    watched.wait(302)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["connectivity"] == "lost"
    assert shown(plane, active["id"]) == ("failed", "NodeLost")
    assert plane.rows("SELECT upper_inf(during) FROM device_bookings WHERE node_id = %s", node_id) == [(True,)]
    waiting = plane.acme.reserve(pool_id).json()
    assert waiting["state"] == "pending", "lost is no proof that nobody uses it"

    session = agents.open_session(plane.store, node_id)
    state: node.State = plane.store.load(node_id).state
    assert state.allocations == (), "the node that comes back is told to tear down what it lost"
    held = {active["allocations"][0]["id"]: "prepared"}
    agents.report_status(plane.store, node_id, session, state.generation - 1, held)  # type: ignore[arg-type]
    assert plane.acme.ok("GET", f"/v1/reservations/{waiting['id']}")["state"] == "pending"
    agents.report_status(plane.store, node_id, session, state.generation, {})
    assert plane.until(plane.acme, waiting["id"], "placed", "binding")["allocations"][0]["nodeId"] == node_id


def test_what_has_only_a_place_on_a_lost_node_gets_another(watched: Watched) -> None:
    plane = watched.plane
    pool_id, nodes = plane.fleet(nodes=2, gpus=4)
    later = plane.store.now() + 10**9
    claim = {"devices": [{"class": "gpu", "count": 4}], "startsAt": later}
    placed = plane.acme.reserve(pool_id, **claim).json()
    (here,) = {one["nodeId"] for one in placed["allocations"]}
    watched.silence(here)
    watched.wait(302)
    again = plane.until(plane.acme, placed["id"], "placed")
    while again["allocations"][0]["nodeId"] == here:
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
        again = plane.until(plane.acme, placed["id"], "placed", "pending")
    assert ({one["nodeId"] for one in again["allocations"]}, again["startsAt"]) == (set(nodes) - {here}, later)


def test_a_node_that_left_properly_is_never_lost(watched: Watched) -> None:
    plane = watched.plane
    _, (node_id,) = plane.fleet()
    agents.end_session(plane.store, node_id, plane.store.load(node_id).state.session, "disconnected")
    plane.settle()
    watched.wait(1000)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["connectivity"] == "disconnected"


def test_a_stopped_watch_and_a_second_one_lose_nobody_early(watched: Watched) -> None:
    """A watch that takes over has seen nothing yet."""
    plane = watched.plane
    _, (node_id,) = plane.fleet()
    watched.silence(node_id)
    watched.wait(290)
    plane.rows("DELETE FROM coordination_leases WHERE name = 'singleton:nodes' RETURNING 1")
    watched.watch = NodeWatch(plane.store, plane.wired.reads, plane.wired.mint, watched.clock)
    watched.wait(290)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["connectivity"] == "unreachable"


def test_what_was_not_reported_for_a_day_is_stale_until_it_is(watched: Watched) -> None:
    plane = watched.plane
    _, (node_id,) = plane.fleet()
    session = plane.store.load(node_id).state.session
    found = plane.store.load(node_id).state.inventory
    version = plane.store.load(node_id).version
    agents.report_inventory(plane.store, node_id, session, found)
    assert plane.store.load(node_id).version == version, "an unchanged report writes nothing but when it was"
    seen = plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory")
    assert seen["takenAt"] < seen["lastSeenAt"] <= plane.store.now()
    watched.age(node_id, 23 * 3_600_000)
    watched.wait(1)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["conditions"] == []
    watched.age(node_id, 3_600_001)
    watched.wait(61)
    (stale,) = plane.root.ok("GET", f"/v1/nodes/{node_id}")["conditions"]
    assert (stale["type"], plane.root.ok("GET", f"/v1/nodes/{node_id}")["schedulable"]) == ("InventoryStale", True)
    agents.report_inventory(plane.store, node_id, session, found)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["conditions"] == []


def test_a_clock_that_is_off_is_told_and_stops_nothing(plane: Plane) -> None:
    """O34: the node's clock is reported, never judged."""
    _, (node_id,) = plane.fleet()
    session = plane.store.load(node_id).state.session
    for skew, told in (
        (4_500, []),
        (-7_200, ["its clock is 7.2 s behind"]),
        (90_000_000, ["its clock is 7.2 s behind"]),
        (0, []),
    ):
        health.report_clock(plane.store, node_id, session, lambda skew=skew: plane.store.now() + skew)
        shown = plane.root.ok("GET", f"/v1/nodes/{node_id}")
        assert ([one["message"] for one in shown["conditions"]], shown["schedulable"]) == (told, True)
    health.report_clock(plane.store, node_id, session - 1, lambda: 0)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["conditions"] == []
