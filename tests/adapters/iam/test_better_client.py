"""What is asked of Better IAM twice, and what is made of answers that nobody agreed on (iam.md §11, §12)."""

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from adapters.iam.better import client
from adapters.iam.better.answers import Failed, Unknown
from adapters.telemetry import REQUEST_ID
from domain import errors
from iam_server import faults
from iam_server.http import Server, serving
from iam_server.model import Iam

METHOD = "sts/getCallerIdentity"


@pytest.fixture
def server() -> Iterator[Server]:
    iam = Iam(frozenset())
    iam.tenant("acme", None)
    with serving(iam) as served:
        yield served


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def asking(server: Server, waits: list[float]) -> Iterator[client.Client]:
    made = client.Client(server.url, total_s=0.5, wait=waits.append)
    yield made
    made.close()


def ask(asking: client.Client, token: str | None) -> Any:
    return asking.call(METHOD, {}, dict[str, Any], token)


def test_a_call_bears_the_callers_token_the_two_headers_and_the_request(server: Server, asking: client.Client) -> None:
    token = server.iam.sign_in("alice", "acme")
    REQUEST_ID.set("req-1")
    assert ask(asking, token)["identityId"] == "alice"
    headers = server.iam.asked[0][2]
    assert headers["authorization"] == f"Bearer {token}"
    assert (headers["content-type"], headers["x-better-iam"]) == ("application/json", "1")
    assert headers["x-request-id"] == "req-1"
    assert "origin" not in headers
    assert "cookie" not in headers


@pytest.mark.parametrize(
    ("failures", "waited"),
    [
        ([faults.error(503, "STORAGE_BUSY")] * 3, [0.05, 0.1, 0.2]),
        ([faults.error(500, "INTERNAL_ERROR")], [0.05]),
        ([faults.error(429, "RATE_LIMITED", retryAfterMs=200)] * 2, [0.2, 0.2]),
        ([faults.error(500, "INTERNAL_ERROR"), faults.error(503, "STORAGE_BUSY")], [0.05, 0.05]),
    ],
)
def test_what_was_not_done_is_asked_again(
    server: Server, asking: client.Client, waits: list[float], failures: list[Any], waited: list[float]
) -> None:
    server.fail(METHOD, *failures)
    assert ask(asking, server.iam.sign_in("alice", "acme"))["identityId"] == "alice"
    assert waits == waited


@pytest.mark.parametrize(
    ("failures", "calls"),
    [
        ([faults.error(503, "STORAGE_BUSY")] * 4, 4),
        ([faults.error(500, "INTERNAL_ERROR")] * 2, 2),
        ([faults.error(503, "MAINTENANCE")], 1),
        ([faults.answer(502, b"<html>bad gateway</html>", "text/html")], 1),
        ([faults.error(429, "RATE_LIMITED", retryAfterMs=60_000)], 1),
        ([faults.error(429, "QUOTA_EXCEEDED")], 1),
        ([faults.hang_up], 1),
        ([faults.answer(302, b"", location="http://127.0.0.1:9/")], 1),
        ([faults.answer(413, b"Payload too large", "text/plain")], 1),
    ],
)
def test_the_rest_is_not_asked_again(server: Server, asking: client.Client, failures: list[Any], calls: int) -> None:
    server.fail(METHOD, *failures)
    with pytest.raises(errors.Unavailable):
        ask(asking, server.iam.sign_in("alice", "acme"))
    assert server.iam.count(METHOD) == calls


def test_a_long_wait_is_the_clients_to_wait(server: Server, asking: client.Client) -> None:
    server.fail(METHOD, faults.error(429, "RATE_LIMITED", retryAfterMs=60_500))
    with pytest.raises(errors.Unavailable) as refused:
        ask(asking, server.iam.sign_in("alice", "acme"))
    assert refused.value.extra == {"retryAfterSeconds": 61}


def test_a_no_keeps_its_code(server: Server, asking: client.Client) -> None:
    server.fail(METHOD, faults.error(403, "MFA_REQUIRED"))
    with pytest.raises(Failed) as no:
        ask(asking, server.iam.sign_in("alice", "acme"))
    assert (no.value.status, no.value.code) == (403, "MFA_REQUIRED")


def test_a_token_that_is_not_taken_is_the_callers_401(asking: client.Client) -> None:
    with pytest.raises(errors.Unauthenticated):
        ask(asking, "biam_ses_unknown")


def test_an_answer_that_does_not_come_is_not_waited_for(server: Server, asking: client.Client) -> None:
    done = Event()
    server.fail(METHOD, faults.silent(done), faults.dripping(done))
    token = server.iam.sign_in("alice", "acme")
    for _ in range(2):
        with pytest.raises(Unknown):
            ask(asking, token)
    done.set()
    assert server.iam.count(METHOD) == 2


HOSTILE = {
    "html": b"<html><body>Sign in</body></html>",
    "empty": b"",
    "no object": b"[1, 2]",
    "no data": b'{"result": {}}',
    "data of another type": b'{"data": "yes"}',
    "not utf-8": b'{"data": {"a": "\xff"}}',
    "huge": b'{"data": {"a": "' + b"x" * client.MAX_ANSWER + b'"}}',
    "deep": b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "cut off": b'{"data": {"identityId": "al',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_of_another_form_is_none(server: Server, asking: client.Client, body: bytes) -> None:
    server.fail(METHOD, faults.answer(200, body))
    with pytest.raises(Unknown):
        ask(asking, server.iam.sign_in("alice", "acme"))


def test_an_answer_that_swells_is_none(server: Server, asking: client.Client) -> None:
    """64 KiB on the wire would be 64 MiB in memory, for each call."""
    packed = gzip.compress(b'{"data": {"swells": "' + b" " * 60_000_000 + b'"}}')
    server.fail(METHOD, faults.answer(200, packed, content_encoding="gzip"))
    tracemalloc.start()
    with pytest.raises(Unknown):
        ask(asking, server.iam.sign_in("alice", "acme"))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * client.MAX_ANSWER


def test_a_server_that_is_down_is_none(asking: client.Client, server: Server) -> None:
    server.stop()
    with pytest.raises(Unknown):
        ask(asking, "biam_ses_x")


def test_the_limits_of_the_contract_are_the_servers_too(server: Server, asking: client.Client) -> None:
    with pytest.raises(ValueError, match="65536"):
        asking.call("authorize", {"tenantId": "x" * 70_000}, dict[str, Any], "t")
    assert json.dumps(server.iam.asked) == "[]"
