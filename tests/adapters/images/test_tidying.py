"""Bytes that nobody needs go, and those that anybody needs stay."""

import hashlib
import os
import time
from typing import Any

import pytest

from adapters.images.tidying import RESTS_MS, Tidying
from domain import image, instance
from domain.event import Append, Change, Meta
from given import DEADLINE_S, Plane

DISK = bytes(512)
SHA256 = hashlib.sha256(DISK).hexdigest()


@pytest.fixture
def tidying(plane: Plane) -> Tidying:
    wired = plane.wired
    return Tidying(wired.store, wired.blobs, wired.reads, wired.shown_all, rests_ms=0)


def put(plane: Plane, by: Any = None) -> str:
    image_id = plane.registered(by, DISK)
    answer = (by or plane.root).raw("PUT", f"/v1/images/{image_id}/content", DISK)
    assert answer.status_code == 200, answer.text
    return image_id


def retire(plane: Plane, image_id: str, by: Any = None) -> None:
    (by or plane.root).ok("DELETE", f"/v1/images/{image_id}")
    plane.settle()


def kinds(plane: Plane, image_id: str) -> list[type]:
    return [type(event) for event in plane.events(image_id)]


def test_the_bytes_of_a_retired_image_go_once(plane: Plane, tidying: Tidying) -> None:
    image_id = put(plane)
    tidying.retired()
    assert plane.wired.blobs.has(SHA256)
    retire(plane, image_id)
    tidying.retired()
    assert not plane.wired.blobs.has(SHA256)
    plane.settle()
    tidying.retired()
    assert kinds(plane, image_id) == [image.Registered, image.Stored, image.Retired, image.Dropped]
    assert plane.root.ok("GET", f"/v1/images/{image_id}")["storedAt"] is None


def test_a_retired_image_rests_before_its_bytes_go(plane: Plane) -> None:
    wired = plane.wired
    image_id = put(plane)
    retire(plane, image_id)
    Tidying(wired.store, wired.blobs, wired.reads, wired.shown_all).retired()
    assert wired.blobs.has(SHA256)
    assert RESTS_MS == 3_600_000


def test_bytes_stay_for_as_long_as_an_instance_is_of_their_image(plane: Plane, tidying: Tidying) -> None:
    pool_id, _ = plane.hosts()
    image_id = plane.image(content=DISK)
    made = plane.instance(pool_id, imageId=image_id)
    retire(plane, image_id)
    tidying.retired()
    assert plane.wired.blobs.has(SHA256)
    loaded = plane.store.load(made["id"])
    gone = instance.Deleted("Test", plane.store.now())
    plane.store.append(Append((Change(made["id"], loaded.version, (gone,)),), Meta("controller:test")))
    deadline = time.monotonic() + DEADLINE_S
    while plane.wired.blobs.has(SHA256):  # what controllers write meanwhile makes it wait
        assert time.monotonic() < deadline
        plane.settle()
        tidying.retired()
    assert kinds(plane, image_id)[-1] is image.Dropped


def test_bytes_stay_that_another_image_has_too(plane: Plane, tidying: Tidying) -> None:
    first, second = put(plane), put(plane, plane.acme)
    retire(plane, first)
    tidying.retired()
    assert kinds(plane, first)[-1] is image.Dropped
    assert plane.wired.blobs.has(SHA256)
    retire(plane, second, plane.acme)
    tidying.retired()
    assert not plane.wired.blobs.has(SHA256)


def test_what_no_image_has_is_deleted_and_what_one_has_is_not(plane: Plane, tidying: Tidying) -> None:
    put(plane)
    blobs = plane.wired.blobs
    orphan = hashlib.sha256(b"orphan").hexdigest()
    path, file = blobs.fresh()
    with file:
        file.write(b"orphan")
    blobs.keep(path, orphan)
    plane.settle()
    Tidying(plane.store, blobs, plane.wired.reads, plane.wired.shown_all).left()
    assert blobs.has(orphan), "it may be on its way into the log"
    tidying.left()
    assert (blobs.has(orphan), blobs.has(SHA256)) == (False, True)


def test_nothing_goes_while_the_read_models_are_behind(plane: Plane) -> None:
    wired = plane.wired
    image_id = put(plane)
    retire(plane, image_id)
    behind = Tidying(wired.store, wired.blobs, wired.reads, lambda: False, rests_ms=0)
    behind.retired()
    os.utime(wired.blobs.path(SHA256), (0, 0))
    behind.left()
    assert wired.blobs.has(SHA256)


def test_a_log_that_goes_on_does_not_keep_bytes_from_going(plane: Plane, tidying: Tidying) -> None:
    image_id = put(plane)
    retire(plane, image_id)
    for _ in range(20):
        plane.registered()
        assert plane.wired.shown_all()
    plane.registered()
    tidying.retired()
    assert not plane.wired.blobs.has(SHA256)
