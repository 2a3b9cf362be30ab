"""A Better IAM decides: who may, what lists show, what is told when it says no or nothing at all (iam.md §21)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.http import sse
from adapters.http.limits import Limits
from iam_server import faults
from iam_server.hooks import delivery, event
from iam_server.http import Fault
from iam_server.jwts import Issuer
from iam_server.model import Session
from iam_server.plane import SECRET, Plane, listening, plane


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


def test_who_acts_for_whom_stands_in_the_log(better: Plane) -> None:
    behind = {"impersonatorId": "support", "roleId": "role_1", "trustId": "trust_1"}
    lent = better.sign_in("alice", "acme", "tenant-admin", kind="role", more=behind)
    project = lent.ok("POST", "/v1/projects", {"name": "research"})["id"]
    caller = better.store.load(better.store.history(project)[0].meta.admission).state.recorded.caller
    assert (caller.impersonator_id, caller.role_id, caller.trust_id) == ("support", "role_1", "trust_1")
    robot = better.client(better.iam.delegate("alice", "acme", "robot", "tenant-admin"))
    project = robot.ok("POST", "/v1/projects", {"name": "other"})["id"]
    caller = better.store.load(better.store.history(project)[0].meta.admission).state.recorded.caller
    assert (caller.identity_id, caller.agent_id, caller.delegation_id) == ("alice", "robot", "dlg_robot")


def test_a_stream_shows_what_a_plan_allows(better: Plane) -> None:
    head = better.head()
    better.acme.ok("POST", "/v1/projects", {"name": "research-of-acme"})
    better.globex.ok("POST", "/v1/projects", {"name": "research-of-globex"})
    better.settle()
    shown = better.acme.get(f"/v1/events/stream?after={head}")
    assert shown.status_code == 200
    assert "research-of-acme" in shown.text
    assert "research-of-globex" not in shown.text


@pytest.mark.parametrize("fault", [faults.hang_up, faults.error(401, "UNAUTHENTICATED")])
def test_a_stream_ends_when_nobody_tells_what_it_may_show_and_is_resumed(
    better: Plane, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    head = better.head()
    better.acme.ok("POST", "/v1/projects", {"name": "research"})
    better.settle()
    better.server.fail("filters/plan", fault)
    shown = better.acme.get(f"/v1/events/stream?after={head}")
    assert (shown.status_code, "research" in shown.text) == (200, False)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert "research" in better.acme.get(f"/v1/events/stream?after={head}").text


def test_a_list_whose_plan_gets_no_answer_is_not_shown(better: Plane) -> None:
    better.server.fail("filters/plan", faults.hang_up)
    assert better.acme_user.get("/v1/reservations").status_code == 503
    assert better.acme_user.get("/v1/reservations").status_code == 200


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
    head = better.settle()
    assert better.root.post("/v1/sites", {"name": "n", "kind": "shared", "iamRegion": "eu-north"}).status_code == 503
    assert better.acme.get("/v1/reservations").status_code == 503
    ready = better.app.get("/health/ready")
    assert ready.status_code == 200, ready.text
    assert better.head() == head


def tell(better: Plane, body: dict[str, Any], secret: str = SECRET, **more: Any) -> int:
    raw, headers = delivery(body, secret, **more)
    return int(better.app.post("/v1/iam/webhook", content=raw, headers=headers).status_code)


def test_a_tenant_event_brings_the_tree_into_the_log(better: Plane) -> None:
    better.iam.tenant("initech", "platform")
    better.iam.tenants["globex"].status = "suspended"
    del better.iam.tenants["acme"]
    assert tell(better, event("tenant:suspend")) == 204
    better.until_tenant("initech", "active")
    better.until_tenant("globex", "suspended")
    better.until_tenant("acme", "deleted")


def test_a_delivery_without_a_good_signature_is_turned_away(better: Plane) -> None:
    calls = better.iam.count("tenants/listChildren")
    assert tell(better, event("tenant:create"), "whsec_other") == 401
    assert tell(better, event("tenant:create"), at=1_790_000_000) == 401
    assert better.app.post("/v1/iam/webhook", json=event("tenant:create")).status_code == 401
    assert tell(better, {"no": "event"}) == 400
    large = better.app.post("/v1/iam/webhook", json={"x": "y" * 300_000})
    assert large.status_code == 413
    assert better.iam.count("tenants/listChildren") == calls


def test_a_secret_is_rotated_without_a_restart(better: Plane) -> None:
    secrets = better.access / "iam-secrets"
    secrets.write_text(f"{SECRET}\nwhsec_new\n")
    assert [tell(better, event("webhook:ping"), secret) for secret in (SECRET, "whsec_new")] == [204, 204]
    secrets.write_text("whsec_new\n")
    assert [tell(better, event("webhook:ping"), secret) for secret in (SECRET, "whsec_new")] == [401, 204]
    secrets.unlink()
    assert tell(better, event("webhook:ping"), "whsec_new") == 503, "it is delivered again"


def test_a_session_jwt_spares_a_question_for_reads_alone(database: str, tmp_path: Path) -> None:
    with plane(database, tmp_path, jwt_audience="better-compute") as better:
        issuer = Issuer(better.server)
        token = issuer.token(sub="root", tid="platform", sid="ses_jwt", jti="ses_jwt")
        better.iam.sessions[token] = Session("ses_jwt", "root", "platform", "role", roles=["platform-admin"])
        caller = better.client(token)
        better.iam.asked.clear()
        assert caller.get("/v1/sites").status_code == 200
        assert better.iam.count("sts/getCallerIdentity") == 0
        assert better.iam.count("authorize") == 1
        caller.ok("POST", "/v1/sites", {"name": "north", "kind": "shared", "iamRegion": "eu-north"})
        assert better.iam.count("sts/getCallerIdentity") == 1
        del better.iam.sessions[token]
        assert caller.get("/v1/sites").status_code == 401, "revoked: the decision itself is asked for"
        forged = issuer.token(sub="root", tid="platform", iss="https://other.example")
        assert better.client(forged).get("/v1/sites").status_code == 401


HEADER = "X-Compute-Client-Address"


def test_it_is_told_where_a_request_came_from_and_not_what_the_client_says(database: str, tmp_path: Path) -> None:
    with plane(database, tmp_path, client_address_header=HEADER) as better:
        own = [headers for method, _, headers in better.iam.asked if method.startswith("tenants/")]
        assert own
        assert all(HEADER.lower() not in headers for headers in own), "what nobody asked for came from nowhere"
        better.iam.asked.clear()
        better.root.get("/v1/sites", **{HEADER: "198.51.100.7"})
        better.root.get("/v1/sites", **{HEADER: "198.51.100.7", "X-Forwarded-For": "2001:db8::1"})
        better.root.get("/v1/sites", **{"X-Forwarded-For": "not an address"})
        told = [headers.get(HEADER.lower()) for method, _, headers in better.iam.asked if "getCaller" in method]
        assert told == ["127.0.0.1", "2001:db8::1", None]
        assert {method for method, _, headers in better.iam.asked if HEADER.lower() in headers} > {"authorize"}


def test_unless_it_is_asked_for_no_address_is_told(better: Plane) -> None:
    better.root.get("/v1/sites", **{HEADER: "198.51.100.7"})
    assert all(HEADER.lower() not in headers for _, _, headers in better.iam.asked)


def test_a_flood_of_unknown_tokens_ends_here_and_whoever_is_known_goes_on(better: Plane) -> None:
    few = Limits(mutations=1e6, reads=1e6, anonymous=0.001)
    with listening(better.wired, few) as url, httpx.Client(base_url=url, trust_env=False) as http:

        def status(token: str) -> int:
            return int(http.get("/v1/sites", headers={"authorization": f"Bearer {token}"}).status_code)

        assert [status(better.tokens["root"]), status(better.tokens["operator"])] == [200, 200]
        better.iam.asked.clear()
        assert [status(f"guess-{n}") for n in range(20)] == [401] + [429] * 19
        assert better.iam.count("sts/getCallerIdentity") == 1
        assert status(better.tokens["root"]) == 200
