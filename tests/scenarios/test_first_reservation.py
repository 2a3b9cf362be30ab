"""The main job, told over HTTP: from an inventory to a reservation, and back."""

from given import Plane


def test_a_reservation_is_placed_bound_activated_and_released(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    answer = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 8}])
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["state"] == "placed"
    assert len(made["allocations"][0]["atoms"]) == 8
    plane.until(plane.acme, made["id"], "binding")
    plane.report(node_id)
    plane.until(plane.acme, made["id"], "active")
    released = plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    assert released["state"] == "releasing"
    plane.report(node_id)
    assert plane.until(plane.acme, made["id"], "released")["stateReason"] == "Released"
