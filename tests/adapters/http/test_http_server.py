"""Over real sockets: what a server in between does to the answers (HEAD, keep-alive, broken requests)."""

import socket
import threading
from collections.abc import Iterator

import fake_api
import httpx
import pytest
import uvicorn
from fake_api import KEYED, Fake, assert_problem


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    app = fake_api.application(Fake())
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as listener:  # it listens: who comes early waits
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield listener.getsockname()
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def http(address: tuple[str, int]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{address[0]}:{address[1]}", headers=KEYED) as client:
        yield client


@pytest.mark.parametrize("path", ["/v1/widgets/wdg_1", "/v1/widgets", "/schema", "/nope", "/health/ready"])
def test_head_keeps_the_connection_usable(http: httpx.Client, path: str) -> None:
    """A server that was told GET would wait for the body that HEAD leaves out."""
    head = http.head(path)
    again = http.get(path)
    assert head.status_code == again.status_code
    assert head.content == b""
    assert head.headers["content-length"]


def test_a_refused_body_does_not_spoil_the_next_request(http: httpx.Client) -> None:
    large = b'{"name": "' + b"w" * (3 << 20) + b'"}'
    chunks = (large[at : at + 65536] for at in range(0, len(large), 65536))
    kind = {"Content-Type": "application/json"}
    assert_problem(http.post("/v1/widgets", content=large, headers=kind), 413, "PAYLOAD_TOO_LARGE")
    assert_problem(http.post("/v1/widgets", content=chunks, headers=kind), 413, "PAYLOAD_TOO_LARGE")
    assert http.post("/v1/widgets", json={"name": "w"}).status_code == 201


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /v1/widgets/%FF HTTP/1.1", b"422"),
        (b"GET /v1/widgets/%00 HTTP/1.1", b"422"),
        (b"GET /v1/widgets?%FF=1 HTTP/1.1", b"400"),
        (b"GET /v1/widgets/\xff HTTP/1.1", b"400"),
        (b"OPTIONS * HTTP/1.1", b"404"),
        (b"BREW /v1/widgets HTTP/1.1", b"4"),
        (b"garbage", b"400"),
    ],
)
def test_a_broken_request_is_the_callers_fault(address: tuple[str, int], request_line: bytes, status: bytes) -> None:
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(request_line + b"\r\nHost: api\r\nAuthorization: Bearer good\r\n\r\n")
        assert connection.recv(200).startswith(b"HTTP/1.1 " + status)


def test_a_caller_who_leaves_in_the_middle_is_not_missed(address: tuple[str, int], http: httpx.Client) -> None:
    head = b"POST /v1/widgets HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer good\r\nContent-Length: 50\r\n\r\n{"
    for _ in range(5):
        with socket.create_connection(address, timeout=5) as connection:
            connection.sendall(head)
    assert http.get("/v1/widgets/wdg_1").status_code == 200
