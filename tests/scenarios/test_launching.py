"""Which images and flavors an instance can be made of at this moment, and what the refusal says would help."""

from typing import Any

import pytest

import disks
from adapters.ids import Mint
from given import Client, Plane

POOL = {"class": "vps-host"}


@pytest.fixture
def pool_id(plane: Plane) -> str:
    site_id = plane.site()
    made = plane.pool(site_id, **POOL)
    plane.offer(made, quota={"vcpu": 100, "memoryMiB": 1_000_000, "gpu": 8})
    plane.node(site_id, made)
    return made


def said(answer: Any, status: int, field: str) -> str:
    assert answer.status_code == status, answer.text
    found = answer.json()["errors"][0]
    assert found["field"] == field
    return str(found["message"])


def launch(plane: Plane, pool_id: str, image_id: str, by: Client | None = None, flavor_id: str = "") -> Any:
    return (by or plane.acme).launch(pool_id, flavor_id or plane.flavor(), image_id)


def test_an_image_needs_bytes_and_somebody_who_vouches_for_it_now(plane: Plane, pool_id: str) -> None:
    content = b"a system".ljust(512)
    image_id = plane.registered(plane.acme, content)
    assert "sign it" in said(launch(plane, pool_id, image_id), 409, "imageId")
    plane.sign(image_id, plane.acme)
    assert "upload them" in said(launch(plane, pool_id, image_id), 409, "imageId")
    plane.upload(image_id, content, plane.acme)
    assert launch(plane, pool_id, image_id).status_code == 201
    signers = plane.root.ok("GET", "/v1/image-signers")["signers"]
    plane.root.ok("PUT", "/v1/image-signers", {"signers": []})
    assert "off the list" in said(launch(plane, pool_id, image_id), 409, "imageId")
    assert plane.acme.ok("GET", f"/v1/images/{image_id}")["verified"]
    back = [{"name": one["name"], "publicKey": one["publicKey"]} for one in signers]
    plane.root.ok("PUT", "/v1/image-signers", {"signers": back})
    assert launch(plane, pool_id, image_id).status_code == 201


def test_bytes_removed_by_hand_are_missed_and_can_be_uploaded_again(plane: Plane, pool_id: str) -> None:
    content = b"once there".ljust(512)
    image_id = plane.image(plane.acme, content)
    plane.wired.blobs.path(plane.acme.ok("GET", f"/v1/images/{image_id}")["sha256"]).unlink()
    assert "upload them again" in said(launch(plane, pool_id, image_id), 409, "imageId")
    shown = plane.acme.ok("GET", f"/v1/images/{image_id}")
    assert (shown["state"], shown["storedAt"], shown["verified"]) == ("registered", None, True)
    plane.upload(image_id, content, plane.acme)
    assert launch(plane, pool_id, image_id).status_code == 201


def test_nothing_starts_from_what_is_retired_or_a_ramdisk(plane: Plane, pool_id: str) -> None:
    ramdisk = plane.image(plane.acme, purpose="ramdisk")
    assert "ramdisk" in said(launch(plane, pool_id, ramdisk), 409, "imageId")
    image_id, flavor_id = plane.image(plane.acme), plane.flavor(by=plane.acme)
    assert launch(plane, pool_id, image_id, flavor_id=flavor_id).status_code == 201
    plane.acme.ok("DELETE", f"/v1/flavors/{flavor_id}")
    assert "retired" in said(launch(plane, pool_id, image_id, flavor_id=flavor_id), 409, "flavorId")
    plane.acme.ok("DELETE", f"/v1/images/{image_id}")
    assert "retired" in said(launch(plane, pool_id, image_id), 409, "imageId")


@pytest.mark.parametrize(("gib", "status"), [(11, 422), (10, 201)])
def test_an_image_larger_than_the_flavors_disk_is_refused_before_anything_is_booked(
    plane: Plane, pool_id: str, gib: int, status: int
) -> None:
    large = disks.qcow2(virtual=gib * 2**30, bits=16, l1=gib * 2)
    image_id = plane.image(plane.acme, large, format="qcow2")
    answer = launch(plane, pool_id, image_id, flavor_id=plane.flavor(diskGiB=10))
    assert answer.status_code == status, answer.text
    if status == 422:
        assert "diskGiB of 11 or more" in said(answer, 422, "flavorId")
        assert plane.rows("SELECT count(*) FROM device_bookings") == [(0,)]
    again = launch(plane, pool_id, image_id, flavor_id=plane.flavor(diskGiB=11))
    assert again.status_code == 201, again.text


def test_an_iso_is_put_beside_the_disk_and_may_be_larger(plane: Plane, pool_id: str) -> None:
    image_id = plane.image(plane.acme, disks.iso(20), format="iso")
    assert launch(plane, pool_id, image_id, flavor_id=plane.flavor(diskGiB=1)).status_code == 201


def test_what_is_foreign_is_told_from_what_is_missing_by_nothing(plane: Plane, pool_id: str) -> None:
    mine, theirs, mint = plane.image(), plane.image(plane.globex), Mint()
    flavor_id = plane.flavor(by=plane.globex)
    for image_id in (theirs, mint("img")):
        message = said(launch(plane, pool_id, image_id), 404, "imageId")
        assert message == f"no image {image_id!r} is visible to you"
    for other in (flavor_id, mint("flv")):
        message = said(launch(plane, pool_id, mine, flavor_id=other), 404, "flavorId")
        assert message == f"no flavor {other!r} is visible to you"
    said(launch(plane, pool_id, mine.upper()), 422, "imageId")
    said(launch(plane, pool_id, mine, flavor_id=flavor_id.upper()), 422, "flavorId")
