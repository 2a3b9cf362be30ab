"""Who did what, and who was refused: `audit.events`, `audit.stream` and `audit.state` (api.md §6)."""

from typing import Any

from given import Client, Plane


def events(client: Client, plane: Plane, **asked: Any) -> list[dict[str, Any]]:
    """All pages of what is found, once the read models show all that has happened."""
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    found: list[dict[str, Any]] = []
    cursor = f"&waitFor={plane.settle()}"
    while cursor:
        page = client.ok("GET", f"/v1/audit/events?{query}{cursor}")
        found += page["items"]
        cursor = f"&cursor={page['nextCursor']}" if "nextCursor" in page else ""
    return found


def test_who_reserved_and_what_the_scheduler_did_on_whose_behalf(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    answer = plane.acme.reserve(pool_id)
    made, request_id = answer.json(), answer.headers["x-request-id"]
    plane.activate(plane.acme, made["id"])

    (asked,) = events(plane.acme, plane, action="compute:reservations:*", outcome="allow")
    assert (asked["actorId"], asked["resourceId"]) == ("acme", made["id"])
    assert asked["sessionContext"]["kind"] == "api-key"
    assert asked["metadata"]["requestId"] == request_id
    admission_id = asked["metadata"]["stream"]

    followed = events(plane.acme, plane, admissionId=admission_id)
    assert [one["action"] for one in followed] == [
        "compute:reservations:create",
        *(f"reservation.{what}.1" for what in ("drafted", "admitted", "placed", "binding_started")),
        *(f"reservation.{what}.1" for what in ("prepared", "activated", "ending")),
    ]
    assert {one["actorId"] for one in followed} == {"acme", "controller:timekeeper", f"agent:{node_id}"}
    assert {one["decision"]["identityId"] for one in followed[1:]} == {"acme"}
    assert {one["outcome"] for one in followed} == {"allow"}

    by_controller = events(plane.acme, plane, identityId="controller:timekeeper")
    assert {one["metadata"]["admissionId"] for one in by_controller} == {admission_id}
