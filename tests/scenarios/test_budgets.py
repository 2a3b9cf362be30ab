"""Budgets: GPU-hours that a tenant or a project may spend (domain.md §2, §5)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from domain import reservation
from given import Client, Plane

HOUR = 3_600_000
DAY = 24 * HOUR


def checked(plane: Plane, check: str = "enforce", **fleet: int) -> str:
    """A pool whose claims budgets are asked for."""
    pool_id, _ = plane.fleet(**{"quota": 100} | fleet)
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": check}}})
    return pool_id


def grant(client: Client, kind: str, id: str, hours: float | None, **period: int) -> Any:
    return client.ok("PUT", f"/v1/budgets/{kind}/{id}", {"gpuHours": hours} | period)


def stands(client: Client, kind: str = "tenant", id: str = "acme") -> tuple[Any, ...]:
    """GPU-hours: the budget, spent, committed, left."""
    shown = client.ok("GET", f"/v1/budgets/{kind}/{id}")
    return tuple(shown[name] for name in ("gpuHours", "spentGpuHours", "committedGpuHours", "leftGpuHours"))


def claim(plane: Plane, pool_id: str, gpus: int = 1, hours: float = 1, **fields: Any) -> Any:
    devices = [{"class": "gpu", "count": gpus}]
    return plane.acme.reserve(pool_id, devices=devices, durationSeconds=int(hours * 3600), **fields)


def refused(answer: Any) -> tuple[Any, ...]:
    """Kind, then in GPU-hours what the budget is, what was needed and what was left."""
    no = answer.json()
    assert (answer.status_code, no["code"]) == (409, "BUDGET_EXCEEDED"), no
    return (no["kind"], *(no[name] / HOUR for name in ("budgetGpuMs", "neededGpuMs", "leftGpuMs")))


def test_what_a_claim_may_take_is_committed_and_beyond_what_is_left_it_is_denied(plane: Plane) -> None:
    pool_id = checked(plane)
    assert stands(plane.acme) == (None, 0, 0, None)
    grant(plane.root, "tenant", "acme", 10)
    made = claim(plane, pool_id, 4, 2)
    assert made.status_code == 201
    assert stands(plane.acme) == (10, 0, 8, 2)
    no = claim(plane, pool_id, 1, 3, key="over")
    assert refused(no) == ("tenant", 10, 3, 2)
    assert plane.acme.ok("GET", f"/v1/reservations/{no.json()['reservationId']}")["state"] == "denied"
    grant(plane.root, "tenant", "acme", 20)
    again = claim(plane, pool_id, 1, 3, key="over").json()
    assert {**again, "requestId": ""} == {**no.json(), "requestId": ""}, "the same key gets the same no"
    assert claim(plane, pool_id, 1, 3).status_code == 201
    grant(plane.root, "tenant", "acme", None)
    assert claim(plane, pool_id, 8, 100, startsAt=plane.store.now() + 10 * HOUR).status_code == 201


def test_waiting_it_is_committed_in_full_and_what_never_ran_gives_all_of_it_back(plane: Plane) -> None:
    pool_id = checked(plane, gpus=1)
    grant(plane.root, "tenant", "acme", 5)
    ahead: dict[str, Any] = {"startsAt": plane.store.now() + HOUR, "hours": 2}
    placed, waiting = claim(plane, pool_id, **ahead).json(), claim(plane, pool_id, **ahead).json()
    assert (placed["state"], waiting["state"]) == ("placed", "pending")
    assert stands(plane.acme) == (5, 0, 4, 1)
    for made in (waiting, placed):
        plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
    assert stands(plane.acme) == (5, 0, 0, 5)


def test_when_it_ends_it_has_spent_what_it_ran_from_its_activation_on(plane: Plane) -> None:
    pool_id = checked(plane)
    grant(plane.root, "tenant", "acme", 100)
    made = claim(plane, pool_id, 4, 10).json()
    bound = plane.activate(plane.acme, made["id"])
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    story = plane.events(made["id"])
    began = next(event.at for event in story if isinstance(event, reservation.Activated))
    ended = next(event.at for event in story if isinstance(event, reservation.ReleaseStarted))
    ran = 4 * (ended - began) / HOUR
    assert 0 < ran < 1
    assert stands(plane.acme) == pytest.approx((100, ran, 0, 100 - ran)), "while it is torn down nothing more is spent"
    plane.report(bound["allocations"][0]["nodeId"])
    assert stands(plane.acme) == pytest.approx((100, ran, 0, 100 - ran))


def test_tenant_and_project_must_both_have_it(plane: Plane) -> None:
    pool_id = checked(plane)
    project_id = plane.project()
    grant(plane.root, "tenant", "acme", 10)
    grant(plane.acme, "project", project_id, 4)
    assert refused(claim(plane, pool_id, 5, 1, projectId=project_id)) == ("project", 4, 5, 4)
    assert claim(plane, pool_id, 3, 1, projectId=project_id).status_code == 201
    assert stands(plane.acme, "project", project_id) == (4, 0, 3, 1)
    assert refused(claim(plane, pool_id, 8, 1)) == ("tenant", 10, 8, 7)
    plane.acme.ok("POST", f"/v1/projects/{project_id}/archive", {})
    assert stands(plane.acme, "project", project_id)[2] == 3, "what it has goes on"


def test_a_budget_of_a_period_counts_what_lies_in_it(plane: Plane) -> None:
    pool_id = checked(plane)
    tomorrow = (plane.store.now() // DAY + 2) * DAY
    grant(plane.root, "tenant", "acme", 6, **{"from": tomorrow, "until": tomorrow + DAY})
    assert claim(plane, pool_id, 8, 1).status_code == 201, "it is over before the period begins"
    across = claim(plane, pool_id, 2, 4, startsAt=tomorrow - 2 * HOUR)
    assert across.status_code == 201
    assert stands(plane.acme) == (6, 0, 4, 2)
    assert refused(claim(plane, pool_id, 1, 3, startsAt=tomorrow + 5 * HOUR)) == ("tenant", 6, 3, 2)
    assert claim(plane, pool_id, 1, 4, startsAt=tomorrow + DAY - 2 * HOUR).status_code == 201
    assert stands(plane.acme) == (6, 0, 6, 0)
    assert claim(plane, pool_id, 8, 1, startsAt=tomorrow + 2 * DAY).status_code == 201


def test_of_six_rivals_for_a_budget_no_more_pass_than_it_holds(plane: Plane) -> None:
    pool_id = checked(plane, nodes=2)
    grant(plane.root, "tenant", "acme", 4)
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: claim(plane, pool_id, 2, 1), range(6)))
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409, 409, 409]
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"BUDGET_EXCEEDED"}
    assert stands(plane.acme) == (4, 0, 4, 0)


def test_a_budget_that_was_cut_below_what_is_committed_moves_nothing_and_admits_nothing(plane: Plane) -> None:
    pool_id = checked(plane)
    made = claim(plane, pool_id, 4, 1).json()
    grant(plane.root, "tenant", "acme", 1)
    assert stands(plane.acme) == (1, 0, 4, -3)
    assert refused(claim(plane, pool_id)) == ("tenant", 1, 1, -3)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] in ("placed", "binding")


def test_claims_of_a_pool_that_does_not_check_budgets_take_nothing_of_them(plane: Plane) -> None:
    pool_id = checked(plane, "off")
    grant(plane.root, "tenant", "acme", 0)
    assert claim(plane, pool_id, 8, 10).status_code == 201
    assert stands(plane.acme) == (0, 0, 0, 0)


def test_a_tenants_budget_is_the_platforms_to_set_a_projects_the_tenants(plane: Plane) -> None:
    assert plane.acme.call("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 1}).status_code == 403
    first = grant(plane.root, "tenant", "acme", 0.5)
    assert grant(plane.root, "tenant", "acme", 0.5)["version"] == first["version"], "the same changes nothing"
    path = f"/v1/budgets/project/{plane.project()}"
    assert plane.root.call("PUT", path, {"gpuHours": 1}).status_code == 404
    assert plane.globex.get(path).status_code == 404
    assert plane.acme.ok("PUT", path, {"gpuHours": 1})["gpuHours"] == 1
    story = plane.acme.ok("GET", "/v1/audit/streams/budget:tenant:acme")
    assert [event["type"] for event in story["items"]] == ["budget.set.1"]


def test_an_extension_takes_what_it_adds_and_one_that_is_refused_changes_nothing(plane: Plane) -> None:
    pool_id = checked(plane)
    grant(plane.root, "tenant", "acme", 5)
    made = claim(plane, pool_id, 2, 1, startsAt=plane.store.now() + HOUR).json()
    path = f"/v1/reservations/{made['id']}/extend"
    answer = plane.acme.post(path, {"endsAt": made["endsAt"] + HOUR}, Idempotency_Key="more")
    assert (answer.status_code, stands(plane.acme)) == (200, (5, 0, 4, 1))
    no = plane.acme.post(path, {"endsAt": made["endsAt"] + 2 * HOUR}, Idempotency_Key="yet more")
    assert refused(no) == ("tenant", 5, 2, 1)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}") == answer.json()
    plane.acme.ok("POST", path, {"endsAt": made["endsAt"]}, Idempotency_Key="less")
    assert stands(plane.acme) == (5, 0, 2, 3)
