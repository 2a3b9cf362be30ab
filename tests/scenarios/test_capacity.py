"""Capacity adds up, for the owner and for a tenant, at every step of a reservation's life."""

from typing import Any

from given import Client, Plane


def rows(plane: Plane, client: Client, pool_id: str) -> dict[str, Any]:
    position = plane.settle()
    answer = client.ok("GET", f"/v1/capacity?poolId={pool_id}&waitFor={position}")
    found = {row["resource"]: row for row in answer["items"]}
    for row in found.values():
        counts = [value for value in row.values() if isinstance(value, int)]
        assert min(counts) >= 0, row
        if "total" in row:
            assert row["total"] == row["allocatable"] + row["unschedulable"], row
            assert row["allocatable"] == row["allocated"] + row["reserved"] + row["available"], row
    return found


def gpu(plane: Plane, client: Client, pool_id: str) -> tuple[int, ...]:
    row = rows(plane, client, pool_id)["gpu"]
    owner = (row["total"], row["unschedulable"], row["unschedulableAllocated"]) if "total" in row else ()
    return (*owner, row["allocated"], row["reserved"], row["available"])


def test_it_adds_up_through_a_whole_life(plane: Plane) -> None:
    pool_id, (first, second) = plane.fleet(nodes=2, gpus=4, quota=6)
    plane.offer(pool_id, "globex", gpu=100)
    assert gpu(plane, plane.root, pool_id) == (8, 0, 0, 0, 0, 8)
    assert gpu(plane, plane.acme, pool_id) == (0, 0, 6)
    assert gpu(plane, plane.globex, pool_id) == (0, 0, 8), "free limits what the quota would allow"
    later = plane.store.now() + 3_600_000
    ahead = plane.acme.reserve(pool_id, startsAt=later, devices=[{"class": "gpu", "count": 2}]).json()
    assert gpu(plane, plane.root, pool_id) == (8, 0, 0, 0, 0, 8), "another hour's booking is not today's"
    at = plane.root.ok("GET", f"/v1/capacity?poolId={pool_id}&at={later}")["items"][0]
    assert (at["at"], at["reserved"], at["available"]) == (later, 2, 6)
    made = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 3}], durationSeconds=60).json()
    plane.activate(plane.acme, made["id"])
    assert gpu(plane, plane.root, pool_id) == (8, 0, 0, 3, 0, 5)
    assert gpu(plane, plane.acme, pool_id) == (3, 0, 3)
    assert gpu(plane, plane.globex, pool_id) == (0, 0, 5), "another's use shows only in what is free"
    node_id = made["allocations"][0]["nodeId"]
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    assert gpu(plane, plane.root, pool_id) == (8, 4, 3, 0, 0, 4)
    assert gpu(plane, plane.acme, pool_id) == (3, 0, 3)
    plane.root.ok("POST", f"/v1/nodes/{node_id}/uncordon", {})
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    assert gpu(plane, plane.root, pool_id) == (8, 0, 0, 3, 0, 5), "in use until torn down"
    plane.report(node_id)
    assert gpu(plane, plane.root, pool_id) == (8, 0, 0, 0, 0, 8)
    plane.acme.ok("POST", f"/v1/reservations/{ahead['id']}/cancel", {})
    plane.root.ok("POST", f"/v1/nodes/{first}/retire", {})
    assert gpu(plane, plane.root, pool_id) == (4, 0, 0, 0, 0, 4)
    assert second


def test_scalars_are_counted_with_what_is_bound_and_what_is_placed(plane: Plane) -> None:
    pool_id, (_node_id,) = plane.fleet()
    plane.root.ok("PUT", f"/v1/pools/{pool_id}/offers/acme", {"quota": {"gpu": 8, "vcpu": 64}})
    start = plane.store.now() + 3_600_000
    made = plane.acme.reserve(pool_id, scalars={"vcpu": 16}, startsAt=start).json()
    assert made["allocations"][0]["scalars"] == {"vcpu": 16}
    at = {r["resource"]: r for r in plane.root.ok("GET", f"/v1/capacity?poolId={pool_id}&at={start}")["items"]}
    assert (at["vcpu"]["total"], at["vcpu"]["allocated"], at["vcpu"]["reserved"]) == (96, 0, 16)
    assert at["vcpu"]["available"] == 80
    now = plane.acme.reserve(pool_id, scalars={"vcpu": 16}, durationSeconds=60).json()
    plane.activate(plane.acme, now["id"])
    assert rows(plane, plane.root, pool_id)["vcpu"]["allocated"] == 16


def test_a_tenant_sees_rows_of_what_it_is_offered_and_an_owner_what_a_new_pool_sells(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    assert set(rows(plane, plane.acme, pool_id)) == {"gpu"}
    assert "memoryMiB" in rows(plane, plane.root, pool_id)
    empty = plane.pool(plane.site("south"), "empty")
    assert gpu(plane, plane.root, empty) == (0, 0, 0, 0, 0, 0)
    foreign = plane.acme.get(f"/v1/capacity?poolId={empty}")
    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (404, "poolId")


def test_an_instant_in_the_past_is_refused_for_no_history_is_kept(plane: Plane) -> None:
    pool_id = plane.pool(plane.site())
    now = plane.store.now()
    plane.root.ok("GET", f"/v1/capacity?poolId={pool_id}&at={now - 1_000}")
    refused = plane.root.get(f"/v1/capacity?at={now - 6_000}")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "at")


def test_bookings_are_shown_to_the_pools_owner_whole_and_to_a_tenant_its_own(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.offer(pool_id, "globex", gpu=8)
    plane.acme.reserve(pool_id, labels={"secret": "job"})
    plane.globex.reserve(pool_id)
    plane.settle()
    seen = {
        name: sorted(row["tenantId"] for row in client.ok("GET", "/v1/bookings")["items"])
        for name, client in {"root": plane.root, "acme": plane.acme, "globex": plane.globex}.items()
    }
    assert seen == {"root": ["acme", "globex"], "acme": ["acme"], "globex": ["globex"]}
    assert "secret" not in plane.root.get("/v1/bookings").text
    assert plane.acme.get("/v1/devices").json()["items"] == []
