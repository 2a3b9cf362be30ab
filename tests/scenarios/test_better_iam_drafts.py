"""What a Better IAM decides on is in the log first: it reads a draft back before it says yes (iam.md §8, §21)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.http import sse
from domain import policy
from iam_server import faults
from iam_server.model import IamError, nothing
from iam_server.plane import Plane, plane

CREATE = "compute:reservations:create"
ALL = [{"class": "gpu", "count": 8}]
HOUR = 3_600_000


@pytest.fixture
def better(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    monkeypatch.setattr(sse, "SECONDS", 0.0)
    with plane(database, tmp_path) as made:
        yield made


def test_a_reservation_is_decided_once_as_it_stands_in_the_log(better: Plane) -> None:
    pool_id, _ = better.fleet()
    better.iam.asked.clear()
    made = better.acme_user.reserve(pool_id, "mine")
    assert made.status_code == 201, made.text
    asked = [(body["action"], body["resource"]) for method, body, _ in better.iam.asked if method == "authorize"]
    assert asked.count((CREATE, {"type": "compute-reservation", "id": made.json()["id"]})) == 1
    better.iam.asked.clear()
    again = better.acme_user.reserve(pool_id, "mine")
    assert again.json()["id"] == made.json()["id"]
    assert better.iam.count("authorize") == 0, "the first decision stands"


def test_a_plain_user_sees_its_own_reservations_alone(better: Plane) -> None:
    pool_id, _ = better.fleet()
    mine = better.acme_user.reserve(pool_id).json()["id"]
    others = better.acme.reserve(pool_id).json()["id"]
    better.settle()
    better.iam.asked.clear()
    shown = better.acme_user.ok("GET", "/v1/reservations")
    assert [row["id"] for row in shown["items"]] == [mine]
    both = better.acme.ok("GET", "/v1/reservations")
    assert {row["id"] for row in both["items"]} == {mine, others}
    assert better.globex.ok("GET", "/v1/reservations")["items"] == []
    assert better.acme_user.get(f"/v1/reservations/{others}").status_code == 403
    assert better.globex.get(f"/v1/reservations/{others}").status_code == 404


def test_a_delegated_create_waits_for_one_confirmation_and_uses_it_up(better: Plane) -> None:
    pool_id, _ = better.fleet()
    token = better.iam.delegate("acme", "acme", "robot", "tenant-admin", confirm=(CREATE,))
    robot = better.client(token)
    held = robot.reserve(pool_id, "job")
    assert held.status_code == 201, held.text
    assert held.json()["state"] == "awaiting-confirmation"
    made = held.json()["id"]
    better.iam.confirm(token, CREATE, f"compute-reservation/{made}")
    confirmed = robot.reserve(pool_id, "job")
    assert confirmed.status_code == 201, confirmed.text
    assert (confirmed.json()["id"], confirmed.json()["state"] in ("placed", "binding", "active")) == (made, True)
    assert better.iam.approvals == set()


def test_a_create_that_needs_a_second_factor_goes_on_once_it_is_there(better: Plane) -> None:
    pool_id, _ = better.fleet()
    careful = better.sign_in("carol", "acme", "tenant-admin", refuses={CREATE: "MFA_REQUIRED"})
    refused = careful.reserve(pool_id, "mine")
    assert (refused.status_code, refused.json()["code"]) == (403, "MFA_REQUIRED")
    better.iam.sessions[careful.headers["authorization"].split()[1]].refuses.clear()
    assert careful.reserve(pool_id, "mine").status_code == 201


def test_a_draft_whose_decision_got_no_answer_is_decided_when_the_same_comes_again(better: Plane) -> None:
    pool_id, _ = better.fleet()
    better.iam.asked.clear()
    better.server.fail("authorize", faults.hang_up)
    lost = better.acme.reserve(pool_id, "mine")
    assert (lost.status_code, lost.json()["code"]) == (503, "UNAVAILABLE")
    assert better.iam.count("authorize") == 1, "it may have used up a confirmation"
    assert better.acme.reserve(pool_id, "mine").status_code == 201
    assert better.iam.count("authorize") == 2


def test_a_draft_that_the_resolver_does_not_show_is_denied(better: Plane) -> None:
    pool_id, _ = better.fleet()
    better.iam.resolver = nothing
    refused = better.acme.reserve(pool_id, "mine")
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    assert better.refusals()[-1].reason == "RESOURCE_MISMATCH"


def test_a_resolver_that_is_broken_denies_nothing_and_allows_nothing(better: Plane) -> None:
    pool_id, _ = better.fleet()
    resolver = better.iam.resolver

    def broken(tenant_id: str, type: str, id: str) -> None:
        raise IamError("INTERNAL_ERROR", 500)

    better.iam.resolver = broken
    assert better.acme.reserve(pool_id, "mine").status_code == 503
    better.iam.resolver = resolver
    assert better.acme.reserve(pool_id, "mine").status_code == 201


def test_a_preview_asks_for_a_plan_and_uses_up_nothing(better: Plane) -> None:
    pool_id, _ = better.fleet()
    body = {"poolId": pool_id, "devices": [{"class": "gpu", "count": 1}], "durationSeconds": 3600}
    better.iam.asked.clear()
    seen = better.acme.ok("POST", "/v1/reservations/preview", body)
    assert seen["decision"] == "allowed"
    asked = [(method, body.get("action")) for method, body, _ in better.iam.asked]
    assert ("filters/plan", CREATE) in asked
    assert ("authorize", CREATE) not in asked
    stranger = better.sign_in("dave", "acme", "tenant-auditor")
    assert stranger.ok("POST", "/v1/reservations/preview", body)["decision"] == "denied"


def test_relations_on_the_pool_reach_the_decision(better: Plane) -> None:
    pool_id, _ = better.fleet()
    statement = {
        "effect": "allow",
        "actions": ["compute:*"],
        "resources": ["compute-*/*"],
        "conditions": {"ArrayContains": {"resource.parentRelations": "user"}},
    }
    better.iam.roles["pool-users"] = policy.validate({"version": 1, "statements": [statement]})
    erin = better.sign_in("erin", "acme", "pool-users")
    assert erin.reserve(pool_id).status_code == 403
    better.iam.relate("acme", "erin", "user", "compute-pool", pool_id)
    assert erin.reserve(pool_id).status_code == 201


def test_who_is_in_the_way_is_asked_once_and_told_as_far_as_it_is_known(better: Plane) -> None:
    pool_id, _ = better.fleet()
    mine = better.acme.reserve(pool_id, devices=ALL).json()
    ends_at = mine["endsAt"]
    others = [better.acme.reserve(pool_id, startsAt=ends_at + n * HOUR, devices=ALL).json()["id"] for n in range(3)]
    better.iam.asked.clear()

    def refused(key: str, hours: int) -> str:
        answer = better.acme.post(
            f"/v1/reservations/{mine['id']}/extend", {"endsAt": ends_at + hours * HOUR}, Idempotency_Key=key
        )
        assert (answer.status_code, answer.json()["code"]) == (409, "DOUBLE_BOOKED"), answer.text
        return str(answer.json()["detail"])

    detail = refused("three", 3)
    assert all(f"{other} from" in detail for other in others)
    assert (better.iam.count("authorize"), better.iam.count("filters/plan")) == (1, 1)
    better.server.fail("filters/plan", faults.hang_up)
    detail = refused("two", 2)
    assert detail.count("busy from") == 2, "the decision was made: it is not lost for want of names"
    assert not any(other in detail for other in others)
