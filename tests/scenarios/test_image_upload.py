"""The bytes of an image come once, as they were registered, or nothing of them is kept (domain.md §6)."""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import disks
from adapters.images import upload as uploading
from adapters.images.blobs import Directory
from domain import errors, image
from domain.event import Append, Change, Meta
from domain.image_content import Expected
from given import Client, Plane

BYTES = {"content_type": "application/octet-stream"}
DISK = bytes(range(256)) * 2048


def put(client: Client, image_id: str, content: bytes, **headers: str) -> Any:
    return client.raw("PUT", f"/v1/images/{image_id}/content", content, **BYTES | headers)


def files(plane: Plane) -> list[str]:
    """Every file of the blob store but for locks."""
    root = plane.access.parent / "blobs"
    found = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    return sorted(str(path) for path in found if path.parts[0] != "locks")


def problem(answer: Any) -> tuple[int, str, str]:
    found = answer.json()
    return answer.status_code, found["code"], found["detail"]


def test_the_bytes_are_kept_under_their_digest_and_the_log_has_it(plane: Plane) -> None:
    image_id = plane.registered(plane.acme, DISK)
    answer = put(plane.acme, image_id, DISK)
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["state"], shown["virtualBytes"]) == ("stored", len(DISK))
    assert plane.acme.ok("GET", f"/v1/images/{image_id}")["storedAt"] == shown["storedAt"]
    digest = hashlib.sha256(DISK).hexdigest()
    assert plane.wired.blobs.path(digest).read_bytes() == DISK
    assert plane.wired.blobs.path(digest).stat().st_mode & 0o777 == 0o600
    assert files(plane) == [f"sha256/{digest[:2]}/{digest}"]


def test_the_same_bytes_again_change_nothing_and_other_bytes_are_refused(plane: Plane) -> None:
    image_id = plane.registered(plane.acme, DISK)
    first = put(plane.acme, image_id, DISK)
    again = put(plane.acme, image_id, DISK)
    assert (again.status_code, again.json()) == (200, first.json())
    assert len(plane.events(image_id)) == 2
    assert problem(put(plane.acme, image_id, DISK[::-1]))[:2] == (422, "INVALID")
    assert plane.wired.blobs.path(hashlib.sha256(DISK).hexdigest()).read_bytes() == DISK


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (DISK[:-1], "registered"),
        (DISK + b"x", "registered"),
        (b"", "registered"),
        (DISK[:-1] + b"x", "its SHA-256 is"),
        (disks.qcow2().ljust(len(DISK), b"\0"), "this is a qcow2"),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_bytes_that_differ_from_what_was_registered_are_not_kept(
    plane: Plane, content: bytes, said: str, chunked: bool
) -> None:
    image_id = plane.registered(plane.acme, DISK)
    if chunked:
        answer = plane.app.request(
            "PUT", f"/v1/images/{image_id}/content", content=pieces(content), headers=plane.acme.headers
        )
    else:
        answer = put(plane.acme, image_id, content)
    status, code, detail = problem(answer)
    assert (status, code) == (422, "INVALID")
    assert said in detail
    assert answer.json()["errors"][0]["field"] == "body"
    assert files(plane) == []
    assert plane.acme.ok("GET", f"/v1/images/{image_id}")["state"] == "registered"


def pieces(content: bytes) -> Iterator[bytes]:
    for at in range(0, len(content), 65_536):
        yield content[at : at + 65_536]


def test_whoever_may_not_is_refused_before_a_byte_is_kept(plane: Plane) -> None:
    mine = plane.registered(plane.acme, DISK)
    public = plane.registered(None, DISK)
    assert problem(put(plane.globex, mine, DISK))[:2] == (404, "NOT_FOUND")
    assert problem(put(plane.acme_user, mine, DISK))[:2] == (403, "ACCESS_DENIED")
    assert problem(put(plane.acme, public, DISK))[:2] == (403, "ACCESS_DENIED")
    assert problem(put(plane.nobody, mine, DISK))[:2] == (401, "UNAUTHENTICATED")
    assert not (plane.access.parent / "blobs").exists()
    assert len(plane.refusals()) == 3


def test_a_retired_image_takes_no_bytes(plane: Plane) -> None:
    image_id = plane.registered(plane.acme, DISK)
    plane.acme.ok("DELETE", f"/v1/images/{image_id}")
    assert problem(put(plane.acme, image_id, DISK))[:2] == (409, "CONFLICT")
    assert files(plane) == []


