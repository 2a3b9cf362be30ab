"""A Better IAM decides: who may, what lists show, what is told when it says no or nothing at all (iam.md §21)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.http import sse
from iam_server import faults
from iam_server.plane import Plane, plane


@pytest.fixture
def better(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    monkeypatch.setattr(sse, "SECONDS", 0.0)
    with plane(database, tmp_path) as made:
        yield made


def test_whoever_may_does_and_the_log_says_who_it_was(better: Plane) -> None:
    made = better.root.ok("POST", "/v1/sites", {"name": "north", "kind": "shared", "iamRegion": "eu-north"})
    assert better.iam.count("authorize") == 1
    better.iam.asked.clear()
    shown = better.operator.ok("GET", f"/v1/sites/{made['id']}")
    assert shown["name"] == "north"
    assert [method for method, _, _ in better.iam.asked] == ["sts/getCallerIdentity", "authorize"]
    recorded = better.store.history(made["id"])[0]
    admission = better.store.load(recorded.meta.admission).state.recorded
    assert (admission.caller.tenant_id, admission.caller.identity_id) == ("platform", "root")
    assert [(one.action, one.reason) for one in admission.decided] == [("compute:sites:create", "allowed")]
    assert admission.policy_digest == ""
    assert better.tokens["root"] not in repr(better.events(recorded.meta.admission))


def test_no_token_a_wrong_one_a_refusal_and_a_foreign_thing(better: Plane) -> None:
    site = better.site()
    assert better.nobody.get("/v1/sites").status_code == 401
    assert better.app.get("/v1/sites").status_code == 401
    body = {"name": "south", "kind": "shared", "iamRegion": "eu-south"}
    assert better.operator.post(f"/v1/pools/pool_{'0' * 26}/evict", {"reservationId": "x"}).status_code in (404, 422)
    assert better.acme.post("/v1/sites", body).status_code == 403
    assert better.acme.get(f"/v1/sites/{site}").status_code == 404
    assert [refused.reason for refused in better.refusals()][-1:] != []


@pytest.mark.parametrize("code", ["MFA_REQUIRED", "RECENT_AUTH_REQUIRED"])
def test_what_a_caller_can_do_about_a_no_reaches_it(better: Plane, code: str) -> None:
    careful = better.sign_in("carol", "platform", "platform-admin", refuses={"compute:sites:create": code})
    refused = careful.post("/v1/sites", {"name": "north", "kind": "shared", "iamRegion": "eu-north"})
    assert (refused.status_code, refused.json()["code"]) == (403, code)
    assert better.refusals()[-1].reason == code
    better.iam.sessions[careful.headers["authorization"].split()[1]].refuses.clear()
    assert careful.post("/v1/sites", {"name": "north", "kind": "shared", "iamRegion": "eu-north"}).status_code == 201


def test_root_overrides_and_the_log_says_so(better: Plane) -> None:
    root = better.sign_in("super", "platform", mfa=True, root_admin=True)
    site = root.ok("POST", "/v1/sites", {"name": "north", "kind": "shared", "iamRegion": "eu-north"})["id"]
    recorded = better.store.history(site)[0]
    admission = better.store.load(recorded.meta.admission).state.recorded
    assert [one.reason for one in admission.decided] == ["ROOT_OVERRIDE"]


def test_without_an_answer_nothing_happens_and_the_caller_may_try_again(better: Plane) -> None:
    body = {"name": "north", "kind": "shared", "iamRegion": "eu-north"}
    head = better.head()
    for fault in (faults.hang_up, faults.answer(200, b"<html>"), faults.data({"allowed": "yes", "reason": "allowed"})):
        better.server.fail("authorize", fault)
        answer = better.root.post("/v1/sites", body)
        assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
        assert "retry-after" in answer.headers
    assert better.head() == head
    assert better.root.post("/v1/sites", body).status_code == 201


def test_a_better_iam_that_is_down_lets_nobody_in(better: Plane) -> None:
    better.server.stop()
    head = better.head()
    assert better.root.post("/v1/sites", {"name": "n", "kind": "shared", "iamRegion": "eu-north"}).status_code == 503
    assert better.acme.get("/v1/reservations").status_code == 503
    assert better.app.get("/health/ready").status_code == 200
    assert better.head() == head
