"""A pool's owner ends a reservation of its pool, whosever it is (domain.md §10, Visibility)."""

from typing import Any

import pytest

from given import Plane


def evict(plane: Plane, pool_id: str, reservation_id: str, reason: str = "the rack burns") -> Any:
    return plane.root.post(f"/v1/pools/{pool_id}/evict", {"reservationId": reservation_id, "reason": reason})


def test_what_is_bound_is_released_and_its_tenant_is_told_why(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.activate(plane.acme, plane.acme.reserve(pool_id, labels={"job": "secret"}).json()["id"])
    answer = evict(plane, pool_id, made["id"])
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["reservationId"], shown["tenantId"], shown["state"]) == (made["id"], "acme", "releasing")
    assert sorted(shown) == [
        "endsAt", "poolId", "reservationId", "startsAt", "state", "stateReason", "tenantId", "version",
    ]  # fmt: skip
    plane.report(node_id)
    ended = plane.until(plane.acme, made["id"], "released")
    assert (ended["stateReason"], ended["stateDetail"]) == ("Evicted", "the rack burns")
    again = evict(plane, pool_id, made["id"])
    assert (again.status_code, again.json()["state"]) == (200, "released")


@pytest.mark.parametrize("state", ["pending", "placed"])
def test_what_waits_or_has_a_place_fails_and_holds_nothing(plane: Plane, state: str) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    gpus = 2 if state == "pending" else 1
    later = plane.store.now() + 10**7
    made = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": gpus}], startsAt=later).json()
    assert made["state"] == state
    assert evict(plane, pool_id, made["id"]).json()["state"] == "failed"
    for table in ("device_bookings", "quota_claims", "pool_queue"):
        assert plane.rows(f"SELECT 1 FROM {table}") == []
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["stateReason"] == "Evicted"


def test_it_reaches_no_reservation_of_another_pool_and_none_that_was_never_admitted(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=1)
    other = plane.pool(plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"], "other")
    made = plane.acme.reserve(pool_id).json()
    refused = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}]).json()
    for pool, reservation_id in (
        (other, made["id"]),
        (pool_id, refused["reservationId"]),
        (pool_id, "rsv_" + "0" * 52),
    ):
        answer = evict(plane, pool, reservation_id)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), answer.text
        assert "reservationId" in answer.text
    assert evict(plane, pool_id, "node_1").status_code == 422
    assert (
        plane.acme.post(f"/v1/pools/{pool_id}/evict", {"reservationId": made["id"], "reason": "x"}).status_code == 403
    )
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] in ("placed", "binding")
