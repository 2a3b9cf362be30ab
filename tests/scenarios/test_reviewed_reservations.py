"""Faults that a review of reservations found."""

from typing import Any

from msgspec.structs import replace

from commands.controllers import drainer, replacing, scheduler
from domain import reservation
from given import Plane
from passing import HOUR, MINUTE, Ahead, activate, take_over
from silence import Watched


def gang(plane: Plane, pool_id: str, nodes: int, **fields: Any) -> Any:
    asked: dict[str, Any] = {"devices": [{"class": "gpu", "count": 4}], "nodes": nodes} | fields
    return plane.acme.reserve(pool_id, **asked).json()


def test_a_gang_on_two_nodes_that_drain_is_told_once_of_the_end_that_comes_first(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=2, gpus=4, quota=99)
    fence = take_over(plane)
    plane.wired.watch.stop()
    made = activate(plane, gang(plane, pool_id, 2, durationSeconds=86_400), fence)
    first, second = (plane.store.now() + MINUTE * minutes for minutes in (40, 30))
    for node_id, fields in ((nodes[0], {"deadline": first}), (nodes[1], {"deadline": second, "force": True})):
        plane.root.ok("POST", f"/v1/nodes/{node_id}/drain", {"reason": "fan"} | fields)
    for _ in range(3):
        for node_id in nodes:
            drainer.step(plane.store, node_id, fence)
    told = [e for e in plane.events(made["id"]) if isinstance(e, reservation.Ending | reservation.Stays)]
    assert told[-1] == reservation.Ending(second, "Drained")
    assert len(told) <= 2
    plane.root.ok("POST", f"/v1/nodes/{nodes[1]}/drain", {"reason": "fan", "force": True})
    for _ in range(3):
        for node_id in nodes:
            drainer.step(plane.store, node_id, fence)
    told = [e for e in plane.events(made["id"]) if isinstance(e, reservation.Ending | reservation.Stays)]
    assert told[-1] == reservation.Ending(first, "Drained")
    assert len(told) <= 4


def test_whoever_waits_preempts_only_for_a_start_that_its_claim_on_quota_covers(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, policy={"spotNoticeSeconds": 7200})
    for tenant in ("acme", "globex"):
        plane.offer(pool_id, tenant, gpu=1)
    plane.node(site_id, pool_id, "n1", 1)
    assert plane.globex.reserve(pool_id, spot=True).json()["state"] == "placed"
    plane.settle()
    fence = take_over(plane)
    waits = plane.acme.reserve(pool_id, maxPendingSeconds=30).json()
    assert waits["state"] == "pending"
    give_up_at = plane.store.load(waits["id"]).state.give_up_at
    later = plane.acme.reserve(pool_id, startsAt=give_up_at + HOUR).json()
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"spotNoticeSeconds": 60}})
    plane.settle()
    for _, step in scheduler.walk(plane.wired.ports, pool_id, [waits["id"]], fence):
        step()
    sql = """
    SELECT lower(during), upper(during) FROM quota_claims
    WHERE reservation_id = ANY(%s) AND scope LIKE 'poff%%' AND resource = 'gpu' ORDER BY 1
    """
    one, other = plane.rows(sql, [waits["id"], later["id"]])
    assert one[1] <= other[0], "its offering grants one GPU at a time"


def test_a_member_is_not_placed_on_a_device_that_whoever_ended_there_has_not_given_back(plane: Plane) -> None:
    watched = Watched(plane)
    pool_id, _ = plane.fleet(nodes=3, gpus=4, quota=99)
    fence = take_over(plane)
    made = activate(plane, gang(plane, pool_id, 2, durationSeconds=7200), fence)
    busy = activate(plane, gang(plane, pool_id, 1, durationSeconds=60), fence)
    gone = made["allocations"][0]["nodeId"]
    watched.silence(gone)
    watched.wait(302)
    assert len(plane.store.load(made["id"]).state.allocations) == 1
    late = replace(plane.wired.ports, store=Ahead(plane.store, 61_000))
    assert not replacing.step(late, made["id"], fence), "its end has passed, but it has not ended yet"
    assert plane.store.load(busy["id"]).state.status == "active"
