"""Reserving, as a tenant sees it: placed, bound, active, ended; never twice the same device."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from given import SEVEN, Plane, partitioned

HOUR = 3_600_000


def book(plane: Plane, pool_id: str, start: int, seconds: int, **fields: Any) -> Any:
    return plane.acme.reserve(pool_id, startsAt=start, durationSeconds=seconds, maxPendingSeconds=0, **fields)


def atoms(answer: Any) -> list[str]:
    return sorted(atom for allocation in answer["allocations"] for atom in allocation["atoms"])


def test_bookings_that_touch_are_both_kept_and_overlap_by_a_millisecond_is_refused(plane: Plane) -> None:
    """O01."""
    pool_id, _ = plane.fleet(gpus=1)
    ten = plane.store.now() + 100 * HOUR
    assert book(plane, pool_id, ten, 7200).status_code == 201
    assert book(plane, pool_id, ten + 2 * HOUR, 3600).status_code == 201
    assert book(plane, pool_id, ten - HOUR, 3600).status_code == 201
    over = book(plane, pool_id, ten + 2 * HOUR - 1, 60)
    assert (over.status_code, over.json()["code"]) == (409, "DOUBLE_BOOKED")
    assert plane.acme.ok("GET", f"/v1/reservations/{over.json()['reservationId']}")["state"] == "expired"
    assert book(plane, pool_id, ten + 3 * HOUR - 1, 60).status_code == 409
    during = [(b["from"], b["until"]) for b in plane.acme.ok("GET", "/v1/bookings")["items"]]
    assert during == [(ten - HOUR, ten), (ten, ten + 2 * HOUR), (ten + 2 * HOUR, ten + 3 * HOUR)]


def test_of_twenty_rivals_for_one_gpu_exactly_one_is_placed(plane: Plane) -> None:
    """O08: and the losers' quota is given back."""
    pool_id, _ = plane.fleet(gpus=1, quota=100)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: plane.acme.reserve(pool_id, f"rival-{n}", maxPendingSeconds=0), range(20)))
    assert sorted(a.status_code for a in answers) == [201] + [409] * 19
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"DOUBLE_BOOKED"}
    assert len(plane.rows("SELECT 1 FROM device_bookings")) == 1
    assert plane.rows("SELECT DISTINCT sum(amount)::int FROM quota_claims GROUP BY scope") == [(1,)]


def test_a_start_now_is_one_append_and_becomes_active(plane: Plane) -> None:
    """O09."""
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    position = {r.position for r in plane.store.history(made["id"])[:3]}
    assert max(position) - min(position) == 2
    assert [type(e).__name__ for e in plane.events(made["id"])[:3]] == ["Drafted", "Admitted", "Placed"]
    plane.activate(plane.acme, made["id"])
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}/spec")["allocations"][0]["reservationId"] == made["id"]


def test_released_by_the_timer_and_by_the_user_it_is_released_once(plane: Plane) -> None:
    """O12."""
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, made["id"])
    path = f"/v1/reservations/{made['id']}/release"
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: plane.acme.post(path), range(8)))
    assert {(a.status_code, a.json()["state"]) for a in answers} == {(200, "releasing")}
    plane.report(node_id)
    assert plane.acme.ok("POST", path, {})["state"] == "released"
    names = [type(event).__name__ for event in plane.events(made["id"])]
    assert (names.count("ReleaseStarted"), names.count("Released")) == (1, 1)
    assert plane.rows("SELECT 1 FROM quota_claims") == []


def test_it_starts_when_it_is_due_and_ends_by_time(plane: Plane) -> None:
    pool_id, (_node_id,) = plane.fleet()
    start = plane.store.now() + 400
    made = plane.acme.reserve(pool_id, startsAt=start, durationSeconds=60).json()
    assert (made["state"], made["startsAt"], made["endsAt"]) == ("placed", start, start + 60_000)
    plane.activate(plane.acme, made["id"])
    begun = next(e for e in plane.events(made["id"]) if type(e).__name__ == "BindingStarted")
    assert begun.at >= start
    late = plane.store.now() - 4_000
    now = plane.acme.reserve(pool_id, startsAt=late).json()
    assert now["startsAt"] > late, "up to five seconds late means now"


@pytest.mark.parametrize("verb", ["cancel", "release"])
def test_a_repeated_verb_answers_the_state_and_another_names_the_legal_ones(plane: Plane, verb: str) -> None:
    pool_id, (_node_id,) = plane.fleet()
    later = plane.store.now() + HOUR
    made = plane.acme.reserve(pool_id, startsAt=later).json()
    early = plane.acme.post(f"/v1/reservations/{made['id']}/release")
    assert (early.status_code, early.json()["code"]) == (409, "ILLEGAL_TRANSITION")
    assert (early.json()["state"], early.json()["allowed"]) == ("placed", ["cancel", "extend"])
    if verb == "release":
        made = plane.acme.reserve(pool_id).json()
        plane.activate(plane.acme, made["id"])
        refused = plane.acme.post(f"/v1/reservations/{made['id']}/cancel").json()
        assert (refused["state"], refused["allowed"]) == ("active", ["release", "extend", "renew"])
    path = f"/v1/reservations/{made['id']}/{verb}"
    first = plane.acme.ok("POST", path, {})
    assert plane.acme.ok("POST", path, {}) == first
    other = plane.acme.post(f"/v1/reservations/{made['id']}/{'release' if verb == 'cancel' else 'cancel'}")
    assert (other.status_code, other.json()["allowed"]) == (409, [])


