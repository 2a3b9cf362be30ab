"""What policies read of an instance decides: its size, its image, who vouched for that, its project (domain.md §10)."""

import json
from typing import Any

import pytest

from adapters.iam import tokens
from domain import instance
from given import Client, Plane

ACCESS = """
[identities.launcher]
tenant = "acme"
roles = ["launcher"]
token_sha256 = ["{digest}"]

[roles.launcher]
version = 1
"""


def launcher(plane: Plane, *statements: dict[str, Any]) -> Client:
    """Somebody of acme's with these statements and no other."""
    token = tokens.mint()
    text = ACCESS.format(digest=tokens.digest(token))
    for statement in statements:
        text += "[[roles.launcher.statements]]\n"
        text += "".join(f"{name} = {_toml(value)}\n" for name, value in statement.items())
    plane.access.write_text(plane.access.read_text() + text)
    assert plane.wired.authorizer.reload()
    return Client(plane.app, token)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def allow(**conditions: Any) -> dict[str, Any]:
    return {
        "effect": "allow",
        "actions": ["compute:instances:*"],
        "resources": ["compute-*/*"],
        **({"conditions": conditions} if conditions else {}),
    }


def deny(**conditions: Any) -> dict[str, Any]:
    return allow(**conditions) | {"effect": "deny"}


def gpus(plane: Plane, count: int) -> str:
    return plane.flavor(gpus={"class": "gpu", "count": count}) if count else plane.flavor()


def test_at_most_four_gpus_an_instance(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    image_id = plane.image()
    by = launcher(plane, allow(NumericLessThanEquals={"resource.gpus": 4}))
    for count, status in ((5, 403), (4, 201), (0, 201)):
        answer = by.launch(pool_id, gpus(plane, count), image_id)
        assert answer.status_code == status, (count, answer.text)
    refused = by.launch(pool_id, gpus(plane, 8), image_id, "eight")
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    kept = plane.store.load(refused.json()["instanceId"]).state
    assert (kept.status, kept.denied.code) == ("denied", "ACCESS_DENIED")
    assert plane.refusals()[-1].resource == f"compute-instance/{refused.json()['instanceId']}"
    assert plane.store.load(kept.draft.reservation_id).version == 0, "nothing was claimed for it"


def test_eight_gpus_of_a_reservation_are_no_way_around_it(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    by = launcher(plane, allow(NumericLessThanEquals={"resource.gpus": 4}))
    scalars = {"vcpu": 2, "memoryMiB": 4096}
    held = plane.acme.reserve(pool_id, binding="instance", devices=[{"class": "gpu", "count": 8}], scalars=scalars)
    allowed = plane.acme.launch(pool_id, gpus(plane, 4), plane.image(), reservationId=held.json()["id"])
    assert (allowed.status_code, allowed.json()["errors"][0]["field"]) == (422, "flavorId")
    refused = by.launch(pool_id, gpus(plane, 8), plane.image(), reservationId=held.json()["id"])
    assert refused.status_code == 403


def test_only_verified_images(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    flavor_id = plane.flavor()
    by = launcher(plane, allow(), deny(Bool={"resource.imageVerified": False}))
    unsigned = plane.image(plane.acme, signed=False)
    refused = by.launch(pool_id, flavor_id, unsigned)
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    unvouched = plane.acme.launch(pool_id, flavor_id, unsigned, "later")
    assert (unvouched.status_code, unvouched.json()["errors"][0]["field"]) == (409, "imageId"), "nor does it start else"
    plane.sign(unsigned, plane.acme)
    assert by.launch(pool_id, flavor_id, unsigned).status_code == 201
    made = plane.acme.launch(pool_id, flavor_id, unsigned, "later")
    assert made.status_code == 201, "the same key, once it is signed"
    assert made.json()["imageVerdict"]["signer"] == "signer"


def test_a_signer_who_is_off_the_list_vouches_for_nothing_new(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image(plane.acme)
    first = plane.instance(pool_id, flavorId=flavor_id, imageId=image_id)
    plane.root.ok("PUT", "/v1/image-signers", {"signers": []})
    answer = plane.acme.launch(pool_id, flavor_id, image_id)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (409, "imageId")
    assert plane.acme.ok("GET", f"/v1/images/{image_id}")["verified"], "what was verified stays so"
    shown = plane.acme.ok("GET", f"/v1/instances/{first['id']}")
    assert shown["imageVerdict"] == first["imageVerdict"]


@pytest.mark.parametrize(
    ("conditions", "big"),
    [
        ({"NumericLessThan": {"resource.vcpu": 8}}, {"vcpu": 8}),
        ({"NumericLessThanEquals": {"resource.memoryGiB": 16}}, {"memoryGiB": 32}),
    ],
)
def test_how_large_it_may_be(plane: Plane, conditions: dict[str, Any], big: dict[str, Any]) -> None:
    pool_id, _ = plane.hosts()
    image_id = plane.image()
    by = launcher(plane, allow(**conditions))
    assert by.launch(pool_id, plane.flavor(), image_id).status_code == 201
    assert by.launch(pool_id, plane.flavor(**big), image_id).status_code == 403


def test_one_image_and_one_project_alone(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id, other = plane.flavor(), plane.image(), plane.image()
    project_id = plane.project()
    only = {"resource.imageId": image_id, "resource.projectId": project_id}
    by = launcher(plane, allow(StringEquals=only))
    made = by.launch(pool_id, flavor_id, image_id, projectId=project_id)
    assert made.status_code == 201, made.text
    assert by.launch(pool_id, flavor_id, image_id).status_code == 403
    assert by.launch(pool_id, flavor_id, other, projectId=project_id).status_code == 403
    mine = f"/v1/instances/{made.json()['id']}"
    assert by.get(mine).status_code == 200
    assert by.post(f"{mine}/stop").status_code == 200


def test_what_was_decided_is_kept_with_its_attributes(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    made = plane.instance(pool_id)
    (record,) = plane.events(made["admissionId"])
    (decided,) = record.decided
    assert (decided.action, decided.resource) == ("compute:instances:create", f"compute-instance/{made['id']}")
    wanted = {"vcpu": 2, "memoryGiB": 4, "gpus": 0, "imageId": made["imageId"], "imageVerified": True}
    assert decided.attributes == wanted | {"ownerId": "acme"}
    history = plane.store.history(made["id"])
    assert [type(one.event) for one in history[:2]] == [instance.Drafted, instance.Admitted]
    assert {one.meta.admission for one in history[:2]} == {made["admissionId"]}
