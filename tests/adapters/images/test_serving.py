"""An agent fetches image and seed of an instance with its allocation's token, for as long as the instance is there."""

import base64
import hashlib
from typing import Any, NamedTuple

import pytest

from adapters.http import ranges
from domain import image, instance
from domain.event import Append, Change, Meta
from given import Plane

DISK = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(DISK).hexdigest()
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDIhz2GK/XCUj4i6Q5yQJNL1MKPZ0ymPJ9vDFXrS3DQN"


class Running(NamedTuple):
    instance_id: str
    image_id: str
    allocation_id: str
    token: str


def running(plane: Plane, **fields: Any) -> Running:
    """An instance that its node was told to have."""
    pool_id, _ = plane.hosts()
    image_id = plane.image(content=DISK)
    made = plane.instance(pool_id, imageId=image_id, **fields)
    while (state := plane.store.load(made["id"]).state).allocation_id is None:
        assert plane.wired.follower.wait(plane.wired.follower.position + 1, 10)
    token = plane.wired.instance_key.token(state.allocation_id, made["id"])
    return Running(made["id"], image_id, state.allocation_id, token)


def fetch(plane: Plane, path: str, token: str | None, **headers: str) -> Any:
    known = {"authorization": f"Bearer {token}"} if token else {}
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    return plane.app.get(path, headers=known | extra)


def append(plane: Plane, stream: str, event: Any) -> None:
    plane.store.append(Append((Change(stream, plane.store.load(stream).version, (event,)),), Meta("controller:test")))


def test_the_bytes_come_whole_or_from_where_they_were_cut(plane: Plane) -> None:
    known = running(plane)
    path = f"/v1/agent/images/{SHA256}"
    whole = fetch(plane, path, known.token)
    assert (whole.status_code, whole.content == DISK) == (200, True)
    assert whole.headers["etag"] == f'"{SHA256}"'
    assert whole.headers["accept-ranges"] == "bytes"
    rest = fetch(plane, path, known.token, range="bytes=1000000-")
    assert (rest.status_code, rest.content == DISK[1_000_000:]) == (206, True)
    assert rest.headers["content-range"] == f"bytes 1000000-{len(DISK) - 1}/{len(DISK)}"
    over = fetch(plane, path, known.token, range=f"bytes={len(DISK)}-")
    assert (over.status_code, over.content) == (416, b"")
    assert over.headers["content-range"] == f"bytes */{len(DISK)}"
    head = plane.app.head(path, headers={"authorization": f"Bearer {known.token}"})
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(DISK)))


def test_the_seed_says_who_it_is_and_what_it_was_given(plane: Plane) -> None:
    data = base64.b64encode(b"#cloud-config\n").decode()
    known = running(plane, name="web", sshKeys=[KEY], userData=data)
    seed = fetch(plane, f"/v1/agent/instances/{known.instance_id}/seed", known.token)
    assert seed.json() == {"name": "web", "instanceId": known.instance_id, "sshKeys": [KEY], "userData": data}
    assert seed.headers["cache-control"] == "no-store"


def test_a_seed_without_user_data_is_whole_and_one_that_lost_them_is_not_given_out(plane: Plane) -> None:
    known = running(plane)
    path = f"/v1/agent/instances/{known.instance_id}/seed"
    assert fetch(plane, path, known.token).json()["userData"] == ""


def test_user_data_that_are_gone_are_no_empty_ones(plane: Plane) -> None:
    known = running(plane, userData=base64.b64encode(b"x").decode())
    plane.wired.user_data.drop(known.instance_id)
    answer = fetch(plane, f"/v1/agent/instances/{known.instance_id}/seed", known.token)
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


