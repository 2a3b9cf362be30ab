"""Uploads over real sockets: who leaves in the middle, who waits to be asked, and what memory they take."""

import asyncio
import hashlib
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from adapters.http import upload
from adapters.http.app import create_app
from adapters.http.health import Health
from adapters.http.limits import Limits
from adapters.registry import OPERATIONS
from domain import errors
from given import DEADLINE_S, Client, Plane

MIB = 1 << 20
DISK = bytes(range(256)) * (4 * MIB // 256)


@pytest.fixture
def address(plane: Plane) -> Iterator[tuple[str, int]]:
    """The plane's operations behind a server."""
    wired = plane.wired
    app = create_app(
        OPERATIONS,
        wired.dispatcher,
        wired.authorizer.identify,
        lambda: Health(ready=True, checks={}),
        limits=Limits(mutations=1e6),
        begin=wired.uploads.begin,
    )
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as listener:  # it listens: who comes early waits
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield listener.getsockname()
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def http(address: tuple[str, int]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{address[0]}:{address[1]}", timeout=DEADLINE_S) as client:
        yield client


def head(client: Client, image_id: str, *more: str, length: int = len(DISK)) -> bytes:
    lines = [f"PUT /v1/images/{image_id}/content HTTP/1.1", "Host: api", f"Content-Length: {length}", *more]
    lines += [f"{name}: {value}" for name, value in client.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def answered(connection: socket.socket) -> bytes:
    """The first line of what comes next."""
    connection.settimeout(DEADLINE_S)
    return connection.recv(65_536).partition(b"\r\n")[0]


def coming(plane: Plane) -> list[Any]:
    return list((plane.access.parent / "blobs" / "coming").glob("*"))


def until(found: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not found():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_who_waits_to_be_asked_sends_nothing_for_nothing(plane: Plane, address: tuple[str, int]) -> None:
    image_id = plane.registered(plane.acme, DISK)
    with socket.create_connection(address) as connection:
        connection.sendall(head(plane.globex, image_id, "Expect: 100-continue"))
        assert answered(connection) == b"HTTP/1.1 404 Not Found"
    with socket.create_connection(address) as connection:
        connection.sendall(head(plane.acme, image_id, "Expect: 100-continue"))
        assert answered(connection) == b"HTTP/1.1 100 Continue"
        connection.sendall(DISK)
        assert answered(connection) == b"HTTP/1.1 200 OK"


def test_a_client_that_leaves_in_the_middle_leaves_nothing(plane: Plane, address: tuple[str, int]) -> None:
    image_id = plane.registered(plane.acme, DISK)
    with socket.create_connection(address) as connection:
        connection.sendall(head(plane.acme, image_id) + DISK[: 2 * MIB])
        until(lambda: coming(plane) and coming(plane)[0].stat().st_size > 0)
    until(lambda: not coming(plane))
    assert plane.acme.ok("GET", f"/v1/images/{image_id}")["state"] == "registered"


def test_what_is_of_another_format_is_refused_before_all_of_it_came(plane: Plane, address: tuple[str, int]) -> None:
    content = b"QFI\xfb" + DISK[4:]
    image_id = plane.registered(plane.acme, content)
    with socket.create_connection(address) as connection:
        connection.sendall(head(plane.acme, image_id) + content[: 3 * MIB])
        assert answered(connection).startswith(b"HTTP/1.1 422")
    assert coming(plane) == []


def test_two_who_send_one_image_at_once_both_have_sent_it(plane: Plane, address: tuple[str, int]) -> None:
    image_id = plane.registered(plane.acme, DISK)
    with socket.create_connection(address) as one, socket.create_connection(address) as other:
        for connection in (one, other):
            connection.sendall(head(plane.acme, image_id) + DISK[:MIB])
        until(lambda: len(coming(plane)) == 2)
        for connection in (one, other):
            connection.sendall(DISK[MIB:])
        assert [answered(connection) for connection in (one, other)] == [b"HTTP/1.1 200 OK"] * 2
    assert coming(plane) == []
    assert len(plane.events(image_id)) == 2
    assert plane.wired.blobs.path(hashlib.sha256(DISK).hexdigest()).read_bytes() == DISK


def test_one_tenant_does_not_keep_the_others_out(plane: Plane, address: tuple[str, int], http: httpx.Client) -> None:
    mine, theirs = plane.registered(plane.acme, DISK), plane.registered(plane.globex, DISK)
    open_ones = [socket.create_connection(address) for _ in range(4)]
    for connection in open_ones:
        connection.sendall(head(plane.acme, mine) + DISK[:MIB])
    until(lambda: len(coming(plane)) == 4)
    path = f"/v1/images/{mine}/content"
    fifth = http.put(path, content=DISK, headers=plane.acme.headers)
    assert (fifth.status_code, fifth.json()["code"]) == (503, "UNAVAILABLE")
    other = http.put(f"/v1/images/{theirs}/content", content=DISK, headers=plane.globex.headers)
    assert other.status_code == 200
    for connection in open_ones:
        connection.close()
    until(lambda: not coming(plane))
    assert http.put(path, content=DISK, headers=plane.acme.headers).status_code == 200


def test_who_sends_too_slowly_is_let_go(
    plane: Plane, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "STALL_SECONDS", 0.2)
    image_id = plane.registered(plane.acme, DISK)
    with socket.create_connection(address) as connection:
        connection.sendall(head(plane.acme, image_id) + DISK[:MIB])
        assert answered(connection).startswith(b"HTTP/1.1 400")
    until(lambda: not coming(plane))


def test_who_sends_crumb_by_crumb_is_no_quicker_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "STALL_SECONDS", 0.2)

    async def crumb() -> Any:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def first() -> bytes:
        return await anext(upload._pieces(crumb))

    with pytest.raises(errors.Malformed, match="less than"):
        asyncio.run(first())


def test_an_upload_takes_the_same_memory_however_long_it_is(plane: Plane, http: httpx.Client) -> None:
    block = bytes(MIB)
    image_id = plane.registered(plane.acme, sizeBytes=64 * MIB, sha256=hashlib.sha256(block * 64).hexdigest())
    tracemalloc.start()
    try:
        path = f"/v1/images/{image_id}/content"
        answer = http.put(path, content=(block for _ in range(64)), headers=plane.acme.headers)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status_code == 200, answer.text
    assert peak < 24 * MIB
