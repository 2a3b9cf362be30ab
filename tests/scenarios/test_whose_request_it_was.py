"""A request's id is told to the tenant that made it and to nobody else, wherever it was carried to (domain.md §10)."""

import json
from typing import Any

from exports import covered, exported
from given import Client, Plane

HOUR = 3_600_000


def asking_as(plane: Plane) -> None:
    """Each tenant's requests are known by their ids."""
    for name, clients in {
        "platform": (plane.root, plane.operator),
        "acme": (plane.acme, plane.acme_user),
        "globex": (plane.globex, plane.globex_user),
    }.items():
        for client in clients:
            client.headers["x-request-id"] = f"request-of-{name}"


def told(plane: Plane, client: Client, tenant: str) -> str:
    """All that a tenant can read of its own log: the list, each of its streams, and its export."""
    covered(plane)
    listed: list[Any] = client.ok("GET", "/v1/audit/events?limit=1000")["items"]
    streams = sorted({one["metadata"]["stream"] for one in listed})
    answers = [client.get(f"/v1/audit/streams/{stream}?limit=1000") for stream in streams]
    return json.dumps(listed) + "".join(one.text for one in answers) + exported(plane, tenant).decode()


def test_no_tenant_reads_the_request_of_another_in_what_it_led_to(plane: Plane) -> None:
    asking_as(plane)
    pool_id, nodes = plane.fleet(nodes=2, quota=99)
    plane.offer(pool_id, "globex", gpu=99)
    later = plane.store.now() + 100 * HOUR
    running = plane.activate(plane.acme, plane.acme.reserve(pool_id, durationSeconds=7200).json()["id"])
    placed = [plane.acme.reserve(pool_id, startsAt=later, durationSeconds=60).json()["id"] for _ in range(3)]
    spot = plane.acme.reserve(pool_id, spot=True, startsAt=later, devices=[{"class": "gpu", "count": 8}]).json()["id"]
    everything = [{"class": "gpu", "count": 8}]
    plane.globex.reserve(pool_id, startsAt=later + HOUR // 4, durationSeconds=60, devices=everything)
    evict = {"reservationId": placed[0], "reason": "moving"}
    plane.root.ok("POST", f"/v1/pools/{pool_id}/evict", evict)
    for node_id in nodes:
        drain = {"reason": "fan", "deadline": plane.store.now() + 1500, "force": True}
        plane.root.ok("POST", f"/v1/nodes/{node_id}/drain", drain)
    plane.until(plane.acme, running["id"], "releasing", "released")
    plane.report(running["allocations"][0]["nodeId"])
    plane.until(plane.acme, running["id"], "released")
    assert plane.events(spot)

    for client, tenant in ((plane.acme, "acme"), (plane.globex, "globex")):
        read = told(plane, client, tenant)
        assert f"request-of-{tenant}" in read
        assert "request-of-platform" not in read
        assert ("request-of-acme" in read, "request-of-globex" in read) == (tenant == "acme", tenant == "globex")
