"""A bound gang loses one of its nodes: the others go on, and only the lost member moves (domain.md §5, Lost node)."""

import time
from typing import Any

import pytest
from msgspec.structs import replace

from commands import agents, status_batches
from domain import reservation
from given import DEADLINE_S, Client, Plane
from silence import Watched

FOUR = [{"class": "gpu", "count": 4}]


@pytest.fixture
def watched(plane: Plane) -> Watched:
    return Watched(plane)


def gang(plane: Plane, pool_id: str, nodes: int = 2, **fields: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"devices": FOUR, "nodes": nodes} | fields
    made = plane.acme.reserve(pool_id, **asked).json()
    return dict(plane.activate(plane.acme, made["id"]))


def until(plane: Plane, client: Client, reservation_id: str, holds: Any) -> dict[str, Any]:
    """The reservation once it is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds(shown := client.ok("GET", f"/v1/reservations/{reservation_id}")):
        assert time.monotonic() < deadline, shown
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    return dict(shown)


def nodes_of(shown: dict[str, Any]) -> list[str]:
    return [one["nodeId"] for one in shown["allocations"]]


def lose(watched: Watched, node_id: str) -> None:
    watched.silence(node_id)
    watched.wait(302)


def held(plane: Plane, node_id: str) -> list[Any]:
    sql = "SELECT DISTINCT upper_inf(during), ended, freed FROM device_bookings WHERE node_id = %s"
    return plane.rows(sql, node_id)


def test_only_the_lost_member_moves_and_the_node_that_comes_back_is_told_to_stop(watched: Watched) -> None:
    """O33, O06: its atoms stay taken until it proves them free; the others are never touched."""
    plane = watched.plane
    pool_id, nodes = plane.fleet(nodes=3, gpus=4, quota=99)
    before = gang(plane, pool_id)
    gone, stays = before["allocations"]
    (spare,) = set(nodes) - {gone["nodeId"], stays["nodeId"]}
    lose(watched, gone["nodeId"])
    moved = until(plane, plane.acme, before["id"], lambda r: spare in nodes_of(r))
    assert (moved["state"], moved["degraded"], moved["endsAt"]) == ("active", "NodeLost", before["endsAt"])
    assert moved["allocations"][0] == stays
    assert held(plane, gone["nodeId"]) == [(True, True, False)]
    plane.report(spare)
    whole = plane.acme.ok("GET", f"/v1/reservations/{before['id']}")
    assert (whole["state"], whole["degraded"]) == ("active", None)
    assert [a["prepared"] for a in whole["allocations"]] == [True, True]

    session = agents.open_session(plane.store, gone["nodeId"])
    state = plane.store.load(gone["nodeId"]).state
    assert state.allocations == ()
    agents.report_status(plane.store, gone["nodeId"], session, state.generation, {gone["id"]: "prepared"})
    assert held(plane, gone["nodeId"]) == [(True, True, False)], "it has it still"
    agents.report_status(plane.store, gone["nodeId"], session, state.generation, {})
    assert held(plane, gone["nodeId"]) == [(False, True, True)]
    assert plane.acme.ok("GET", f"/v1/reservations/{before['id']}")["state"] == "active"

    plane.acme.ok("POST", f"/v1/reservations/{before['id']}/release", {})
    plane.report(spare)
    plane.report(stays["nodeId"])
    assert plane.until(plane.acme, before["id"], "released")["stateReason"] == "Released"


@pytest.mark.parametrize("end", ["release", "fail"])
def test_a_gang_that_lacks_a_member_ends_and_is_released_when_the_lost_one_is_proved_free(
    watched: Watched, end: str
) -> None:
    plane = watched.plane
    pool_id, nodes = plane.fleet(nodes=2, gpus=4, quota=99)
    before = gang(plane, pool_id)
    lose(watched, nodes[0])
    lacking = plane.acme.ok("GET", f"/v1/reservations/{before['id']}")
    assert (lacking["state"], lacking["degraded"], nodes_of(lacking)) == ("active", "NodeLost", [nodes[1]])
    if end == "release":
        plane.acme.ok("POST", f"/v1/reservations/{before['id']}/release", {})
        plane.report(nodes[1])
        assert plane.acme.ok("GET", f"/v1/reservations/{before['id']}")["state"] == "releasing"
    else:
        lose(watched, nodes[1])
        failed = plane.acme.ok("GET", f"/v1/reservations/{before['id']}")
        assert (failed["state"], failed["stateReason"]) == ("failed", "NodeLost")
        assert held(plane, nodes[1]) == [(True, True, False)]
        plane.root.ok("POST", f"/v1/nodes/{nodes[1]}/fence", {"reason": "off"})
    assert held(plane, nodes[0]) == [(True, True, False)]
    plane.root.ok("POST", f"/v1/nodes/{nodes[0]}/fence", {"reason": "off"})
    assert held(plane, nodes[0]) == held(plane, nodes[1]) == [(False, True, True)]
    state = plane.acme.ok("GET", f"/v1/reservations/{before['id']}")["state"]
    assert state == ("released" if end == "release" else "failed")


def test_without_room_it_stays_degraded_and_is_whole_when_room_comes(watched: Watched) -> None:
    plane = watched.plane
    pool_id, _ = plane.fleet(nodes=3, gpus=4, quota=99)
    other = plane.activate(plane.acme, plane.acme.reserve(pool_id, devices=FOUR).json()["id"])
    before = gang(plane, pool_id)
    gone = before["allocations"][0]["nodeId"]
    lose(watched, gone)
    assert len(nodes_of(plane.acme.ok("GET", f"/v1/reservations/{before['id']}"))) == 1
    plane.acme.ok("POST", f"/v1/reservations/{other['id']}/release", {})
    (spare,) = nodes_of(other)
    plane.report(spare)
    until(plane, plane.acme, before["id"], lambda r: spare in nodes_of(r))


@pytest.mark.parametrize("topology", ["pack", "spread"])
def test_the_new_member_keeps_to_the_gangs_topology(watched: Watched, topology: str) -> None:
    plane = watched.plane
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    plane.offer(pool_id, gpu=99)
    racks = {"pack": ["a", "a", "b", None], "spread": ["a", "b", "a", None]}[topology]
    nodes = [plane.node(site_id, pool_id, f"n{n}", 4) for n in range(4)]
    for node_id, rack in zip(nodes[:3], racks, strict=False):
        plane.root.ok("POST", f"/v1/nodes/{node_id}/labels", {"labels": {"rack": rack}})
    plane.settle()
    before = gang(plane, pool_id, topology={topology: "rack"})
    labels = {nodes[n]: rack for n, rack in enumerate(racks)}
    gone = next(id for id in nodes_of(before) if topology == "pack" or labels[id] == "b")
    lose(watched, gone)
    watched.wait(10)
    assert len(nodes_of(plane.acme.ok("GET", f"/v1/reservations/{before['id']}"))) == 1
    right = plane.node(site_id, pool_id, "right", 4)
    plane.root.ok("POST", f"/v1/nodes/{right}/labels", {"labels": {"rack": "a" if topology == "pack" else "c"}})
    until(plane, plane.acme, before["id"], lambda r: right in nodes_of(r))


def test_a_gang_that_binds_is_active_once_the_member_in_place_of_the_lost_one_is_prepared(watched: Watched) -> None:
    plane = watched.plane
    site_id = plane.site()
    pool_id = plane.pool(site_id, policy={"bindTimeout": 86_400})
    plane.offer(pool_id, gpu=99)
    nodes = [plane.node(site_id, pool_id, f"n{n}", 4) for n in range(3)]
    made = plane.acme.reserve(pool_id, devices=FOUR, nodes=2).json()
    gone, stays = nodes_of(plane.until(plane.acme, made["id"], "binding"))
    (spare,) = set(nodes) - {gone, stays}
    plane.report(stays)
    lose(watched, gone)
    until(plane, plane.acme, made["id"], lambda r: spare in nodes_of(r))
    plane.report(stays)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] == "binding"
    plane.report(spare)
    shown = plane.acme.ok("GET", f"/v1/reservations/{made['id']}")
    assert (shown["state"], shown["degraded"]) == ("active", None)


def test_a_member_that_is_not_prepared_in_time_is_lost_in_turn(watched: Watched) -> None:
    plane = watched.plane
    pool_id, nodes = plane.fleet(nodes=4, gpus=4, quota=99)
    before = gang(plane, pool_id)
    gone, stays = nodes_of(before)
    others = set(nodes) - {gone, stays}
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"bindTimeout": 1}})
    lose(watched, gone)
    (first,) = others & set(nodes_of(until(plane, plane.acme, before["id"], lambda r: others & set(nodes_of(r)))))
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {}})
    (second,) = others - {first}
    last = until(plane, plane.acme, before["id"], lambda r: second in nodes_of(r))
    assert (last["state"], last["degraded"]) == ("active", "BindTimeout")
    lost = [e for e in plane.events(before["id"]) if isinstance(e, reservation.MemberLost)]
    assert [(e.node_id, e.reason) for e in lost] == [(gone, "NodeLost"), (first, "BindTimeout")]
    assert plane.store.load(first).state.allocations == ()
    plane.report(first)
    assert held(plane, first) == [(False, True, True)]


def test_forced_retirement_moves_one_member_and_frees_it(plane: Plane) -> None:
    """O13: no orphan booking, and the gang goes on."""
    pool_id, nodes = plane.fleet(nodes=3, gpus=4, quota=99)
    before = gang(plane, pool_id)
    gone, stays = nodes_of(before)
    (spare,) = set(nodes) - {gone, stays}
    refused = plane.root.post(f"/v1/nodes/{gone}/retire", {})
    assert (refused.status_code, refused.json()["reservations"]) == (409, [before["id"]])
    plane.root.ok("POST", f"/v1/nodes/{gone}/retire", {"force": True})
    assert held(plane, gone) == [(False, True, True)]
    moved = until(plane, plane.acme, before["id"], lambda r: spare in nodes_of(r))
    assert (moved["state"], moved["degraded"]) == ("active", "NodeRetired")
    plane.report(spare)
    assert plane.acme.ok("GET", f"/v1/reservations/{before['id']}")["degraded"] is None


def test_a_drains_deadline_on_a_node_that_came_back_ends_nothing_that_runs_elsewhere(watched: Watched) -> None:
    plane = watched.plane
    pool_id, nodes = plane.fleet(nodes=2, gpus=4, quota=99)
    before = gang(plane, pool_id)
    lose(watched, nodes[0])
    plane.root.ok(
        "POST", f"/v1/nodes/{nodes[0]}/drain", {"reason": "fan", "force": True, "deadline": plane.store.now()}
    )
    watched.wait(5)
    assert plane.acme.ok("GET", f"/v1/reservations/{before['id']}")["state"] == "active"


def test_a_lost_member_and_a_missing_device_are_told_each_in_its_turn(watched: Watched) -> None:
    """O23, and reports that come many at once say the same as one by one."""
    plane = watched.plane
    pool_id, nodes = plane.fleet(nodes=3, gpus=4, quota=99)
    before = gang(plane, pool_id)
    gone, stays = nodes_of(before)
    (spare,) = set(nodes) - {gone, stays}

    def shows(gpus: int) -> None:
        state = plane.store.load(stays).state
        assert state.inventory is not None
        found = replace(state.inventory, gpus=cards[:gpus])
        agents.report_inventory(plane.store, stays, state.session, found)

    def told() -> tuple[str, str | None]:
        shown = plane.acme.ok("GET", f"/v1/reservations/{before['id']}")
        return shown["state"], shown["degraded"]

    found = plane.store.load(stays).state.inventory
    assert found is not None
    cards = found.gpus
    shows(3)
    assert told() == ("active", "DeviceMissing")
    lose(watched, gone)
    until(plane, plane.acme, before["id"], lambda r: spare in nodes_of(r))
    assert told() == ("active", "NodeLost")
    state = plane.store.load(spare).state
    held = {a.id: "prepared" for a in state.allocations}
    report = status_batches.Report(spare, state.session, state.generation, held)  # type: ignore[arg-type]
    assert status_batches.report_statuses(plane.store, [report]) == [None]
    assert told() == ("active", "DeviceMissing")
    shows(4)
    assert told() == ("active", None)


def test_a_lost_nodes_retirement_proves_free_what_a_running_gang_lost(watched: Watched) -> None:
    plane = watched.plane
    pool_id, nodes = plane.fleet(nodes=2, gpus=4, quota=99)
    before = gang(plane, pool_id)
    lose(watched, nodes[0])
    plane.root.ok("POST", f"/v1/nodes/{nodes[0]}/retire", {"force": True})
    assert held(plane, nodes[0]) == [(False, True, True)]
    shown = plane.acme.ok("GET", f"/v1/reservations/{before['id']}")
    assert (shown["state"], shown["degraded"]) == ("active", "NodeLost")
    plane.acme.ok("POST", f"/v1/reservations/{before['id']}/release", {})
    plane.report(nodes[1])
    assert plane.until(plane.acme, before["id"], "released")["stateReason"] == "Released"
