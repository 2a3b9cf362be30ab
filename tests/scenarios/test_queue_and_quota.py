"""Offers, quotas and the queue: who may have how much, and who goes first."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from adapters.postgres.leases import Lease
from commands.controllers import scheduler
from given import Plane

HOUR = 3_600_000


def state(plane: Plane, client: Any, made: Any) -> str:
    return str(client.ok("GET", f"/v1/reservations/{made['id']}")["state"])


def test_an_offer_makes_a_pool_exist_and_withdrawing_it_ends_that_at_once(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    node_id = plane.node(site_id, pool_id, gpus=1)
    path = f"/v1/pools/{pool_id}"
    assert plane.acme.get(path).status_code == 404
    assert plane.acme.reserve(pool_id).json()["errors"][0]["field"] == "poolId"
    offered = plane.offer(pool_id, gpu=4)
    assert plane.offer(pool_id, gpu=4)["version"] == offered["version"], "the same offer changes nothing"
    running = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, running["id"])
    waiting = plane.acme.reserve(pool_id).json()
    assert waiting["state"] == "pending"
    shown = plane.acme.ok("GET", path)
    assert (shown["name"], shown["policy"]["lostAfter"]) == ("h100", 300)
    plane.root.ok("DELETE", f"{path}/offers/acme")
    assert plane.acme.get(path).status_code == 404
    assert plane.acme.reserve(pool_id).status_code == 404
    plane.settle()
    assert plane.acme.ok("GET", "/v1/pools")["items"] == []
    assert plane.until(plane.acme, waiting["id"], "failed")["stateReason"] == "OfferWithdrawn"
    assert state(plane, plane.acme, running) == "active", "what runs, runs to its end"
    plane.acme.ok("POST", f"/v1/reservations/{running['id']}/release", {})
    plane.report(node_id)
    assert state(plane, plane.acme, running) == "released"


def test_an_offer_names_a_tenant_that_is_known_and_is_not_the_owner(plane: Plane) -> None:
    pool_id = plane.pool(plane.site())
    for tenant, status in (("nobody", 404), ("platform", 422), ("a%20b", 422)):
        answer = plane.root.call("PUT", f"/v1/pools/{pool_id}/offers/{tenant}", {"quota": {}})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (status, "tenantId")
    assert plane.root.call("DELETE", f"/v1/pools/{pool_id}/offers/acme").status_code == 404


def test_over_quota_it_is_denied_and_the_same_key_gets_the_same_no(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=2)
    three = [{"class": "gpu", "count": 3}]
    first = plane.acme.reserve(pool_id, "big", devices=three)
    no = first.json()
    assert (first.status_code, no["code"], no["resource"], no["limit"], no["peak"]) == (
        409,
        "QUOTA_EXCEEDED",
        "gpu",
        2,
        3,
    )
    assert state(plane, plane.acme, {"id": no["reservationId"]}) == "denied"
    plane.offer(pool_id, gpu=8)
    again = plane.acme.reserve(pool_id, "big", devices=three).json()
    assert {**again, "requestId": ""} == {**no, "requestId": ""}
    assert plane.acme.reserve(pool_id, "bigger", devices=three).status_code == 201
    vcpu = plane.acme.reserve(pool_id, scalars={"vcpu": 1})
    assert vcpu.json()["resource"] == "vcpu", "what an offer does not name it does not grant"
    free = plane.acme.reserve(pool_id, scalars={"vcpu": 0})
    assert free.status_code == 201


def test_of_five_rivals_for_a_quota_no_more_pass_than_it_holds(plane: Plane) -> None:
    """O16: used is never above the limit, at any position of the log."""
    pool_id, _ = plane.fleet(nodes=2, gpus=8, quota=8)
    assert plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 4}]).status_code == 201
    two = [{"class": "gpu", "count": 2}]
    with ThreadPoolExecutor(5) as threads:
        answers = list(threads.map(lambda n: plane.acme.reserve(pool_id, f"two-{n}", devices=two), range(5)))
    assert sorted(a.status_code for a in answers) == [201, 201, 409, 409, 409]
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"QUOTA_EXCEEDED"}
    assert set(plane.rows("SELECT sum(amount)::int FROM quota_claims GROUP BY scope")) == {(8,)}


def test_a_lowered_quota_moves_nothing_and_admits_nothing(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=4)
    made = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 4}]).json()
    plane.offer(pool_id, gpu=2)
    assert state(plane, plane.acme, made) in ("placed", "binding")
    refused = plane.acme.reserve(pool_id).json()
    assert (refused["code"], refused["limit"], refused["peak"]) == ("QUOTA_EXCEEDED", 2, 5)


def test_when_something_frees_it_goes_to_priority_then_age(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1, quota=9)
    plane.offer(pool_id, "globex", gpu=9, priority=10)
    plane.wired.worker.stop()
    lease = Lease(plane.wired.reads, "singleton:reservations", "test")
    assert lease.tick()
    assert lease.fence is not None
    placed = plane.acme.reserve(pool_id).json()
    older, younger = plane.acme.reserve(pool_id).json(), plane.acme.reserve(pool_id).json()
    gone, first = plane.globex.reserve(pool_id).json(), plane.globex.reserve(pool_id).json()
    assert {made["state"] for made in (older, younger, gone, first)} == {"pending"}
    assert older["earliestStart"] == placed["endsAt"]
    plane.globex.ok("POST", f"/v1/reservations/{gone['id']}/cancel", {})
    queue = [first["id"], older["id"], younger["id"]]
    order = "SELECT reservation_id FROM pool_queue ORDER BY spot, priority DESC, since, reservation_id"
    assert [id for (id,) in plane.rows(order)] == queue
    holder = (plane.acme, placed)
    for following in ((plane.globex, first), (plane.acme, older), (plane.acme, younger)):
        holder[0].ok("POST", f"/v1/reservations/{holder[1]['id']}/cancel", {})
        plane.settle()
        scheduler.walk(plane.wired.ports, pool_id, queue, lease.fence)
        plane.settle()
        scheduler.walk(plane.wired.ports, pool_id, queue, lease.fence)
        queue.remove(following[1]["id"])
        assert state(plane, *following) == "placed"
        assert {plane.store.load(id).state.status for id in queue} <= {"pending"}
        holder = following
    late = plane.acme.reserve(pool_id, maxPendingSeconds=0)
    assert late.json()["code"] == "DOUBLE_BOOKED", "now or never"


def test_what_waits_is_promoted_when_something_frees(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet(gpus=1, quota=9)
    running = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, running["id"])
    waiting = plane.acme.reserve(pool_id).json()
    plane.acme.ok("POST", f"/v1/reservations/{running['id']}/release", {})
    assert state(plane, plane.acme, waiting) == "pending", "an atom is free only once torn down"
    plane.report(node_id)
    plane.activate(plane.acme, waiting["id"])


def test_who_waits_longer_than_allowed_expires_and_holds_no_quota(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1, quota=9)
    plane.acme.reserve(pool_id)
    waiting = plane.acme.reserve(pool_id, maxPendingSeconds=1).json()
    assert plane.until(plane.acme, waiting["id"], "expired")["stateReason"] == "NoCapacity"
    assert plane.rows("SELECT 1 FROM quota_claims WHERE reservation_id = %s", waiting["id"]) == []
    longer = plane.acme.reserve(pool_id, maxPendingSeconds=86_401)
    assert (longer.status_code, longer.json()["errors"][0]["field"]) == (422, "maxPendingSeconds")


def test_a_suspended_tenant_begins_nothing_new_and_what_runs_ends_by_itself(plane: Plane) -> None:
    pool_id, (_node_id,) = plane.fleet(gpus=1, quota=9)
    running = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, running["id"])
    waiting = plane.acme.reserve(pool_id).json()
    text = plane.access.read_text()
    plane.access.write_text(text.replace("[tenants.acme]\n", '[tenants.acme]\nstatus = "suspended"\n'))
    assert plane.wired.authorizer.reload()
    assert plane.acme.reserve(pool_id).json()["code"] == "ACCESS_DENIED"
    assert plane.store.load(running["id"]).state.status == "active"
    assert plane.until_state(waiting["id"], "failed", "pending") == "failed"
    assert plane.events(waiting["id"])[-1].reason == "TenantSuspended"
