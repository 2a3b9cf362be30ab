"""A pool's GPUs are cut up anew: only under no booking, with all its nodes in one append (domain.md §3, §4)."""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from commands import agents
from domain import inventory as document
from domain import node
from given import SEVEN, Plane, inventory, partitioned

TWO = [{"profile": "3g.40gb", "start": 0}, {"profile": "4g.40gb", "start": 0}]
HALVES = [{"profile": "3g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]


def mig_pool(plane: Plane, site_id: str) -> str:
    pool_id = plane.pool(site_id, "mig", gpuModel="A100", sharing="mig", policy={"migLayout": SEVEN})
    plane.root.ok("PUT", f"/v1/pools/{pool_id}/offers/acme", {"quota": {"gpu.mig": 20}})
    return pool_id


def cut(plane: Plane, pool_id: str, layout: list[dict[str, Any]]) -> Any:
    return plane.root.call("PATCH", f"/v1/pools/{pool_id}", {"policy": {"migLayout": layout}})


def reserve(plane: Plane, pool_id: str, **fields: Any) -> Any:
    return plane.acme.reserve(pool_id, devices=[{"class": "gpu.mig", "count": 1}], **fields).json()


def atoms(plane: Plane, node_id: str) -> list[str]:
    items = plane.root.ok("GET", f"/v1/nodes/{node_id}/devices")["items"]
    return [one["id"] for one in items if one["bookable"]]


def with_instances(found: dict[str, Any], layout: list[dict[str, Any]]) -> document.NodeInventory:
    made = copy.deepcopy(found)
    for card in made["gpus"]:
        card["migInstances"] = [
            {"gi": 1 + n, "ci": 0, "uuid": f"MIG-{card['uuid'][4:-1]}{n}", **piece} for n, piece in enumerate(layout)
        ]
    return document.NodeInventory.convert(made)


def test_a_new_layout_takes_all_nodes_along_and_waits_for_their_slices(plane: Plane) -> None:
    """O22: the parent is never sold with its slices; the old ones are gone from the view."""
    site_id = plane.site()
    pool_id = mig_pool(plane, site_id)
    documents = {
        plane.node(site_id, pool_id, f"n{n}", found=f): f for n, f in enumerate(map(partitioned, (1, 1), (1, 2)))
    }
    before = {node_id: plane.store.load(node_id).state for node_id in documents}
    head = plane.head()
    assert cut(plane, pool_id, HALVES).status_code == 200
    assert plane.head() - head == 2 + 2 * 4, "one append: admission, policy, and of each node four events"
    for node_id, found in documents.items():
        state = plane.store.load(node_id).state
        assert (state.layout, state.generation) == (before[node_id].layout + 1, before[node_id].generation + 1)
        assert [(s.profile, s.start) for s in state.sharing.layout] == [("3g.40gb", 0), ("3g.40gb", 4)]
        assert [c.type for c in state.conditions] == ["PartitionPending"]
        assert atoms(plane, node_id) == []
        agents.report_inventory(plane.store, node_id, state.session, with_instances(found, HALVES))
        card = found["gpus"][0]["uuid"]
        assert atoms(plane, node_id) == [f"{card}/gi0/ci0", f"{card}/gi4/ci0"]
        assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["schedulable"]
        whole = next(d for d in plane.root.ok("GET", f"/v1/nodes/{node_id}/devices")["items"] if d["class"] == "gpu")
        assert not whole["bookable"]
    plane.settle()
    made = reserve(plane, pool_id)
    assert made["state"] == "placed", made
    again = plane.head()
    assert cut(plane, pool_id, HALVES[::-1]).status_code == 200, "another order is no other layout"
    assert plane.head() <= again + 3


def test_a_layout_changes_under_no_booking_and_names_what_is_booked(plane: Plane) -> None:
    """O22, O13: also one that only begins next week."""
    site_id = plane.site()
    pool_id = mig_pool(plane, site_id)
    node_id = plane.node(site_id, pool_id, "n1", found=partitioned(1, 1))
    made = reserve(plane, pool_id, startsAt=plane.store.now() + 7 * 86_400_000)
    refused = cut(plane, pool_id, HALVES)
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT"), refused.text
    assert refused.json()["reservations"] == [made["id"]]
    assert len(atoms(plane, node_id)) == 7
    illegal = cut(plane, pool_id, TWO)
    assert (illegal.status_code, illegal.json()["errors"][0]["field"]) == (422, "policy.migLayout[1]")
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
    assert cut(plane, pool_id, HALVES).status_code == 200


def test_a_booking_and_a_new_layout_never_cross(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = mig_pool(plane, site_id)
    node_id = plane.node(site_id, pool_id, "n1", found=partitioned(1, 1))
    with ThreadPoolExecutor(5) as threads:
        booking = [threads.submit(reserve, plane, pool_id) for _ in range(4)]
        cutting = threads.submit(cut, plane, pool_id, HALVES)
        states = [one.result().get("state") for one in booking]
        answer = cutting.result()
    state: node.State = plane.store.load(node_id).state
    booked = plane.store.carried(node_id)
    assert (answer.status_code == 200) is (state.layout == 2)
    assert not (state.layout == 2 and booked), (states, booked)


def test_a_node_that_comes_while_its_pool_is_cut_is_cut_alike(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = mig_pool(plane, site_id)
    made = [plane.join(site_id, f"n{n}", partitioned(1, n + 1)) for n in range(4)]
    with ThreadPoolExecutor(5) as threads:
        coming = [
            threads.submit(plane.root.post, f"/v1/nodes/{node_id}/assign", {"poolId": pool_id}) for node_id in made
        ]
        cutting = threads.submit(cut, plane, pool_id, HALVES)
        assert {one.result().status_code for one in (*coming, cutting)} == {200}
    for node_id in made:
        state: node.State = plane.store.load(node_id).state
        assert [piece.start for piece in state.sharing.layout] == [0, 4]


def test_slots_of_a_time_sliced_pool_change_as_well(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, "slots", sharing="timeslice", policy={"sharing": {"replicas": 2}})
    node_id = plane.node(site_id, pool_id, "n1", found=inventory(gpus=1, index=9))
    assert len(atoms(plane, node_id)) == 2
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"sharing": {"replicas": 4}}})
    assert len(atoms(plane, node_id)) == 4
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}/spec")["sharing"] == {"mode": "timeslice", "slots": 4}