def test_cancelled_while_binding_its_nodes_undo_it_and_the_device_is_free(plane: Plane) -> None:
    """O11, and cancel in every state that takes it."""
    pool_id, (node_id,) = plane.fleet(gpus=1, quota=9)
    bound = plane.acme.reserve(pool_id).json()
    plane.until(plane.acme, bound["id"], "binding")
    waiting = plane.acme.reserve(pool_id).json()
    assert (waiting["state"], waiting["stateReason"]) == ("pending", "NoCapacity")
    assert plane.acme.ok("POST", f"/v1/reservations/{waiting['id']}/cancel", {})["state"] == "cancelled"
    assert plane.acme.ok("POST", f"/v1/reservations/{bound['id']}/cancel", {})["state"] == "releasing"
    plane.report(node_id)
    ended = plane.until(plane.acme, bound["id"], "released")
    assert ended["stateReason"] == "Cancelled"
    assert plane.acme.reserve(pool_id, maxPendingSeconds=0).status_code == 201


def test_a_gang_is_placed_whole_or_not_at_all(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=2, gpus=4, quota=99)
    four = [{"class": "gpu", "count": 4}]
    assert plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 1}]).status_code == 201
    refused = plane.acme.reserve(pool_id, devices=four, nodes=2, maxPendingSeconds=0)
    assert refused.json()["code"] == "DOUBLE_BOOKED"
    assert len(plane.rows("SELECT 1 FROM device_bookings")) == 1
    three = [{"class": "gpu", "count": 3}]
    gang = plane.acme.reserve(pool_id, devices=three, nodes=2).json()
    assert sorted(a["nodeId"] for a in gang["allocations"]) == sorted(nodes)
    assert len(atoms(gang)) == 6
    plane.until(plane.acme, gang["id"], "binding")
    plane.report(nodes[0])
    assert plane.acme.ok("GET", f"/v1/reservations/{gang['id']}")["state"] == "binding"
    plane.report(nodes[1])
    plane.until(plane.acme, gang["id"], "active")


def test_slices_and_slots_are_reserved_as_devices_are(plane: Plane) -> None:
    site_id = plane.site()
    policy = {"migLayout": SEVEN}
    mig = plane.pool(site_id, "a100", gpuModel="A100", sharing="mig", policy=policy)
    slots = plane.pool(
        site_id, "l4", gpuModel="L4", gpuMemoryGb=24, sharing="timeslice", policy={"sharing": {"replicas": 4}}
    )
    for pool_id, resource, found in ((mig, "gpu.mig", partitioned(2, 9000)), (slots, "gpu.slot", None)):
        plane.root.ok("PUT", f"/v1/pools/{pool_id}/offers/acme", {"quota": {resource: 99}})
        node_id = plane.node(site_id, pool_id, resource.replace(".", "-"), 2, "L4", found)
        made = plane.acme.reserve(pool_id, devices=[{"class": resource, "count": 5}]).json()
        assert made["state"] == "placed", made
        assert made["gpuCount"] == 5
        assert len(set(atoms(made))) == 5
        assert all("/" in atom for atom in atoms(made)), "the whole GPU is not what is booked"
        wrong = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 1}])
        assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "devices[0].class")
        plane.activate(plane.acme, made["id"])
        whole = plane.root.ok("GET", f"/v1/devices?nodeId={node_id}&class=gpu")["items"]
        assert [d["bookable"] for d in whole] == [False, False]
    plane.settle()
    shown = {row["resource"]: row for row in plane.root.ok("GET", f"/v1/capacity?poolId={slots}")["items"]}
    assert (shown["gpu.slot"]["total"], shown["gpu.slot"]["available"]) == (8, 3)
    assert "gpu" not in shown, "the parent is not counted"


def test_a_selector_chooses_and_what_it_cannot_compile_is_refused(plane: Plane) -> None:
    pool_id, (_node_id,) = plane.fleet()
    ask = {"class": "gpu", "count": 1}
    fits = plane.acme.reserve(pool_id, devices=[ask | {"selector": "device.memoryGb >= 80"}]).json()
    assert fits["state"] == "placed"
    none = plane.acme.reserve(pool_id, devices=[ask | {"selector": "device.memoryGb > 500"}], maxPendingSeconds=0)
    assert none.json()["code"] == "DOUBLE_BOOKED"
    wrong = plane.acme.reserve(pool_id, devices=[ask | {"selector": "device.memoryGb >"}])
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "devices[0].selector")