def test_no_other_token_opens_anything(plane: Plane) -> None:
    known = running(plane)
    paths = f"/v1/agent/images/{SHA256}", f"/v1/agent/instances/{known.instance_id}/seed"
    forged = known.token[:-1] + ("0" if known.token[-1] != "0" else "1")
    elsewhere = plane.wired.instance_key.token("alloc_other", known.instance_id)
    nobodys = plane.wired.instance_key.token(known.allocation_id, "inst_nobody")
    session = plane.root.headers["authorization"].removeprefix("Bearer ")
    for path in paths:
        for token in (None, forged, elsewhere, nobodys, session, "a.b.c", "x" * 4000):
            answer = fetch(plane, path, token)
            assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED"), (path, token)
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("other", ["0" * 64, "../instance.key", "%2e%2e%2finstance.key", "%00", SHA256.upper()])
def test_a_token_opens_its_own_image_and_instance_alone(plane: Plane, other: str) -> None:
    known = running(plane)
    assert fetch(plane, f"/v1/agent/images/{other}", known.token).status_code in (403, 404)
    assert fetch(plane, f"/v1/agent/instances/{other}/seed", known.token).status_code in (403, 404)


def test_a_token_is_good_while_the_instance_is_on_its_allocation(plane: Plane) -> None:
    known = running(plane)
    path = f"/v1/agent/images/{SHA256}"
    append(plane, known.instance_id, instance.Displaced("node_x", "lost", plane.store.now()))
    assert fetch(plane, path, known.token).status_code == 401
    moved = instance.Placed("node_x", "x", "alloc_new", 7, plane.store.now())
    append(plane, known.instance_id, moved)
    assert fetch(plane, path, known.token).status_code == 401
    token = plane.wired.instance_key.token("alloc_new", known.instance_id)
    assert fetch(plane, path, token).status_code == 200
    append(plane, known.instance_id, instance.Deleted("Test", plane.store.now()))
    assert fetch(plane, path, token).status_code == 401


def test_bytes_that_were_removed_by_hand_are_missed(plane: Plane) -> None:
    known = running(plane)
    plane.wired.blobs.path(SHA256).unlink()
    for _ in range(2):
        answer = fetch(plane, f"/v1/agent/images/{SHA256}", known.token)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
        assert "uploaded again" in answer.json()["detail"]
    assert [type(event) for event in plane.events(known.image_id)].count(image.Missed) == 1
    assert plane.root.ok("GET", f"/v1/images/{known.image_id}")["state"] == "registered"
    plane.root.raw("PUT", f"/v1/images/{known.image_id}/content", DISK)
    assert fetch(plane, f"/v1/agent/images/{SHA256}", known.token).content == DISK


TAG = f'"{SHA256}"'


def test_a_directory_that_is_not_mounted_has_lost_nothing(plane: Plane) -> None:
    known = running(plane)
    there, away = (plane.access.parent / "blobs" / name for name in ("sha256", "elsewhere"))
    there.rename(away)
    answer = fetch(plane, f"/v1/agent/images/{SHA256}", known.token)
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    again = plane.acme.launch(plane.store.load(known.instance_id).state.draft.pool_id, plane.flavor(), known.image_id)
    assert (again.status_code, again.json()["code"]) == (503, "UNAVAILABLE")
    assert plane.root.ok("GET", f"/v1/images/{known.image_id}")["state"] == "stored"
    away.rename(there)
    assert fetch(plane, f"/v1/agent/images/{SHA256}", known.token).status_code == 200


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-", range(100)),
        ("bytes=99-", range(99, 100)),
        ("bytes=100-", range(0)),
        ("bytes=5-9", range(5, 10)),
        ("Bytes=5-999", range(5, 100)),
        ("bytes=-10", range(90, 100)),
        ("bytes=-999", range(100)),
        ("bytes=-0", range(0)),
        ("bytes=9-5", None),
        ("bytes=0-1,5-6", None),
        ("bytes=x-", None),
        ("lines=0-", None),
        ("", None),
    ],
)
def test_a_range_is_read_as_http_has_it(header: str, expected: range | None) -> None:
    found = ranges.wanted({b"range": header}, TAG, 100)
    assert found == expected


def test_a_part_of_other_bytes_is_not_gone_on_with() -> None:
    assert ranges.wanted({b"range": "bytes=5-", b"if-range": '"other"'}, TAG, 100) is None
    assert ranges.wanted({b"range": "bytes=5-", b"if-range": TAG}, TAG, 100) == range(5, 100)
