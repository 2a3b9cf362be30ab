"""What holds for every answer, whoever gave it (api.md §2; ecosystem.md §1.4)."""

import asyncio
import io
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import fake_api
import pytest
from fake_api import ALICE, KEYED, Fake, assert_problem
from litestar import Request, get, post, put
from litestar.params import JSONBody
from litestar.response import ServerSentEvent
from prometheus_client import CollectorRegistry

from adapters import telemetry
from adapters.http import body
from adapters.http.app import create_app
from adapters.http.threads import Workers
from domain import errors


@get("/v1/boom", name="boom")
async def boom() -> None:
    raise RuntimeError("inside")


@get("/v1/refused", name="refused")
async def refused() -> None:
    raise errors.Conflict("not now")


@get("/v1/stream", name="stream")
async def stream() -> ServerSentEvent:
    async def ticks() -> AsyncIterator[str]:
        for tick in range(3):
            yield str(tick)

    return ServerSentEvent(ticks())


@put("/v1/raw", name="raw", request_max_body_size=None)
async def raw(request: Request[Any, Any, Any]) -> int:
    return len(await request.body())


@post("/v1/parsed", name="parsed")
async def parsed(data: JSONBody[dict[str, int]]) -> dict[str, int]:
    return data


@pytest.fixture(scope="module")
def http() -> Any:
    with fake_api.client(extra=[boom, refused, stream, raw, parsed]) as client:
        client.headers.update(KEYED)
        yield client


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    telemetry.configure(stream=stream)
    yield stream
    root.handlers[:], _ = before
    root.setLevel(before[1])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/widgets/wdg_1", 200),
        ("GET", "/v1/widgets?x=1", 400),
        ("GET", "/nope", 404),
        ("PUT", "/v1/widgets/wdg_1", 405),
        ("FOO", "/v1/widgets/wdg_1", 405),
        ("GET", "/v1/boom", 500),
        ("GET", "/v1/refused", 409),
        ("GET", "/health/live", 200),
        ("GET", "/schema", 200),
    ],
)
def test_every_answer_has_its_id_and_is_safe_to_show(http: Any, method: str, path: str, status: int) -> None:
    response = http.request(method, path, headers={"X-Request-Id": "mine:1"})
    assert response.status_code == status
    assert response.headers["x-request-id"] == "mine:1"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["cache-control"] in ("no-store", "no-cache")
    if status >= 400:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["requestId"] == "mine:1"


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 129, "a\nb", "é", "<script>", "biam_key_" + "A" * 40])
def test_an_id_that_could_not_stand_in_a_log_is_replaced(http: Any, given: str | None) -> None:
    headers = {} if given is None else {b"x-request-id": given.encode("latin-1")}
    made = http.get("/health/live", headers=headers).headers["x-request-id"]
    assert made != given
    assert len(made) == 32


def test_an_unknown_method_is_answered_with_the_known_ones(http: Any) -> None:
    response = http.put("/v1/widgets/wdg_1")
    assert_problem(response, 405, "METHOD_NOT_ALLOWED")
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"}


@pytest.mark.parametrize("path", ["/v1/widgets/wdg_1", "/v1/widgets", "/schema", "/v1/stream", "/metrics"])
def test_options_names_every_verb_of_a_path_as_its_405_does(http: Any, path: str) -> None:
    response = http.options(path)
    assert (response.status_code, response.content) == (204, b"")
    refused = http.request("FOO", path)
    assert response.headers["allow"] == refused.headers["allow"]
    assert {"GET", "HEAD", "OPTIONS"} <= set(response.headers["allow"].split(", "))


@pytest.mark.parametrize("path", ["/v1/widgets/wdg_1", "/schema", "/v1/stream", "/health/ready", "/metrics"])
def test_head_answers_as_get_without_a_body(http: Any, path: str) -> None:
    response = http.head(path)
    assert response.status_code == 200
    assert response.content == b""
    assert response.headers.get("content-type") == http.get(path).headers.get("content-type")


def test_a_stream_passes_through(http: Any) -> None:
    assert "data: 2" in http.get("/v1/stream").text


def test_a_route_may_take_more_than_the_limit_where_it_says_so(http: Any) -> None:
    large = b"x" * (2 << 20)
    assert http.put("/v1/raw", content=large).json() == len(large)
    assert_problem(http.post("/v1/parsed", content=b"[" + b"1," * (1 << 20)), 413, "PAYLOAD_TOO_LARGE")


