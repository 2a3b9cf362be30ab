"""Tokens against a running plane: revoked ones are nobody's at once, and none is ever in a log."""

import logging
from typing import Any

import msgspec
import pytest

from adapters.iam import access_edit, tokens
from adapters.registry import OPERATIONS
from adapters.telemetry import JsonFormatter
from domain.operation import Call
from given import Client, Plane


def made(plane: Plane, name: str = "acme") -> str:
    token = tokens.mint()
    access_edit.add(plane.access, "identities", name, tokens.digest(token))
    assert plane.wired.authorizer.reload()
    return token


def revoke(plane: Plane, token: str) -> None:
    gone = tokens.digest(token)
    access_edit.revoke(plane.access, lambda file: (access_edit.by_prefix(file, gone),))
    assert plane.wired.authorizer.reload()


def test_a_revoked_token_is_nobodys_from_the_reload_on_and_others_go_on(plane: Plane) -> None:
    token = made(plane)
    client = Client(plane.app, token)
    assert client.get("/v1/pools").status_code == 200
    revoke(plane, token)
    answer = client.get("/v1/pools")
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
    assert plane.acme.get("/v1/pools").status_code == 200
    decided = plane.refusals()
    assert decided == [], "who is nobody leaves no record"


@pytest.mark.parametrize(("who", "scope"), [("acme", "tenant"), ("root", "fleet")])
def test_a_stream_that_is_open_shows_a_revoked_token_nothing_more(plane: Plane, who: str, scope: str) -> None:
    token = made(plane, who)
    session = plane.wired.authorizer.identify(token)
    operation = OPERATIONS["events.stream"]
    request = msgspec.convert({"scope": scope, "after": 0}, operation.request)
    feeds = [plane.wired.dispatcher(operation, request, Call(session=session, request_id="r1")).body for _ in range(2)]
    plane.project()
    plane.settle()
    assert feeds[0].read() != []
    revoke(plane, token)
    assert feeds[1].read() == []


def test_the_log_says_which_of_an_identitys_tokens_was_used(plane: Plane) -> None:
    token = made(plane)
    Client(plane.app, token).ok("POST", "/v1/projects", {"name": "p1"})
    sessions = plane.rows("SELECT DISTINCT state FROM stored_events WHERE topic = 'admission.recorded.1'")
    assert any(f"api-key:{tokens.digest(token)[:16]}".encode() in bytes(state) for (state,) in sessions)


@pytest.mark.parametrize("broken", ["[tenants.platform", None])
def test_a_file_that_is_wrong_or_gone_changes_nothing_and_health_says_so(plane: Plane, broken: str | None) -> None:
    good = plane.access.read_text()
    if broken is None:
        plane.access.unlink()
    else:
        plane.access.write_text(broken)
    assert not plane.wired.authorizer.reload()
    assert plane.acme.get("/v1/pools").status_code == 200
    ready = plane.app.get("/health/ready")
    said = "is wrong" if broken else "cannot be read"
    assert (ready.status_code, ready.json()["checks"]["accessFile"]) == (200, f"{said}; an earlier one is in force")
    plane.access.write_text(good)
    plane.wired.authorizer.reload()
    assert plane.app.get("/health/ready").json()["checks"]["accessFile"] == "ok"


def test_no_token_is_ever_in_a_log(
    plane: Plane, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    good, revoked, unknown = made(plane), made(plane), tokens.mint()
    revoke(plane, revoked)
    for token in (good, revoked, unknown):
        client = Client(plane.app, token)
        client.get(f"/v1/pools?token={token}")
        client.get(f"/v1/nodes/{token}")
        client.get("/v1/pools", X_Request_Id=token)
        client.post("/v1/sites", {"name": token, "kind": token, "iamRegion": token})
        client.post("/v1/reservations", {"poolId": token}, Idempotency_Key=token)
        client.raw("POST", f"/v1/{token}", token.encode(), content_type=token)
        plane.app.get("/v1/pools", headers={"authorization": token})
        plane.app.get("/v1/pools", headers={"authorization": f"Basic {token}"})

    def crash(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"crashed on {good} and Bearer {unknown}")

    monkeypatch.setattr(plane.wired.authorizer, "authorize", crash)
    assert Client(plane.app, good).get("/v1/pools").status_code == 500
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert any("crashed on" in line for line in lines), "the crash is logged"
    assert [line for line in lines if any(token[9:] in line for token in (good, revoked, unknown))] == []
