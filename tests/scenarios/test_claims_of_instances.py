"""What instances run on: reservations with binding instance, of scalars alone, without an end (domain.md §5, §6)."""

import time
from typing import Any

import pytest

from given import DEADLINE_S, Client, Plane, inventory
from silence import Watched

HOUR = 3_600_000
DAY = 24 * HOUR
NONE = [{"class": "gpu", "count": 0}]
GPU = {"class": "gpu", "count": 1}
ALL_OF_IT = {"vcpu": 96, "memoryMiB": 1024}
"""All vCPUs of a node."""


def claim(plane: Plane, pool_id: str, **fields: Any) -> Any:
    """Two vCPUs and 4 GiB, if nothing else is said."""
    scalars = {"vcpu": 2, "memoryMiB": 4096}
    return plane.acme.reserve(pool_id, **{"binding": "instance", "devices": NONE, "scalars": scalars} | fields)


def bare(plane: Plane, nodes: int = 1) -> tuple[str, list[str]]:
    """Hosts without any device."""
    site_id = plane.site("vps")
    pool_id = plane.pool(site_id, "vps", **{"class": "vps-host"})
    plane.offer(pool_id, quota={"vcpu": 1000, "memoryMiB": 1_000_000})
    return pool_id, [
        plane.node(site_id, pool_id, f"v{n}", found=inventory(gpus=0, index=9000 + n)) for n in range(nodes)
    ]


def listing(plane: Plane, client: Client, path: str) -> Any:
    """A list once it shows everything that was done."""
    plane.settle()
    return client.ok("GET", path)["items"]


def capacity(plane: Plane, pool_id: str, resource: str = "vcpu", at: int | None = None) -> tuple[int, int, int]:
    """Allocated, reserved, available."""
    when = "" if at is None else f"&at={at}"
    rows = listing(plane, plane.root, f"/v1/capacity?poolId={pool_id}{when}")
    (row,) = [row for row in rows if row["resource"] == resource]
    return row["allocated"], row["reserved"], row["available"]


def on(plane: Plane, reservation_id: str, node_id: str) -> Any:
    """The reservation once the node has it, and has prepared it."""
    deadline = time.monotonic() + DEADLINE_S
    while [a.node_id for a in plane.store.load(reservation_id).state.allocations] != [node_id]:
        assert time.monotonic() < deadline
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    plane.report(node_id)
    return plane.acme.ok("GET", f"/v1/reservations/{reservation_id}")


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"binding": "hold"}, "binding", "binding instance"),
        ({"nodes": 2}, "nodes", "one node"),
        ({"scalars": {}}, "devices[0].count", "at least one device, or for scalars"),
        ({"binding": "node"}, "binding", "binding instance"),
    ],
)
def test_what_an_instance_runs_on_is_one_node(plane: Plane, fields: dict[str, Any], field: str, says: str) -> None:
    pool_id, _ = plane.hosts()
    answer = claim(plane, pool_id, **fields)
    assert answer.status_code == 422
    (wrong,) = answer.json()["errors"]
    assert wrong["field"] == field
    assert says in wrong["message"]