def test_planned_maintenance_is_called_off_before_a_pool_is_cut_anew(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = mig_pool(plane, site_id)
    node_id = plane.node(site_id, pool_id, "n1", found=partitioned(1, 1))
    begins = plane.store.now() + 3_600_000
    plan = {"on": True, "reason": "bios", "from": begins, "until": begins + 60_000}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", plan)
    refused = cut(plane, pool_id, HALVES)
    assert (refused.status_code, refused.json()["nodes"]) == (409, [node_id]), refused.text


def test_slices_that_are_gone_after_a_reboot_are_missed_and_their_bookings_kept(plane: Plane) -> None:
    """O23: nothing new is placed, what is booked stays booked, and all is well once they stand again."""
    site_id = plane.site()
    pool_id = mig_pool(plane, site_id)
    found = partitioned(1, 1)
    node_id = plane.node(site_id, pool_id, "n1", found=found)
    running = reserve(plane, pool_id)
    plane.activate(plane.acme, running["id"])
    coming = reserve(plane, pool_id, startsAt=plane.store.now() + 3_600_000)
    booked = {d for one in (running, coming) for d in plane.store.load(one["id"]).state.allocations[0].atoms}
    session = plane.connect(node_id)
    agents.report_inventory(plane.store, node_id, session, with_instances(found, []))
    shown = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    held = {c["type"]: c["names"] for c in shown["conditions"]}
    assert held["PartitionPending"] == [found["gpus"][0]["uuid"]]
    assert set(held["BookedDeviceMissing"]) == booked
    assert [r["reason"] for r in shown["unschedulableReasons"]] == ["PartitionPending"]
    degraded = plane.acme.ok("GET", f"/v1/reservations/{running['id']}")
    assert (degraded["state"], degraded["degraded"]) == ("active", "DeviceMissing")
    assert plane.acme.ok("GET", f"/v1/reservations/{coming['id']}")["state"] == "placed"
    assert set(plane.store.booked_devices(node_id)) == booked
    agents.report_inventory(plane.store, node_id, session, document.NodeInventory.convert(found))
    back = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    assert (back["conditions"], back["schedulable"]) == ([], True)
    assert plane.acme.ok("GET", f"/v1/reservations/{running['id']}")["degraded"] is None
