"""A look ahead says what a create would say, and leaves nothing behind."""

from typing import Any

import pytest

from given import Client, Plane

HOUR = 3_600_000


def ask(client: Client, pool_id: str, **fields: Any) -> Any:
    body = {"poolId": pool_id, "devices": [{"class": "gpu", "count": 1}], "durationSeconds": 3600} | fields
    return client.post("/v1/reservations/preview", body)


def look(plane: Plane, client: Client, pool_id: str, **fields: Any) -> Any:
    head = plane.head()
    answer = ask(client, pool_id, **fields)
    assert answer.status_code == 200, answer.text
    assert int(answer.headers["x-position"]) >= head, "it sees what the log had when it was asked"
    return answer.json()


def gpus(count: int) -> list[dict[str, Any]]:
    return [{"class": "gpu", "count": count}]


def kinds(shown: Any) -> list[str]:
    return [obstacle["kind"] for obstacle in shown["obstacles"]]


def test_it_shows_where_a_claim_would_land_and_what_its_quota_would_be(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet(quota=6)
    plane.acme.reserve(pool_id, devices=gpus(2))
    now = plane.store.now()
    shown = look(plane, plane.acme, pool_id, devices=gpus(3), scalars={})
    (member,) = shown["placement"]
    assert (member["nodeId"], member["nodeName"], len(member["atoms"])) == (node_id, "n0", 3)
    assert now <= shown["startsAt"] == shown["earliestStart"] <= plane.store.now()
    assert shown["endsAt"] == shown["startsAt"] + HOUR
    assert (shown["state"], shown["stateReason"], shown["decision"], shown["gpuCount"]) == (
        "placed",
        None,
        "allowed",
        3,
    )
    assert shown["obstacles"] == []
    quota, of_tenant = shown["quota"]
    assert (of_tenant["kind"], of_tenant["limit"], of_tenant["before"]) == ("tenant", None, 2)
    assert {name: quota[name] for name in ("kind", "resource", "limit", "before", "after")} == {
        "kind": "offering", "resource": "gpu", "limit": 6, "before": 2, "after": 5,
    }  # fmt: skip
    made = plane.acme.reserve(pool_id, devices=gpus(3)).json()
    assert made["state"] in ("placed", "binding")
    assert len(made["allocations"]) == 1


def test_nothing_is_held_and_nothing_recorded(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    position = plane.settle()
    for _ in range(3):
        assert look(plane, plane.acme, pool_id, devices=gpus(8))["state"] == "placed"
    assert plane.head() == position
    with plane.wired.calendars.locked(pool_id) as calendar:
        assert calendar.bookings == {}
    assert plane.acme.reserve(pool_id, devices=gpus(8)).json()["state"] in ("placed", "binding")


def test_a_full_pool_says_when_and_names_what_the_caller_may_see(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.offer(pool_id, "globex", gpu=8)
    theirs = plane.globex.reserve(pool_id, devices=gpus(5), durationSeconds=1800).json()
    mine = plane.acme.reserve(pool_id, devices=gpus(2), durationSeconds=7200).json()
    shown = look(plane, plane.acme, pool_id, devices=gpus(4))
    assert (shown["state"], shown["stateReason"], shown["placement"]) == ("pending", "NoCapacity", [])
    assert (shown["startsAt"], shown["endsAt"]) == (None, None)
    assert shown["earliestStart"] == theirs["endsAt"]
    capacity, busy, own = shown["obstacles"]
    assert capacity == {"kind": "capacity", "message": "no node fits: 1 node with 1 free"}
    assert busy == {
        "kind": "busy",
        "message": f"busy until {theirs['endsAt']}",
        "until": theirs["endsAt"],
    }
    assert (own["reservationId"], own["devices"], own["until"]) == (mine["id"], 2, mine["endsAt"])
    assert theirs["id"] not in str(shown)
    assert "globex" not in str(shown)
    owner = look(plane, plane.root, pool_id, devices=gpus(4))
    assert [(o["reservationId"], o["tenantId"]) for o in owner["obstacles"][1:]] == [
        (theirs["id"], "globex"),
        (mine["id"], "acme"),
    ]
    user = look(plane, plane.acme_user, pool_id, devices=gpus(4))
    assert kinds(user) == ["capacity", "busy", "busy"], "a plain user may not get another's reservation"
    assert mine["id"] not in str(user)


def test_planned_maintenance_stands_in_the_way(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    start = plane.store.now() + HOUR
    plan = {"on": True, "reason": "bios", "from": start, "until": start + HOUR}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", plan)
    shown = look(plane, plane.acme, pool_id, startsAt=start)
    assert kinds(shown) == ["capacity", "maintenance"]
    maintenance = shown["obstacles"][1]
    assert (maintenance["from"], maintenance["until"], maintenance["devices"]) == (start, start + HOUR, 8)
    assert shown["earliestStart"] == start + HOUR


def test_a_quota_in_the_way_says_its_limit_its_peak_and_when(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=2, quota=8)
    start = plane.store.now() + HOUR
    plane.acme.reserve(pool_id, devices=gpus(6), startsAt=start + HOUR // 2)
    shown = look(plane, plane.acme, pool_id, devices=gpus(4), startsAt=start)
    assert (shown["state"], shown["stateReason"]) == ("denied", "QuotaExceeded")
    (obstacle,) = shown["obstacles"]
    assert {name: obstacle[name] for name in ("kind", "resource", "limit", "peak", "at")} == {
        "kind": "quota", "resource": "gpu", "limit": 8, "peak": 10, "at": start + HOUR // 2,
    }  # fmt: skip
    refused = plane.acme.reserve(pool_id, devices=gpus(4), startsAt=start)
    assert (refused.status_code, refused.json()["peak"]) == (409, 10)
    none_of_it = look(plane, plane.acme, pool_id, scalars={"vcpu": 1})
    assert [(o["resource"], o["limit"], o["peak"]) for o in none_of_it["obstacles"]] == [("vcpu", 0, 1)]


def test_what_if_a_quota_were_another(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=2)
    assert look(plane, plane.acme, pool_id, devices=gpus(4))["state"] == "denied"
    assert look(plane, plane.acme, pool_id, devices=gpus(4), quotas={"gpu": 4})["state"] == "placed"
    assert look(plane, plane.acme, pool_id, quotas={"gpu": 0})["state"] == "denied"
    assert plane.acme.reserve(pool_id, devices=gpus(4)).status_code == 409, "it was but a question"


def test_the_quotas_of_tenant_and_project_count_as_well(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    project_id = plane.acme.ok("POST", "/v1/projects", {"name": "vision"})["id"]
    plane.root.ok("PUT", "/v1/quotas/tenant/acme", {"limits": {"gpu": 3}})
    plane.acme.ok("PUT", f"/v1/quotas/project/{project_id}", {"limits": {"gpu": 2}})
    shown = look(plane, plane.acme, pool_id, devices=gpus(3), projectId=project_id)
    assert [(q["kind"], q["limit"], q["after"]) for q in shown["quota"]] == [
        ("offering", 8, 3),
        ("tenant", 3, 3),
        ("project", 2, 3),
    ]
    assert [o["message"] for o in shown["obstacles"]] == ["the project's quota of gpu is 2; its use would peak at 3"]
    plane.acme.ok("POST", f"/v1/projects/{project_id}/archive", {})
    archived = ask(plane.acme, pool_id, projectId=project_id)
    assert (archived.status_code, archived.json()["errors"][0]["field"]) == (409, "projectId")


def test_what_if_a_node_were_not_there_only_its_owner_asks(plane: Plane) -> None:
    pool_id, (first, second) = plane.fleet(nodes=2, quota=99)
    shown = look(plane, plane.root, pool_id, devices=gpus(8), nodes=2)
    assert {member["nodeId"] for member in shown["placement"]} == {first, second}
    without = look(plane, plane.root, pool_id, devices=gpus(8), without=[first])
    assert [member["nodeId"] for member in without["placement"]] == [second]
    gang = look(plane, plane.root, pool_id, devices=gpus(8), nodes=2, without=[first])
    assert (gang["state"], gang["earliestStart"]) == ("pending", None)
    assert gang["obstacles"][0]["message"] == "2 nodes asked, 1 fit"
    again = look(plane, plane.root, pool_id, devices=gpus(8), nodes=2)
    assert again["placement"] == shown["placement"], "it was but a question"
    foreign = ask(plane.acme, pool_id, without=[first])
    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (404, "without[0]")
    wrong = ask(plane.root, pool_id, without=[pool_id])
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "without[0]")


def test_it_says_what_would_be_decided_and_records_no_refusal(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    position = plane.settle()
    shown = look(plane, plane.operator, pool_id)
    assert (shown["decision"], shown["state"], shown["stateReason"]) == ("denied", "denied", "AccessDenied")
    assert kinds(shown) == ["decision"]
    assert shown["placement"] != [], "where it would land all the same"
    assert plane.refusals(position) == []
    assert plane.operator.reserve(pool_id).status_code == 403


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"devices": [{"class": "disk", "count": 0}]}, "devices[0].count"),
        ({"devices": [{"class": "gpu.mig", "count": 1}]}, "devices[0].class"),
        ({"devices": [{"class": "gpu", "count": 1, "selector": "device.nothing"}]}, "devices[0].selector"),
        ({"startsAt": 1}, "startsAt"),
        ({"binding": "node"}, "binding"),
        ({"maxPendingSeconds": 90_000}, "maxPendingSeconds"),
        ({"durationSeconds": 1}, "durationSeconds"),
        ({"projectId": "prj_01arz3ndektsv4rrffq69g5fav"}, "projectId"),
        ({"poolId": "pool_01arz3ndektsv4rrffq69g5fav"}, "poolId"),
    ],
)
def test_what_a_create_refuses_a_preview_refuses_alike(plane: Plane, fields: dict[str, Any], field: str) -> None:
    pool_id, _ = plane.fleet()
    looked, made = ask(plane.acme, pool_id, **fields), plane.acme.reserve(pool_id, **fields)
    for answer in (looked, made):
        assert answer.json()["errors"][0]["field"] == field, answer.text
    said = [answer.json()["detail"].partition("; now is")[0] for answer in (looked, made)]
    assert (looked.status_code, said[0]) == (made.status_code, said[1])


def test_a_pool_that_is_not_offered_is_not_there(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    answer = ask(plane.globex, pool_id)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (404, "poolId")


def test_a_budget_is_in_the_way_as_the_pool_says(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.root.ok("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 3})
    spending = [{"kind": "tenant", "gpuHours": 3.0, "leftGpuHours": 3.0, "neededGpuHours": 4.0}]
    for check, expected in {
        "off": ("placed", None),
        "confirm": ("awaiting-confirmation", "OverBudget"),
        "enforce": ("denied", "BudgetExceeded"),
    }.items():
        plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": check}}})
        shown = look(plane, plane.acme, pool_id, devices=gpus(4))
        assert (shown["state"], shown["stateReason"], shown["budget"]) == (*expected, spending)
        assert kinds(shown) == ["budget"] * (check != "off")


def test_whoever_delays_nobody_ahead_would_pass(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=99)
    plane.acme.reserve(pool_id, devices=gpus(6), durationSeconds=1800)
    waiting = plane.acme.reserve(pool_id, devices=gpus(8), durationSeconds=3600).json()
    assert waiting["state"] == "pending"
    short = look(plane, plane.acme, pool_id, devices=gpus(2), durationSeconds=600)
    assert (short["state"], short["obstacles"]) == ("placed", [])
    long = look(plane, plane.acme, pool_id, devices=gpus(2), durationSeconds=3600)
    assert (long["state"], long["stateReason"], kinds(long)) == ("pending", "QueueAhead", ["queue"])
    assert long["earliestStart"] >= waiting["earliestStart"] + HOUR
    never = look(plane, plane.acme, pool_id, devices=gpus(2), durationSeconds=3600, maxPendingSeconds=0)
    assert (never["state"], never["stateReason"]) == ("expired", "QueueAhead")
    assert plane.acme.reserve(pool_id, devices=gpus(2), durationSeconds=600).json()["state"] in ("placed", "binding")


def test_spot_that_would_give_way_is_counted_and_not_in_the_way(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=99)
    plane.activate(plane.acme, plane.acme.reserve(pool_id, devices=gpus(8), spot=True).json()["id"])
    position = plane.settle()
    shown = look(plane, plane.acme, pool_id, devices=gpus(4))
    assert (shown["state"], shown["preempts"]) == ("placed", 1)
    assert shown["startsAt"] > plane.store.now(), "after the notice"
    assert plane.head() == position