def test_other_pools_hold_devices_and_run_no_instance(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    for fields, field in (({}, "binding"), ({"binding": "hold"}, "devices[0].count")):
        answer = claim(plane, pool_id, **fields)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_scalars_alone_are_booked_used_and_proved_free_as_devices_are(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    made = claim(plane, pool_id).json()
    assert made["state"] in ("placed", "binding")
    assert (made["instanceId"], made["durationSeconds"]) == (None, 3600)
    now = plane.activate(plane.acme, made["id"])
    (allocation,) = now["allocations"]
    assert (allocation["atoms"], allocation["scalars"]) == ([], {"vcpu": 2, "memoryMiB": 4096})
    (booked,) = listing(plane, plane.acme, "/v1/bookings")
    assert (booked["deviceId"], booked["allocationId"]) == (None, allocation["id"])
    assert booked["until"] == now["endsAt"]
    (listed,) = listing(plane, plane.acme, "/v1/allocations")
    assert (listed["atoms"], listed["state"], listed["scalars"]["vcpu"]) == ([], "active", 2)
    assert capacity(plane, pool_id) == (2, 0, 94)
    assert capacity(plane, pool_id, "gpu") == (0, 0, 8)
    used = plane.acme.ok("GET", "/v1/quotas/tenant/acme")["resources"]
    assert {one["resource"]: one["used"] for one in used} == {"vcpu": 2, "memoryMiB": 4096}
    taken = plane.root.post(f"/v1/nodes/{node_id}/retire", {})
    assert (taken.status_code, taken.json()["code"]) == (409, "CONFLICT"), "the node carries it"

    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    assert capacity(plane, pool_id) == (2, 0, 94), "until the node has torn it down"
    (ending,) = listing(plane, plane.acme, "/v1/allocations")
    assert (ending["state"], ending.get("until")) == ("releasing", None)
    plane.report(node_id)
    plane.until(plane.acme, made["id"], "released")
    assert capacity(plane, pool_id) == (0, 0, 96)
    plane.settle()
    rows = listing(plane, plane.acme, "/v1/usage?groupBy=pool")
    ran = {row["resource"]: row for row in rows}
    assert set(ran) == {"vcpu", "memoryMiB"}
    assert ran["vcpu"]["gpuHours"] == 0
    assert ran["memoryMiB"]["deviceHours"] == pytest.approx(2048 * ran["vcpu"]["deviceHours"])


def test_they_wait_for_room_and_are_told_until_when_it_is_taken(plane: Plane) -> None:
    pool_id, (node_id,) = bare(plane)
    first = claim(plane, pool_id, scalars=ALL_OF_IT, key="first").json()
    plane.activate(plane.acme, first["id"])
    body = {"poolId": pool_id, "devices": NONE, "durationSeconds": 600, "binding": "instance", "scalars": {"vcpu": 1}}
    ahead = plane.acme.ok("POST", "/v1/reservations/preview", body)
    assert (ahead["state"], ahead["stateReason"]) == ("pending", "NoCapacity")
    end = plane.acme.ok("GET", f"/v1/reservations/{first['id']}")["endsAt"]
    assert ahead["earliestStart"] == end
    (said, taken) = ahead["obstacles"]
    assert said["message"] == "no node fits: 1 node with too little vcpu or memory"
    assert (taken["reservationId"], taken["until"], taken["nodes"]) == (first["id"], end, 1)
    second = claim(plane, pool_id, scalars={"vcpu": 1}, key="second").json()
    assert (second["state"], second["earliestStart"]) == ("pending", end)
    plane.acme.ok("POST", f"/v1/reservations/{first['id']}/release", {})
    plane.report(node_id)
    plane.until(plane.acme, second["id"], "binding", "active")


def test_maintenance_of_a_node_without_devices_is_nobodys(plane: Plane) -> None:
    pool_id, nodes = bare(plane, nodes=2)
    now = plane.store.now()
    plan = {"on": True, "reason": "fans", "from": now + HOUR, "until": now + 2 * HOUR}
    plane.root.ok("POST", f"/v1/nodes/{nodes[0]}/maintenance", plan)
    assert capacity(plane, pool_id, at=now + HOUR) == (0, 0, 96)
    assert capacity(plane, pool_id, at=now + 2 * HOUR) == (0, 0, 192)
    fields = {"scalars": {"vcpu": 90}, "startsAt": now + HOUR}
    first = claim(plane, pool_id, **fields).json()
    assert (first["state"], first["allocations"][0]["nodeId"]) == ("placed", nodes[1])
    assert claim(plane, pool_id, **fields).json()["state"] == "pending"
    refused = plane.root.post(f"/v1/nodes/{nodes[1]}/maintenance", plan)
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")


def test_what_an_instance_brought_has_no_end_and_takes_no_verb(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    made = plane.instance(pool_id, flavorId=plane.flavor(gpus=GPU))
    path = f"/v1/reservations/{made['reservationId']}"
    shown = plane.activate(plane.acme, made["reservationId"])
    assert (shown["endsAt"], shown["durationSeconds"], shown["binding"]) == (None, None, "instance")
    assert shown["instanceId"] == made["id"]
    for verb, body in (("cancel", {}), ("release", {}), ("renew", {}), ("extend", {"endsAt": plane.store.now() + DAY})):
        no = plane.acme.post(f"{path}/{verb}", body, Idempotency_Key="k")
        assert (no.status_code, no.json()["code"], no.json()["instanceId"]) == (409, "CONFLICT", made["id"])
        assert "delete the instance" in no.json()["detail"]
    assert plane.acme.ok("GET", path)["state"] == "active"
    assert [row.get("until") for row in listing(plane, plane.acme, "/v1/bookings")] == [None]
    assert [row.get("until") for row in listing(plane, plane.acme, "/v1/allocations")] == [None]
    at = plane.store.now() + 365 * DAY
    (far,) = [r for r in listing(plane, plane.root, f"/v1/capacity?poolId={pool_id}&at={at}") if r["resource"] == "gpu"]
    assert (far["allocated"], far["available"]) == (1, 7)
    evicted = plane.root.ok("POST", f"/v1/pools/{pool_id}/evict", {"reservationId": shown["id"], "reason": "sold"})
    assert evicted["state"] == "releasing"
    plane.report(node_id)
    plane.until(plane.acme, shown["id"], "released")


def test_who_waits_without_an_end_is_placed_once_there_is_room(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts(gpus=1)
    flavor_id = plane.flavor(gpus=GPU)
    first = plane.instance(pool_id, flavorId=flavor_id)
    plane.activate(plane.acme, first["reservationId"])
    second = plane.instance(pool_id, flavorId=flavor_id)
    waits = plane.acme.ok("GET", f"/v1/reservations/{second['reservationId']}")
    assert (waits["state"], waits["endsAt"], waits["earliestStart"]) == ("pending", None, None), "nothing ever ends"
    plane.root.ok("POST", f"/v1/pools/{pool_id}/evict", {"reservationId": first["reservationId"], "reason": "sold"})
    plane.report(node_id)
    shown = plane.activate(plane.acme, second["reservationId"])
    assert shown["endsAt"] is None


def test_without_an_end_it_takes_what_is_left_of_a_budgets_period(plane: Plane) -> None:
    pool_id, _ = plane.hosts(gpus=2)
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": "enforce"}}})
    flavor_id, image_id = plane.flavor(gpus=GPU), plane.image()
    budget = "/v1/budgets/tenant/acme"
    plane.root.ok("PUT", budget, {"gpuHours": 1e6})
    no = plane.acme.launch(pool_id, flavor_id, image_id, "one")
    assert (no.status_code, no.json()["code"]) == (409, "BUDGET_EXCEEDED")
    assert "without an end, which only a budget with `until` can hold" in no.json()["detail"]
    cpu = plane.acme.launch(pool_id, plane.flavor(), image_id, "cpu")
    assert cpu.status_code == 201, "it takes nothing of a budget of GPUs"

    midnight = (plane.store.now() // DAY + 1) * DAY
    plane.root.ok("PUT", budget, {"gpuHours": 100, "until": midnight + DAY})
    placed = [plane.acme.launch(pool_id, flavor_id, image_id, f"gpu {n}") for n in range(3)]
    assert [answer.status_code for answer in placed][:2] == [201, 201]
    spends = plane.acme.ok("GET", budget)
    most = (midnight + DAY - plane.store.now()) / HOUR
    waits = placed[2].status_code == 201
    assert spends["committedGpuHours"] == pytest.approx((3 if waits else 2) * most, abs=0.1)
    assert waits == (3 * most <= 100), "one that waits takes no more of the period than it could use"


def test_it_is_placed_again_when_its_node_is_lost(plane: Plane) -> None:
    watched = Watched(plane)
    pool_id, nodes = plane.hosts(nodes=2, gpus=1)
    made = plane.instance(pool_id, flavorId=plane.flavor(gpus=GPU), onNodeLoss="replace")
    before = plane.activate(plane.acme, made["reservationId"])
    (here,) = [one["nodeId"] for one in before["allocations"]]
    (other,) = set(nodes) - {here}
    watched.silence(here)
    watched.wait(302)
    moved = on(plane, made["reservationId"], other)
    assert (moved["state"], moved["degraded"], moved["endsAt"]) == ("active", None, None)
    assert [one["nodeId"] for one in moved["allocations"]] == [other]
    held = plane.rows("SELECT upper_inf(during), ended, freed FROM device_bookings WHERE node_id = %s", here)
    assert held == [(True, True, False)], "until the lost node proves it free"


@pytest.mark.parametrize("proved", [True, False])
def test_it_may_end_while_it_has_no_place(plane: Plane, proved: bool) -> None:
    watched = Watched(plane)
    pool_id, (node_id,) = plane.hosts(gpus=1)
    made = plane.instance(pool_id, onNodeLoss="replace")
    plane.activate(plane.acme, made["reservationId"])
    watched.silence(node_id)
    watched.wait(302)
    state = plane.store.load(made["reservationId"]).state
    assert (state.status, state.allocations, state.degraded) == ("active", (), "NodeLost")
    if proved:
        plane.root.ok("POST", f"/v1/nodes/{node_id}/fence", {"reason": "pulled the plug"})
    plane.acme.ok("POST", f"/v1/instances/{made['id']}/delete", {})
    if not proved:
        assert plane.store.load(made["reservationId"]).state.status == "releasing"
        plane.root.ok("POST", f"/v1/nodes/{node_id}/fence", {"reason": "pulled the plug"})
    ended = plane.until(plane.acme, made["reservationId"], "released")
    assert ended["stateReason"] == "InstanceDeleted"
    assert plane.rows("SELECT 1 FROM device_bookings WHERE NOT freed") == []