def test_what_litestar_refuses_by_itself_is_a_problem_too(http: Any) -> None:
    assert_problem(http.post("/v1/parsed", content=b"{"), 400, "MALFORMED")


def test_the_access_log_has_one_line_without_token_query_or_body(http: Any, lines: io.StringIO) -> None:
    http.post("/v1/widgets?x=hidden1", json={"name": "hidden2"}, headers={"X-Request-Id": "r1"})
    (line,) = [json.loads(text) for text in lines.getvalue().splitlines()]
    assert line["method"] == "POST"
    assert line["path"] == "/v1/widgets"
    assert line["status"] == 400
    assert line["operation"] == "widgets.create"
    assert line["requestId"] == "r1"
    assert line["caller"] == "ten_a/alice"
    assert line["ms"] >= 0
    for secret in ("good", "Bearer", "hidden1", "hidden2"):
        assert secret not in lines.getvalue()


def test_a_crash_is_logged_once_with_its_trace_and_request(http: Any, lines: io.StringIO) -> None:
    http.get("/v1/boom", headers={"X-Request-Id": "r2"})
    crash = [json.loads(text) for text in lines.getvalue().splitlines() if "RuntimeError" in text]
    assert [line["requestId"] for line in crash] == ["r2"]
    assert "Traceback" in crash[0]["exception"]


def test_worker_threads_log_under_the_request(lines: io.StringIO) -> None:
    class Logging(Fake):
        def dispatch(self, operation: Any, request: Any, call: Any) -> Any:
            logging.getLogger("inside").info("working")
            return super().dispatch(operation, request, call)

    with fake_api.client(Logging()) as http:
        http.get("/v1/widgets/wdg_1", headers=ALICE | {"X-Request-Id": "r3"})
    (line,) = [json.loads(text) for text in lines.getvalue().splitlines() if '"inside"' in text]
    assert line["requestId"] == "r3"


def test_requests_are_counted_by_operation_and_status() -> None:
    registry = CollectorRegistry()
    with fake_api.client(registry=registry) as http:
        http.get("/v1/widgets/wdg_secret", headers=ALICE)
        http.get("/v1/widgets/wdg_secret")
        http.get("/nope/wdg_secret")
        text = http.get("/metrics").text
    assert 'better_compute_http_requests_total{operation="widgets.get",status="200"} 1.0' in text
    assert 'better_compute_http_requests_total{operation="widgets.get",status="401"} 1.0' in text
    assert 'better_compute_http_requests_total{operation="unmatched",status="404"} 1.0' in text
    assert 'better_compute_http_request_seconds_count{operation="widgets.get"} 2.0' in text
    for name in ("wdg_secret", "alice", "ten_a"):
        assert name not in text


def test_a_caller_who_hangs_up_during_the_body_harms_nobody() -> None:
    fake = Fake()
    app = create_app(fake_api.OPERATIONS, fake.dispatch, fake_api.identify, fake_api.healthy)
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {
        "type": "http", "method": "POST", "path": "/v1/widgets", "raw_path": b"/v1/widgets",
        "query_string": b"", "headers": [(b"authorization", b"Bearer good")],
        "client": None, "server": None, "scheme": "http",
        "http_version": "1.1", "root_path": "", "asgi": {"version": "3.0"},
    }  # fmt: skip

    async def ask() -> None:
        await app(scope, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 400
    assert not fake.asked


def test_more_than_can_wait_is_told_to_come_back() -> None:
    held = threading.Event()

    async def crowd() -> list[Any]:
        workers = Workers(threads=1, waiting=2)
        tasks = [asyncio.create_task(workers.run(lambda: held.wait(10))) for _ in range(5)]
        await asyncio.wait(tasks[3:], timeout=10)
        held.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert await workers.run(lambda: "free again") == "free again"
        workers.close()
        return answers

    answers = asyncio.run(crowd())
    assert [isinstance(answer, errors.Unavailable) for answer in answers] == [False] * 3 + [True] * 2


def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "SECONDS", 0.05)

    async def receive() -> Any:
        await asyncio.sleep(3600)

    with pytest.raises(errors.Malformed, match="did not arrive"):
        asyncio.run(body.read(receive, {}))