def test_an_image_that_is_retired_while_its_bytes_come_keeps_none(plane: Plane) -> None:
    image_id = plane.registered(plane.acme, DISK)

    def coming() -> Iterator[bytes]:
        yield from pieces(DISK[:-100])
        plane.wired.store.append(retired(plane, image_id))
        yield DISK[-100:]

    answer = plane.app.request("PUT", f"/v1/images/{image_id}/content", content=coming(), headers=plane.acme.headers)
    assert problem(answer)[:2] == (409, "CONFLICT")
    assert files(plane) == []


def retired(plane: Plane, image_id: str) -> Any:
    loaded = plane.store.load(image_id)
    return Append((Change(image_id, loaded.version, (image.Retired(plane.store.now()),)),), Meta("controller:test"))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content_type": "application/json"}, (415, "UNSUPPORTED_MEDIA_TYPE")),
        ({"content_encoding": "gzip"}, (415, "UNSUPPORTED_MEDIA_TYPE")),
        ({"content_range": "bytes 0-99/524288"}, (400, "MALFORMED")),
        ({"if_match": '"7"'}, (412, "STALE_VERSION")),
    ],
)
def test_a_body_that_is_not_the_bytes_as_they_are_is_refused(
    plane: Plane, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    image_id = plane.registered(plane.acme, DISK)
    assert problem(put(plane.acme, image_id, DISK, **headers))[:2] == expected
    assert files(plane) == []
    assert put(plane.acme, image_id, DISK, if_match='"1"').status_code == 200


def test_a_blob_that_was_removed_by_hand_is_put_back_by_uploading_it_again(plane: Plane) -> None:
    image_id = plane.registered(plane.acme, DISK)
    put(plane.acme, image_id, DISK)
    plane.wired.blobs.path(hashlib.sha256(DISK).hexdigest()).unlink()
    assert put(plane.acme, image_id, DISK).status_code == 200
    assert plane.wired.blobs.has(hashlib.sha256(DISK).hexdigest())


def test_two_images_of_the_same_bytes_each_take_them(plane: Plane) -> None:
    mine, theirs = plane.registered(plane.acme, DISK), plane.registered(plane.globex, DISK)
    put(plane.acme, mine, DISK)
    assert plane.globex.ok("GET", f"/v1/images/{theirs}")["state"] == "registered"
    assert put(plane.globex, theirs, DISK).json()["state"] == "stored"
    assert len(files(plane)) == 1


def test_a_disk_without_room_refuses_before_a_byte_comes(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id = plane.registered(plane.acme, DISK)
    free = uploading.SPARE + len(DISK) - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    answer = put(plane.acme, image_id, DISK)
    assert problem(answer)[:2] == (503, "STORAGE_FULL")
    assert answer.headers["retry-after"] == "300"
    assert files(plane) == []


def test_an_upload_that_does_not_come_keeps_no_room_from_others(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=uploading.SPARE + len(DISK)))
    expected = Expected(hashlib.sha256(DISK).hexdigest(), len(DISK), "raw", "os")
    uploads = uploading.Uploads(plane.wired.blobs, lambda *_: expected, plane.wired.dispatcher)
    stalled = uploads.begin(None, None, None)  # type: ignore[arg-type]
    other = uploads.begin(None, None, None)  # type: ignore[arg-type]
    other.write(DISK[:512])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=uploading.SPARE + 511))
    with pytest.raises(errors.StorageFull):
        other.write(DISK[512:1024])
    stalled.drop()
    other.drop()
    assert files(plane) == []


def test_a_disk_that_fills_up_meanwhile_keeps_nothing(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id = plane.registered(plane.acme, DISK)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        assert problem(put(plane.acme, image_id, DISK))[:2] == (503, "STORAGE_FULL")
    assert files(plane) == []
    assert put(plane.acme, image_id, DISK).status_code == 200


def test_what_an_upload_left_is_swept_and_one_under_way_is_not(tmp_path: Path) -> None:
    blobs = Directory(tmp_path)
    _, under_way = blobs.fresh()
    left, closed = blobs.fresh()
    closed.close()
    assert blobs.sweep() == 1
    assert not left.exists()
    under_way.close()
    assert blobs.sweep() == 1
