"""The event stream as a dashboard follows it."""

import json
from typing import Any

from given import Plane


def events(text: str) -> list[dict[str, Any]]:
    blocks = [block for block in text.split("\n\n") if block.startswith("id: ")]
    return [json.loads(block.partition("data: ")[2]) for block in blocks]


def test_a_tenant_follows_its_own_events_and_nobody_elses(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    plane.settle()
    answer = plane.acme.get("/v1/events/stream?after=0")
    assert answer.headers["content-type"].startswith("text/event-stream")
    seen = events(answer.text)
    assert "reservation.placed.1" in {event["type"] for event in seen}
    assert not any(event["type"].startswith(("node.", "pool.", "site.")) for event in seen)
    assert events(plane.globex.get("/v1/events/stream?after=0").text) == []
    fleet = events(plane.auditor.get("/v1/events/stream?after=0&scope=fleet").text)
    assert {"site.created.1", "reservation.placed.1"} <= {event["type"] for event in fleet}
    assert plane.acme.get("/v1/events/stream?scope=fleet").status_code == 403
    last = next(event for event in seen if event["type"] == "reservation.admitted.1")
    resumed = events(plane.acme.get("/v1/events/stream", Last_Event_ID=str(last["position"])).text)
    assert next(event["type"] for event in resumed) == "reservation.placed.1"
    assert {event["stream"] for event in seen if event["type"].startswith("reservation.")} == {made["id"]}


def test_a_last_event_id_that_is_no_position_is_refused(plane: Plane) -> None:
    answer = plane.acme.get("/v1/events/stream", Last_Event_ID="evt_1")
    assert answer.status_code == 400
    assert answer.json()["code"] == "MALFORMED"


def test_a_position_that_the_log_does_not_have_is_refused_as_nothing_would_come_for_long(plane: Plane) -> None:
    """What a listener has from before a restore: the log is shorter now."""
    plane.fleet()
    end = plane.rows("SELECT max(notification_id) FROM stored_events")[0][0]
    assert plane.acme.get("/v1/events/stream", Last_Event_ID=str(end)).status_code == 200
    answer = plane.acme.get("/v1/events/stream", Last_Event_ID=str(end + 1))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "after")
