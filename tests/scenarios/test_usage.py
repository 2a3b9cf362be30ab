"""Usage over HTTP: from the first moment of use to the last, clipped to what is asked."""

from typing import Any

from given import Client, Plane

HOUR = 3_600_000


def rows(plane: Plane, client: Client, query: str = "") -> Any:
    position = plane.settle()
    return client.ok("GET", f"/v1/usage?waitFor={position}{query}")["items"]


def ran(plane: Plane, client: Client, pool_id: str, gpus: int) -> tuple[int, int]:
    """Use GPUs for a while; from when until when."""
    made = client.reserve(pool_id, devices=[{"class": "gpu", "count": gpus}]).json()
    plane.activate(client, made["id"])
    client.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    sql = "SELECT starts_at, ends_at FROM usage_spans WHERE reservation_id = %s"
    plane.settle()
    (span,) = plane.rows(sql, made["id"])
    return span


def test_it_counts_from_active_to_release_and_whose_it_was(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.offer(pool_id, "globex", gpu=8)
    plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR)
    assert rows(plane, plane.acme) == [], "what is only booked is not used"
    began, ended = ran(plane, plane.acme, pool_id, 2)
    (row,) = rows(plane, plane.acme)
    hours = 2 * (ended - began) / HOUR
    assert row == {
        "tenantId": "acme", "poolId": pool_id, "gpuModel": "H100", "resource": "gpu",
        "deviceHours": hours, "gpuHours": hours, "from": began, "until": ended,
    }  # fmt: skip
    assert rows(plane, plane.globex) == []
    assert plane.acme.get("/v1/usage?scope=fleet").status_code == 403
    ran(plane, plane.globex, pool_id, 1)
    fleet = rows(plane, plane.auditor, "&scope=fleet")
    assert [row["tenantId"] for row in fleet] == ["acme", "globex"]
    (together,) = rows(plane, plane.auditor, "&scope=fleet&groupBy=gpuModel")
    assert set(together) == {"gpuModel", "resource", "deviceHours", "gpuHours", "from", "until"}
    assert together["gpuHours"] > hours


def test_a_project_has_its_own_row_and_can_be_asked_for(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    project_id = plane.acme.ok("POST", "/v1/projects", {"name": "vision"})["id"]
    for fields in ({}, {"projectId": project_id}):
        plane.activate(plane.acme, plane.acme.reserve(pool_id, **fields).json()["id"])
    assert [row.get("projectId") for row in rows(plane, plane.acme)] == [project_id, None]
    (own,) = rows(plane, plane.acme, f"&projectId={project_id}")
    assert own["projectId"] == project_id


def test_a_window_cuts_what_began_before_it_and_what_still_runs(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, made["id"])
    (row,) = rows(plane, plane.acme)
    began = row["from"]
    assert began < row["until"] <= plane.store.now(), "what still runs counts until now"
    middle = row["until"]
    (cut,) = rows(plane, plane.acme, f"&from={began}&until={middle}")
    assert (cut["from"], cut["until"]) == (began, middle)
    assert cut["gpuHours"] == (middle - began) / HOUR
    assert rows(plane, plane.acme, f"&until={began}") == []
    (rest,) = rows(plane, plane.acme, f"&from={middle}")
    assert rest["from"] == middle
    (ahead,) = rows(plane, plane.acme, f"&until={plane.store.now() + HOUR}")
    assert ahead["until"] <= plane.store.now(), "nothing was used yet in an hour from now"


def test_pages_of_groups_go_on_where_the_last_ended(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.offer(pool_id, "globex", gpu=8)
    ran(plane, plane.acme, pool_id, 1)
    ran(plane, plane.globex, pool_id, 1)
    plane.settle()
    first = plane.auditor.ok("GET", "/v1/usage?scope=fleet&limit=1")
    second = plane.auditor.ok("GET", f"/v1/usage?scope=fleet&limit=1&cursor={first['nextCursor']}")
    assert [row["tenantId"] for row in first["items"] + second["items"]] == ["acme", "globex"]
    assert "nextCursor" not in second


def test_what_makes_no_sense_is_refused_by_field(plane: Plane) -> None:
    asked = {
        "from=5&until=5": "until",
        "groupBy=tenant,tenant": "groupBy",
        "groupBy=colour": "groupBy[0]",
        "from=x": "from",
    }
    for query, field in asked.items():
        refused = plane.acme.get(f"/v1/usage?{query}")
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field), refused.text
