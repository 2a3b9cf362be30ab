"""A claim that awaits its person: what an agent was refused, and what takes more than the budget (domain.md §5)."""

from typing import Any

import pytest

import delegated
from domain import admission, reservation
from domain.event import Fence
from facts import differences
from given import Client, Plane
from passing import HOUR, MINUTE, pass_time, take_over
from wellformed import awaiting

LIMITED = """
[[boundaries.errand.statements]]
effect = "allow"
actions = ["*"]
resources = ["*"]
[[boundaries.errand.statements]]
effect = "deny"
actions = ["*:create"]
resources = ["*"]
conditions = { NumericGreaterThan = { "resource.gpuCount" = 1 } }
"""
TWO = [{"class": "gpu", "count": 2}]


@pytest.fixture
def agent(plane: Plane) -> Client:
    """Acts for acme's administrator, and may not reserve more than one GPU."""
    return delegated.agent(plane, LIMITED)


@pytest.fixture
def fence(plane: Plane) -> Fence:
    return take_over(plane)


def approve(plane: Plane) -> None:
    text = plane.access.read_text()
    plane.access.write_text(text.replace('"resource.gpuCount" = 1 ', '"resource.gpuCount" = 2 '))
    assert plane.wired.authorizer.reload()


def shown(plane: Plane, made: Any) -> Any:
    return plane.acme.ok("GET", f"/v1/reservations/{made['id']}")


def confirm(client: Client, made: Any) -> Any:
    return client.post(f"/v1/reservations/{made['id']}/confirm")


def test_what_a_person_may_not_have_through_an_agent_awaits_the_person(plane: Plane, agent: Client) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    assert agent.reserve(pool_id).json()["state"] in ("placed", "binding")
    answer = agent.reserve(pool_id, "job", devices=TWO)
    made = answer.json()
    assert (answer.status_code, made["state"], made["stateReason"]) == (201, "awaiting-confirmation", "DecisionRefused")
    assert made["confirmUntil"] == made["createdAt"] + 30 * MINUTE
    assert plane.rows("SELECT 1 FROM device_bookings WHERE reservation_id = %s", made["id"]) == []
    assert plane.rows("SELECT 1 FROM quota_claims WHERE reservation_id = %s", made["id"]) == [], "it holds nothing"
    again = agent.reserve(pool_id, "job", devices=TWO)
    assert (again.status_code, again.json()) == (201, made), "as long as it is refused the answer is the same"
    assert agent.reserve(pool_id, "job").json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert plane.refusals()[-1].reason, "each refusal is recorded"


def test_the_agent_asks_again_once_the_person_approved(plane: Plane, agent: Client, database: str) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = agent.reserve(pool_id, "job", devices=TWO).json()
    approve(plane)
    placed = agent.reserve(pool_id, "job", devices=TWO)
    assert (placed.status_code, placed.json()["id"], placed.json()["state"]) == (201, made["id"], "placed")
    replayed = agent.reserve(pool_id, "job", devices=TWO)
    assert (replayed.json(), replayed.headers["idempotency-replayed"]) == (placed.json(), "true")
    plane.wired.worker.stop()
    plane.settle()
    assert differences(database) == []


