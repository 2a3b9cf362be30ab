"""A pool that checks budgets asks Better IAM's billing before a claim is placed (iam.md §16)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from adapters.http import sse
from iam_server import faults
from iam_server.plane import Plane, plane

BROKEN = {
    "an error": faults.error(403, "FEATURE_DISABLED"),
    "no such method": faults.error(404, "NOT_FOUND"),
    "out of order": faults.answer(502, b"bad gateway", "text/plain"),
    "no answer": faults.hang_up,
    "another form": faults.data({"allowed": "yes"}),
    "a long wait": faults.error(429, "RATE_LIMITED", retryAfterMs=60_000),
}


@pytest.fixture
def better(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    monkeypatch.setattr(sse, "SECONDS", 0.0)
    with plane(database, tmp_path) as made:
        yield made


def checked(better: Plane, check: str) -> str:
    pool_id, _ = better.fleet()
    better.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": check}}})
    better.iam.asked.clear()
    return pool_id


def refused(answer: Any) -> str:
    no = answer.json()
    assert (answer.status_code, no["code"]) == (409, "SPEND_LIMIT_REACHED"), no
    return str(no["detail"])


def test_a_pool_that_checks_nothing_asks_nothing(better: Plane) -> None:
    pool_id = checked(better, "off")
    better.iam.spent["acme"] = "march"
    assert better.acme.reserve(pool_id).status_code == 201
    assert better.iam.count("billing/check") == 0


@pytest.mark.parametrize("check", ["confirm", "enforce"])
def test_where_it_may_be_spent_it_is_asked_once_as_the_caller_after_the_decision(better: Plane, check: str) -> None:
    pool_id = checked(better, check)
    assert better.acme_user.reserve(pool_id, "mine").json()["state"] in ("placed", "binding")
    asked = [(method, body, headers) for method, body, headers in better.iam.asked if method == "billing/check"]
    assert [(body, headers["authorization"]) for _, body, headers in asked] == [
        ({"tenantId": "acme"}, f"Bearer {better.tokens['acme-user']}")
    ]
    assert [method for method, _, _ in better.iam.asked][-2:] == ["authorize", "billing/check"]
    better.acme_user.reserve(pool_id, "mine")
    assert better.iam.count("billing/check") == 1, "the first answer stands"


def test_a_spent_budget_is_a_no_that_is_kept(better: Plane) -> None:
    pool_id = checked(better, "enforce")
    better.iam.spent["acme"] = "march"
    no = better.acme.reserve(pool_id, "mine")
    assert refused(no) == "Better IAM's budget 'march' is spent"
    shown = better.acme.ok("GET", f"/v1/reservations/{no.json()['reservationId']}")
    assert (shown["state"], shown["stateReason"]) == ("denied", "SpendLimitReached")
    better.iam.spent.clear()
    refused(better.acme.reserve(pool_id, "mine"))
    assert better.iam.count("billing/check") == 1
    assert better.acme.reserve(pool_id).status_code == 201


def test_where_it_is_to_be_confirmed_its_person_may_spend_it_all_the_same(better: Plane) -> None:
    pool_id = checked(better, "confirm")
    better.iam.spent["acme"] = "march"
    held = better.acme.reserve(pool_id, "mine").json()
    assert (held["state"], held["stateReason"]) == ("awaiting-confirmation", "OverBudget")
    confirmed = better.acme.post(f"/v1/reservations/{held['id']}/confirm", {})
    assert confirmed.json()["state"] in ("placed", "binding"), confirmed.text


@pytest.mark.parametrize("broken", BROKEN)
def test_what_cannot_be_told_is_a_no_where_the_pool_wants_to_know(better: Plane, broken: str) -> None:
    pool_id = checked(better, "enforce")
    better.server.fail("billing/check", *[BROKEN[broken]] * 3)
    assert "this pool wants to know" in refused(better.acme.reserve(pool_id, "mine"))
    better.server.forgive()
    better.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": "confirm"}}})
    better.server.fail("billing/check", *[BROKEN[broken]] * 3)
    assert better.acme.reserve(pool_id).json()["stateReason"] == "OverBudget"


def test_a_session_that_ended_meanwhile_is_401_and_the_draft_stays_open(better: Plane) -> None:
    pool_id = checked(better, "enforce")
    better.server.fail("billing/check", faults.error(401, "UNAUTHENTICATED"))
    assert better.acme.reserve(pool_id, "mine").status_code == 401
    assert better.acme.reserve(pool_id, "mine").status_code == 201


def test_our_own_budgets_are_asked_first_and_hold_as_before(better: Plane) -> None:
    pool_id = checked(better, "enforce")
    better.root.ok("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 0})
    no = better.acme.reserve(pool_id)
    assert (no.status_code, no.json()["code"]) == (409, "BUDGET_EXCEEDED")
    assert better.iam.count("billing/check") == 0


def test_whatever_races_there_are_each_claim_is_asked_about_once(better: Plane) -> None:
    pool_id = checked(better, "enforce")
    with ThreadPoolExecutor(8) as many:
        answers = list(many.map(lambda n: better.acme.reserve(pool_id, f"k-{n}"), range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert better.iam.count("billing/check") == 8


def test_a_longer_stay_is_asked_about_too(better: Plane) -> None:
    pool_id = checked(better, "enforce")
    made = better.acme.reserve(pool_id, "mine").json()
    better.iam.spent["acme"] = "march"
    path = f"/v1/reservations/{made['id']}/extend"
    body = {"endsAt": made["endsAt"] + 3_600_000}
    refused(better.acme.call("POST", path, body, **{"Idempotency-Key": "longer"}))
