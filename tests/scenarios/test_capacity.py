"""Capacity adds up, for the owner and for a tenant, at every step of a reservation's life."""

from typing import Any

from given import Client, Plane

HOUR = 3_600_000


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
    assert [row["tenantId"] for row in plane.root.ok("GET", "/v1/bookings?tenantId=globex")["items"]] == ["globex"]
    assert plane.acme.ok("GET", "/v1/bookings?tenantId=globex")["items"] == []
    assert "secret" not in plane.root.get("/v1/bookings").text
    assert plane.acme.get("/v1/devices").json()["items"] == []


def over_time(client: Client, pool_id: str, **query: int) -> list[tuple[int, ...]]:
    """Instant, allocated, reserved and available of each point."""
    rest = "".join(f"&{name}={value}" for name, value in query.items())
    rows = client.ok("GET", f"/v1/capacity/timeline?poolId={pool_id}{rest}")["items"]
    return [(r["at"], r["allocated"], r["reserved"], r["available"]) for r in rows if r["resource"] == "gpu"]


def test_over_time_each_point_is_what_is_shown_of_its_instant(plane: Plane) -> None:
    pool_id, (first, _) = plane.fleet(nodes=2, gpus=4, quota=6)
    plane.offer(pool_id, "globex", gpu=100)
    now = plane.store.now()
    start = now + HOUR
    for n, (client, count) in enumerate(((plane.acme, 2), (plane.globex, 3), (plane.acme, 1))):
        devices = [{"class": "gpu", "count": count}]
        client.reserve(pool_id, startsAt=start + n * HOUR // 2, devices=devices, scalars={}, durationSeconds=2700)
    soon = {"on": True, "reason": "bios", "from": start + 3 * HOUR, "until": start + 4 * HOUR}
    plane.root.ok("POST", f"/v1/nodes/{first}/maintenance", soon)
    plane.activate(plane.acme, plane.acme.reserve(pool_id, durationSeconds=5400).json()["id"])
    plane.settle()
    window = {"from": now + 10_000, "until": now + 6 * HOUR, "step": 900}
    for client in (plane.root, plane.acme, plane.globex):
        points = over_time(client, pool_id, **window)
        assert len(points) == 24
        for at, *counts in points:
            one = client.ok("GET", f"/v1/capacity?poolId={pool_id}&at={at}")["items"]
            assert [(r["allocated"], r["reserved"], r["available"]) for r in one if r["resource"] == "gpu"] == [
                tuple(counts)
            ]
    assert len({point[1:] for point in over_time(plane.root, pool_id, **window)}) > 4


def test_an_interval_ends_before_the_point_that_it_touches(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    start = plane.store.now() + HOUR
    plane.acme.reserve(pool_id, startsAt=start, durationSeconds=600)
    plane.settle()
    points = over_time(plane.root, pool_id, **{"from": start - 600_000, "until": start + 1_200_001, "step": 600})
    assert points == [
        (start - 600_000, 0, 0, 2),
        (start, 0, 1, 1),
        (start + 600_000, 0, 0, 2),
        (start + 1_200_000, 0, 0, 2),
    ]


def test_a_timeline_is_bounded_and_says_by_field_what_would_be_right(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    now = plane.store.now()
    asked = {
        f"from={now - 10_000}": "from",
        f"from={now}&until={now}": "until",
        f"until={now - 1}": "until",
        f"from={now}&until={now + 1_000_001}&step=1": "step",
        f"until={2**53}": "until",
        "step=0": "step",
        "from=x": "from",
        "projectId=prj_01arz3ndektsv4rrffq69g5fav": "projectId",
    }
    for query, field in asked.items():
        refused = plane.acme.get(f"/v1/capacity/timeline?poolId={pool_id}&{query}")
        assert refused.status_code in (404, 422), refused.text
        assert refused.json()["errors"][0]["field"] == field, refused.text
    assert len(over_time(plane.acme, pool_id, **{"from": now, "until": now + 1_000_000, "step": 1})) == 1000
    assert len(over_time(plane.acme, pool_id)) == 24, "a day in hours if nothing else is said"
    assert plane.acme.get("/v1/capacity/timeline").json()["errors"][0]["field"] == "poolId"
    assert plane.globex.get(f"/v1/capacity/timeline?poolId={pool_id}").status_code == 404
