"""Allocations as lists show them: to the pool's owner all on its nodes, to a tenant its own."""

from typing import Any

from given import Client, Plane

HOUR = 3_600_000


def listed(plane: Plane, client: Client, query: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.ok("GET", f"/v1/allocations?waitFor={plane.settle()}{query}")["items"]
    return rows


def test_an_allocation_goes_through_the_states_of_its_life(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    plane.offer(pool_id, quota={"gpu": 8, "vcpu": 64})
    start = plane.store.now() + HOUR
    devices = [{"class": "gpu", "count": 2}]
    ahead = plane.acme.reserve(pool_id, startsAt=start, devices=devices, scalars={"vcpu": 4}).json()
    (placed,) = listed(plane, plane.acme)
    (told,) = ahead["allocations"]
    assert placed == {
        "id": told["id"], "reservationId": ahead["id"], "tenantId": "acme", "poolId": pool_id, "nodeId": node_id,
        "nodeName": "n0", "atoms": sorted(told["atoms"]), "scalars": {"vcpu": 4}, "state": "placed",
        "from": start, "until": start + HOUR,
    }  # fmt: skip
    made = plane.acme.reserve(pool_id, durationSeconds=600).json()["id"]
    plane.until(plane.acme, made, "binding")
    assert [row["state"] for row in listed(plane, plane.acme, f"&reservationId={made}")] == ["binding"]
    plane.activate(plane.acme, made)
    assert [row["reservationId"] for row in listed(plane, plane.acme, "&state=active")] == [made]
    plane.acme.ok("POST", f"/v1/reservations/{made}/release", {})
    (releasing,) = listed(plane, plane.acme, "&state=releasing")
    assert releasing["reservationId"] == made
    assert releasing in listed(plane, plane.acme, "&released=false"), "its devices are not proved free"
    plane.report(node_id)
    (released,) = listed(plane, plane.acme, "&state=released")
    assert released["until"] <= plane.store.now()
    assert [row["reservationId"] for row in listed(plane, plane.acme, "&released=true")] == [made]
    assert [row["reservationId"] for row in listed(plane, plane.acme, "&released=false")] == [ahead["id"]]
    plane.acme.ok("POST", f"/v1/reservations/{ahead['id']}/cancel", {})
    assert [row["reservationId"] for row in listed(plane, plane.acme)] == [made], "what never began leaves none"


def test_a_gang_has_one_on_each_node_and_each_is_found_by_its_node(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=2)
    plane.acme.reserve(pool_id, nodes=2)
    assert sorted(row["nodeId"] for row in listed(plane, plane.acme, f"&poolId={pool_id}")) == sorted(nodes)
    assert [row["nodeId"] for row in listed(plane, plane.root, f"&nodeId={nodes[0]}")] == [nodes[0]]


def test_the_owner_sees_all_on_its_nodes_and_a_tenant_its_own(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.offer(pool_id, "globex", gpu=8)
    plane.acme.reserve(pool_id, labels={"secret": "job"})
    plane.globex.reserve(pool_id)
    seen = {
        name: sorted(row["tenantId"] for row in listed(plane, client))
        for name, client in {"root": plane.root, "acme": plane.acme, "globex": plane.globex}.items()
    }
    assert seen == {"root": ["acme", "globex"], "acme": ["acme"], "globex": ["globex"]}
    assert "secret" not in plane.root.get("/v1/allocations").text
    assert plane.acme.get("/v1/allocations?scope=fleet").status_code == 403
    assert len(listed(plane, plane.auditor, "&scope=fleet")) == 2


def test_a_plain_user_sees_what_its_own_reservations_have_and_nothing_of_its_tenants_others(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.acme.reserve(pool_id)
    own = plane.acme_user.reserve(pool_id).json()["id"]
    plane.settle()
    for path in ("/v1/allocations", "/v1/bookings"):
        assert [row["reservationId"] for row in plane.acme_user.ok("GET", path)["items"]] == [own]
        assert len(plane.acme.ok("GET", path)["items"]) == 2, "its administrator sees all of the tenant's"


def test_pages_go_on_where_the_last_ended(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    for _ in range(3):
        plane.acme.reserve(pool_id)
    plane.settle()
    seen, cursor = [], ""
    while True:
        page = plane.acme.ok("GET", f"/v1/allocations?limit=1{cursor}")
        seen += [row["id"] for row in page["items"]]
        if "nextCursor" not in page:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert len(set(seen)) == len(seen) == 3
