"""Nodes leave service and come back: drains, planned maintenance, retirement with force (domain.md §3)."""

import time
from typing import Any

from commands import agents
from domain import node, reservation
from given import DEADLINE_S, Plane

HOUR = 3_600_000


def until(plane: Plane, node_id: str, holds: Any) -> dict[str, Any]:
    """The node once it is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds(shown := plane.root.ok("GET", f"/v1/nodes/{node_id}")):
        assert time.monotonic() < deadline, shown
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    return dict(shown)


def drain(plane: Plane, node_id: str, **fields: Any) -> Any:
    return plane.root.post(f"/v1/nodes/{node_id}/drain", {"reason": "fan"} | fields)


def test_a_drain_places_elsewhere_what_is_placed_and_leaves_what_runs(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=2)
    active = plane.activate(
        plane.acme, plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}]).json()["id"]
    )
    here = active["allocations"][0]["nodeId"]
    (there,) = set(nodes) - {here}
    later = plane.store.now() + 100 * HOUR
    placed = [plane.acme.reserve(pool_id, startsAt=later, durationSeconds=60).json() for _ in range(4)]
    on_it = [one["id"] for one in placed if one["allocations"][0]["nodeId"] == here]
    assert drain(plane, here).status_code == 200
    for reservation_id in (one["id"] for one in placed):
        shown = plane.until(plane.acme, reservation_id, "placed")
        while shown["allocations"][0]["nodeId"] == here:
            plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
            shown = plane.until(plane.acme, reservation_id, "placed")
        assert (shown["allocations"][0]["nodeId"], shown["startsAt"]) == (there, later)
    for reservation_id in on_it:
        queued = [e for e in plane.events(reservation_id) if isinstance(e, reservation.Queued)]
        assert [e.reason for e in queued] == ["NodeDrained"]
    assert plane.acme.ok("GET", f"/v1/reservations/{active['id']}")["state"] == "active"
    assert until(plane, here, lambda n: True)["drain"]["drainedAt"] is None
    plane.acme.ok("POST", f"/v1/reservations/{active['id']}/release", {})
    plane.report(here)
    done = until(plane, here, lambda n: n["drain"]["drainedAt"] is not None)
    assert [reason["reason"] for reason in done["unschedulableReasons"]] == ["Cordoned"]
    back = plane.root.ok("POST", f"/v1/nodes/{here}/uncordon", {})
    assert (back["drain"], back["cordoned"], back["schedulable"]) == (None, None, True)


def test_at_a_drains_deadline_what_still_runs_is_released_after_notice(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    active = plane.activate(plane.acme, plane.acme.reserve(pool_id, durationSeconds=7_200).json()["id"])
    deadline = plane.store.now() + HOUR // 2
    assert drain(plane, node_id, deadline=deadline).status_code == 200
    until(plane, node_id, lambda n: any(isinstance(e, reservation.Ending) for e in plane.events(active["id"])))
    told = plane.acme.ok("GET", f"/v1/reservations/{active['id']}")
    assert (told["state"], told["endingAt"], told["endingReason"]) == ("active", deadline, "Drained")
    assert drain(plane, node_id, deadline=plane.store.now()).status_code == 200
    ended = plane.until(plane.acme, active["id"], "releasing")
    assert ended["stateReason"] == "Drained"
    plane.report(node_id)
    until(plane, node_id, lambda n: n["drain"]["drainedAt"] is not None)
    told_once = [e for e in plane.events(active["id"]) if isinstance(e, reservation.Ending)]
    assert [e.at for e in told_once] == [deadline]


def test_drains_beyond_the_disruption_budget_are_refused_naming_the_nodes_that_count(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=3)
    plane.root.ok("POST", f"/v1/nodes/{nodes[0]}/maintenance", {"on": True, "reason": "bios"})
    refused = drain(plane, nodes[1])
    assert (refused.status_code, refused.json()["nodes"], refused.json()["most"]) == (409, [nodes[0]], 1)
    assert "force" in refused.json()["detail"]
    assert drain(plane, nodes[1], force=True).status_code == 200
    assert set(drain(plane, nodes[2]).json()["nodes"]) == set(nodes[:2])
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"disruptionBudget": 1.0}})
    assert drain(plane, nodes[2]).status_code == 200
    for verb in ("uncordon", "maintenance"):
        for node_id in nodes:
            plane.root.post(f"/v1/nodes/{node_id}/{verb}", {"on": False} if verb == "maintenance" else {})
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {}})
    assert drain(plane, nodes[0]).status_code == 200, "what is over counts no more"


def test_a_node_whose_agent_is_gone_counts_as_disrupted(plane: Plane) -> None:
    _, nodes = plane.fleet(nodes=2)
    agents.end_session(plane.store, nodes[0], plane.store.load(nodes[0]).state.session, "disconnected")
    assert drain(plane, nodes[1]).json()["nodes"] == [nodes[0]]


def test_planned_maintenance_books_the_atoms_and_comes_and_goes_by_itself(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    path = f"/v1/nodes/{node_id}/maintenance"
    start = plane.store.now() + 24 * HOUR
    planned = plane.root.ok("POST", path, {"on": True, "reason": "bios", "from": start, "until": start + HOUR})
    assert [(p["reason"], p["from"], p["until"]) for p in planned["plannedMaintenance"]] == [
        ("bios", start, start + HOUR)
    ]
    assert (planned["maintenance"], planned["schedulable"]) == ([], True)
    again = plane.root.ok("POST", path, {"on": True, "reason": "bios", "from": start, "until": start + HOUR})
    assert again["version"] == planned["version"]
    during = plane.acme.reserve(pool_id, startsAt=start + 60_000, durationSeconds=60, maxPendingSeconds=0)
    assert during.json()["code"] == "DOUBLE_BOOKED"
    after = plane.acme.reserve(pool_id, startsAt=start + HOUR, durationSeconds=60).json()
    assert after["state"] == "placed", "bookings touch"
    clash = {"on": True, "reason": "cpu", "from": start + HOUR, "until": start + 2 * HOUR}
    refused = plane.root.post(path, clash)
    assert (refused.status_code, refused.json()["reservations"]) == (409, [after["id"]])
    capacity = plane.root.ok("GET", f"/v1/capacity?poolId={pool_id}&at={start + 1}")["items"]
    (gpus,) = [row for row in capacity if row["resource"] == "gpu"]
    assert (gpus["total"], gpus["allocatable"], gpus["unschedulable"], gpus["reserved"]) == (8, 0, 8, 0)
    plan_id = planned["plannedMaintenance"][0]["id"]
    unplanned = plane.root.post(path, {"on": False, "reason": "bios"})
    assert unplanned.status_code == 422
    assert plan_id in unplanned.json()["errors"][0]["message"]
    gone = plane.root.ok("POST", path, {"on": False, "plan": plan_id})
    assert gone["plannedMaintenance"] == []
    assert plane.acme.reserve(pool_id, startsAt=start + 60_000, durationSeconds=60).json()["state"] == "placed"

    now = plane.store.now()
    quick = {"on": True, "reason": "quick", "from": now, "until": now + 1_500}
    plane.root.ok("POST", path, quick)
    until(plane, node_id, lambda n: [stay["reason"] for stay in n["maintenance"]] == ["quick"])
    over = until(plane, node_id, lambda n: not n["plannedMaintenance"])
    assert (over["maintenance"], over["schedulable"]) == ([], True)


def test_maintenance_has_reasons_and_lasts_as_long_as_one_of_them(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    path = f"/v1/nodes/{node_id}/maintenance"
    plane.root.ok("POST", path, {"on": True, "reason": "bios"})
    plane.root.ok("POST", path, {"on": True, "reason": "fan"})
    one = plane.root.ok("POST", path, {"on": False, "reason": "bios"})
    assert ([stay["reason"] for stay in one["maintenance"]], one["schedulable"]) == (["fan"], False)
    assert plane.root.ok("POST", path, {"on": False})["schedulable"] is True
    later = plane.store.now() + HOUR
    for body, field in (
        ({"on": True, "from": 1, "until": 2}, "from"),
        ({"on": True, "until": later}, "from"),
        ({"on": True, "from": later, "until": later}, "until"),
        ({"on": True, "plan": "alloc_x"}, "plan"),
        ({"on": False, "plan": "alloc_x"}, "plan"),
    ):
        refused = plane.root.post(path, body)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)


def test_forced_retirement_fails_what_runs_and_places_the_rest_elsewhere(plane: Plane) -> None:
    """O13: or with force, in one append that leaves no orphan booking."""
    pool_id, _ = plane.fleet(nodes=2)
    active = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    here = active["allocations"][0]["nodeId"]
    later = plane.store.now() + 100 * HOUR
    placed = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 7}], startsAt=later).json()["id"]
    refused = plane.root.post(f"/v1/nodes/{here}/retire", {})
    assert active["id"] in refused.json()["reservations"]
    gone = plane.root.ok("POST", f"/v1/nodes/{here}/retire", {"force": True})
    assert (gone["provisionState"], gone["poolId"]) == ("retired", None)
    failed = plane.acme.ok("GET", f"/v1/reservations/{active['id']}")
    assert (failed["state"], failed["stateReason"]) == ("failed", "NodeRetired")
    elsewhere = plane.until(plane.acme, placed, "placed")
    assert elsewhere["allocations"][0]["nodeId"] != here
    live = plane.rows("SELECT count(*) FROM device_bookings WHERE node_id = %s AND NOT freed", here)
    assert live == [(0,)]


def test_release_is_refused_while_something_runs_and_ready_once_the_node_holds_nothing(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/rescue", {})
    assert plane.root.ok("POST", f"/v1/nodes/{node_id}/deploy", {})["provisionState"] == "deployed"
    active = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    refused = plane.root.post(f"/v1/nodes/{node_id}/release", {})
    assert (refused.status_code, refused.json()["reservations"]) == (409, [active["id"]])
    forced = plane.root.ok("POST", f"/v1/nodes/{node_id}/release", {"force": True})
    assert forced["provisionState"] == "releasing"
    assert plane.acme.ok("GET", f"/v1/reservations/{active['id']}")["stateReason"] == "NodeReleased"
    plane.report(node_id)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["provisionState"] == "ready"
    assert plane.root.ok("POST", f"/v1/nodes/{node_id}/deploy", {})["provisionState"] == "deploying"
    plane.report(node_id)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["schedulable"] is True


def test_drift_is_named_while_it_lasts(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    active = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    state: node.State = plane.store.load(node_id).state
    agents.report_status(plane.store, node_id, state.session, state.generation, {"alloc_stray": "prepared"})
    (drift,) = plane.root.ok("GET", f"/v1/nodes/{node_id}")["conditions"]
    assert (drift["type"], drift["names"]) == ("SpecDrift", sorted(["alloc_stray", active["allocations"][0]["id"]]))
    spec = plane.root.ok("GET", f"/v1/nodes/{node_id}/spec")
    assert spec["status"] == {"alloc_stray": "prepared"}
    assert plane.acme.ok("GET", f"/v1/reservations/{active['id']}")["state"] == "active"
    plane.report(node_id)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["conditions"] == []