def test_whatever_else_it_is_found_to_await_it_does_so_for_half_an_hour_in_all(plane: Plane, agent: Client) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = agent.reserve(pool_id, "job", devices=TWO).json()
    approve(plane)
    plane.root.ok("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 1})
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": "confirm"}}})
    again = agent.reserve(pool_id, "job", devices=TWO).json()
    assert (again["state"], again["stateReason"]) == ("awaiting-confirmation", "OverBudget")
    assert again["confirmUntil"] == made["confirmUntil"]


def test_the_person_confirms_in_a_session_of_their_own(plane: Plane, agent: Client) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = agent.reserve(pool_id, "job", devices=TWO).json()
    for client in (agent, plane.acme_user):
        assert (confirm(client, made).status_code, shown(plane, made)["version"]) == (403, made["version"])
    assert confirm(plane.globex, made).status_code == 404
    answer = confirm(plane.acme, made)
    assert (answer.status_code, answer.json()["state"]) == (200, "placed")
    assert answer.json()["confirmUntil"] is None
    (admitted,) = plane.events(answer.json()["admissionId"])
    assert isinstance(admitted, admission.Admitted)
    assert [one.action for one in admitted.decided] == ["compute:reservations:confirm", "compute:reservations:create"]
    later = confirm(plane.acme, made)
    assert later.status_code == 200, "confirmed is confirmed"
    assert agent.reserve(pool_id, "job", devices=TWO).json()["id"] == made["id"]


def test_a_yes_to_the_agent_is_no_yes_to_more_than_the_budget(plane: Plane, agent: Client) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = agent.reserve(pool_id, devices=TWO).json()
    plane.root.ok("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 1})
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": "confirm"}}})
    asked = confirm(plane.acme, made).json()
    assert (asked["state"], asked["stateReason"]) == ("awaiting-confirmation", "OverBudget")
    assert asked["confirmUntil"] == made["confirmUntil"]
    assert confirm(plane.acme, made).json()["state"] == "placed"


def test_confirming_goes_the_way_of_a_create(plane: Plane, agent: Client) -> None:
    """No room: it waits; over quota: it is denied; now or never: it is too late."""
    pool_id, _ = plane.fleet(gpus=2, quota=4)
    waits = agent.reserve(pool_id, devices=TWO).json()
    never = agent.reserve(pool_id, devices=TWO, maxPendingSeconds=0).json()
    over = agent.reserve(pool_id, devices=[{"class": "gpu", "count": 3}]).json()
    assert plane.acme.reserve(pool_id, devices=TWO).status_code == 201
    refused = confirm(plane.acme, over).json()
    assert (refused["code"], shown(plane, over)["state"]) == ("QUOTA_EXCEEDED", "denied")
    late = confirm(plane.acme, never).json()
    assert (late["code"], shown(plane, never)["state"]) == ("DOUBLE_BOOKED", "expired")
    waiting = confirm(plane.acme, waits).json()
    assert (waiting["state"], waiting["stateReason"]) == ("pending", "NoCapacity")


def test_both_admissions_of_what_was_over_budget_are_kept(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = {"id": awaiting(plane, plane.acme.reserve(pool_id).json()["id"])}
    assert confirm(plane.acme, made).json()["state"] == "placed"
    awaited, admitted = [e for e in plane.events(made["id"]) if hasattr(e, "admission_id")]
    assert (awaited.admission_id, admitted.admission_id != "adm_1") == ("adm_1", True)


def test_who_may_not_have_it_in_a_session_of_their_own_either_is_denied(plane: Plane, agent: Client) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = agent.reserve(pool_id, "job", devices=TWO).json()
    text = plane.access.read_text().replace("[tenants.acme]\n", '[tenants.acme]\nboundaries = ["errand"]\n')
    plane.access.write_text(text)
    assert plane.wired.authorizer.reload()
    refused = confirm(plane.acme, made)
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    assert shown(plane, made)["state"] == "denied"
    assert agent.reserve(pool_id, "job", devices=TWO).json()["code"] == "ACCESS_DENIED"


def test_nobody_confirms_it_in_half_an_hour_and_it_expires(plane: Plane, agent: Client, fence: Fence) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = agent.reserve(pool_id, "job", devices=TWO).json()
    assert pass_time(plane, made, 29 * MINUTE, fence)["state"] == "awaiting-confirmation"
    expired = pass_time(plane, made, 30 * MINUTE, fence)
    assert (expired["state"], expired["stateReason"]) == ("expired", "ConfirmationTimeout")
    assert confirm(plane.acme, made).json()["code"] == "ILLEGAL_TRANSITION"
    assert agent.reserve(pool_id, "job", devices=TWO).json() == expired


def test_it_can_be_cancelled_while_it_awaits(plane: Plane, agent: Client) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = agent.reserve(pool_id, "job", devices=TWO).json()
    cancelled = plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
    assert cancelled["state"] == "cancelled"
    refused = confirm(plane.acme, made).json()
    assert (refused["code"], refused["allowed"]) == ("ILLEGAL_TRANSITION", [])


def test_what_is_confirmed_late_keeps_its_end(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    start = plane.store.now() + HOUR
    like = plane.acme.reserve(pool_id, startsAt=start).json()["id"]
    made = {"id": awaiting(plane, like, starts_at=plane.store.now() - 10 * MINUTE)}
    confirmed = confirm(plane.acme, made).json()
    assert confirmed["endsAt"] < plane.store.now() + 50 * MINUTE
    over = {"id": awaiting(plane, like, starts_at=plane.store.now() - HOUR)}
    assert confirm(plane.acme, over).json()["stateReason"] == "WindowPassed"
    assert isinstance(plane.events(over["id"])[-1], reservation.Expired)
