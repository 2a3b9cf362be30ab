"""Images: what a name and version stand for never changes; who vouches for it, and who sees it."""

import base64
import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from given import Client, Plane

CONTENT = b"a system".ljust(512)
DIGEST = hashlib.sha256(CONTENT).hexdigest()
IMAGE = {"name": "tiny", "imageVersion": "24.04", "format": "raw", "sha256": DIGEST, "sizeBytes": 512}


def pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def allow(client: Client, **keys: Any) -> Any:
    signers = [{"name": name, "publicKey": pem(key)} for name, key in keys.items()]
    return client.ok("PUT", "/v1/image-signers", {"signers": signers})


def signed(key: Any, shown: Any, content: bytes = CONTENT) -> dict[str, str]:
    if isinstance(key, Ed25519PrivateKey):
        raw = key.sign(shown["statement"].encode())
    else:
        raw = key.sign(content, ec.ECDSA(SHA256()))
    return {"signature": base64.b64encode(raw).decode()}


def refused(answer: Any, status: int, field: str | None = None) -> str:
    assert answer.status_code == status, answer.text
    problem = answer.json()
    if field is not None:
        assert next(one["field"] for one in problem["errors"]) == field, problem
    return str(problem["detail"])


def test_a_name_and_version_stand_for_the_same_bytes_for_ever(plane: Plane) -> None:
    made = plane.acme.ok("POST", "/v1/images", IMAGE)
    assert (made["state"], made["verified"], made["visibility"], made["purpose"]) == (
        "registered",
        False,
        "private",
        "os",
    )
    other = {"sha256": hashlib.sha256(b"other").hexdigest(), "sizeBytes": 1024}
    for body in (IMAGE, IMAGE | other):
        refused(plane.acme.post("/v1/images", body), 409, "name")
    retired = plane.acme.ok("DELETE", f"/v1/images/{made['id']}")
    assert retired["state"] == "retired"
    assert plane.acme.ok("DELETE", f"/v1/images/{made['id']}") == retired
    refused(plane.acme.post("/v1/images", IMAGE | other), 409, "name")
    plane.acme.ok("POST", "/v1/images", IMAGE | {"imageVersion": "24.10"})
    plane.globex.ok("POST", "/v1/images", IMAGE)


def test_the_same_key_registers_once(plane: Plane) -> None:
    first = plane.acme.call("POST", "/v1/images", IMAGE, Idempotency_Key="k")
    again = plane.acme.call("POST", "/v1/images", IMAGE, Idempotency_Key="k")
    assert again.json() == first.json()
    assert again.status_code == 201
    refused(plane.acme.call("POST", "/v1/images", IMAGE | {"name": "other"}, Idempotency_Key="k"), 422)


@pytest.mark.parametrize("written", [DIGEST, DIGEST.upper(), f"sha256:{DIGEST}", f"SHA256:{DIGEST.upper()}"])
def test_a_digest_in_any_letter_case_is_one(plane: Plane, written: str) -> None:
    assert plane.acme.ok("POST", "/v1/images", IMAGE | {"sha256": written})["sha256"] == DIGEST
    plane.settle()
    assert len(plane.acme.ok("GET", f"/v1/images?sha256={written}")["items"]) == 1


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (hashlib.md5(CONTENT).hexdigest(), "the length of MD5"),
        (hashlib.sha1(CONTENT).hexdigest(), "the length of SHA-1"),
        (hashlib.sha512(CONTENT).hexdigest(), "the length of SHA-512"),
        (f"md5:{DIGEST}", "'md5'"),
        (DIGEST[:-1], "63 characters"),
        ("g" * 64, "64 hex digits"),
        (DIGEST + "\n", "65 characters"),
        ("\u0660" * 64, "64 hex digits"),
        ("", "64 hex digits"),
    ],
)
def test_what_is_no_sha256_is_refused_by_what_it_seems_to_be(plane: Plane, written: str, said: str) -> None:
    assert said in refused(plane.acme.post("/v1/images", IMAGE | {"sha256": written}), 422, "sha256")


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("name", {"name": "../../etc/passwd"}),
        ("name", {"name": "Tiny"}),
        ("imageVersion", {"imageVersion": "24.04-LTS"}),
        ("imageVersion", {"imageVersion": "../24"}),
        ("imageVersion", {"imageVersion": "1\n"}),
        ("imageVersion", {"imageVersion": ""}),
        ("sizeBytes", {"sizeBytes": 0}),
        ("sizeBytes", {"sizeBytes": 511}),
        ("sizeBytes", {"sizeBytes": 2**60}),
        ("format", {"format": "vmdk"}),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name(plane: Plane, field: str, fields: dict[str, Any]) -> None:
    refused(plane.acme.post("/v1/images", IMAGE | fields), 422, field)


def test_an_id_in_another_letter_case_is_no_id(plane: Plane) -> None:
    image_id = plane.acme.ok("POST", "/v1/images", IMAGE)["id"]
    refused(plane.acme.get(f"/v1/images/{image_id.upper()}"), 422, "id")
    refused(plane.acme.get(f"/v1/images/{image_id[:-1]}o"), 422, "id")


def test_a_signature_over_the_statement_verifies_and_names_signer_and_allowlist(plane: Plane) -> None:
    key = Ed25519PrivateKey.generate()
    shown = plane.acme.ok("POST", "/v1/images", IMAGE)
    refused(plane.acme.post(f"/v1/images/{shown['id']}/signatures", signed(key, shown)), 409)
    allowlist = allow(plane.root, builder=key)
    assert allowlist["signers"][0]["addedBy"] == "root"
    assert allowlist["version"] == 1
    vouched = plane.acme.ok("POST", f"/v1/images/{shown['id']}/signatures", signed(key, shown))
    assert vouched["verified"]
    (verdict,) = vouched["verdicts"]
    key_id = allowlist["signers"][0]["keyId"]
    assert (verdict["signer"], verdict["scheme"], verdict["keyId"]) == ("builder", "ed25519", key_id)
    assert verdict["allowlistVersion"] == 1
    assert plane.acme.ok("POST", f"/v1/images/{shown['id']}/signatures", signed(key, shown)) == vouched
    plane.settle()
    assert [one["id"] for one in plane.acme.ok("GET", "/v1/images?verified=true")["items"]] == [shown["id"]]


def test_a_blob_signed_as_cosign_does_verifies_from_the_digest_alone(plane: Plane) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    shown = plane.acme.ok("POST", "/v1/images", IMAGE)
    allow(plane.root, cosigner=key)
    path = f"/v1/images/{shown['id']}/signatures"
    refused(plane.acme.post(path, signed(key, shown, b"other bytes")), 422, "signature")
    vouched = plane.acme.ok("POST", path, signed(key, shown))
    assert vouched["verified"]
    assert vouched["verdicts"][0]["scheme"] == "ecdsa-p256"


def test_of_several_signers_the_named_one_is_asked(plane: Plane) -> None:
    one, two = Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256R1())
    shown = plane.acme.ok("POST", "/v1/images", IMAGE)
    first, second = allow(plane.root, one=one, two=two)["signers"]
    path = f"/v1/images/{shown['id']}/signatures"
    refused(plane.acme.post(path, signed(one, shown) | {"keyId": second["keyId"]}), 422, "signature")
    refused(plane.acme.post(path, signed(one, shown) | {"keyId": "0" * 64}), 422, "keyId")
    plane.acme.ok("POST", path, signed(two, shown) | {"keyId": second["keyId"].upper()})
    vouched = plane.acme.ok("POST", path, signed(one, shown))
    assert [verdict["keyId"] for verdict in vouched["verdicts"]] == [second["keyId"], first["keyId"]]


@pytest.mark.parametrize("signature", ["!", "AAAA", base64.b64encode(bytes(64)).decode(), "A" * 1024, "é"])
def test_what_is_no_signature_is_refused(plane: Plane, signature: str) -> None:
    shown = plane.acme.ok("POST", "/v1/images", IMAGE)
    allow(plane.root, one=Ed25519PrivateKey.generate(), two=ec.generate_private_key(ec.SECP256R1()))
    refused(plane.acme.post(f"/v1/images/{shown['id']}/signatures", {"signature": signature}), 422, "signature")
    assert not plane.acme.ok("GET", f"/v1/images/{shown['id']}")["verified"]


def test_a_signature_is_of_one_image_alone(plane: Plane) -> None:
    """The same bytes under another name, format or owner are another statement."""
    key = Ed25519PrivateKey.generate()
    shown = plane.acme.ok("POST", "/v1/images", IMAGE)
    others = ({"name": "other"}, {"imageVersion": "1"}, {"imageVersion": "2", "format": "iso"})
    allow(plane.root, one=key)
    for other in others:
        made = plane.acme.ok("POST", "/v1/images", IMAGE | other)
        refused(plane.acme.post(f"/v1/images/{made['id']}/signatures", signed(key, shown)), 422, "signature")
    theirs = plane.globex.ok("POST", "/v1/images", IMAGE)
    refused(plane.globex.post(f"/v1/images/{theirs['id']}/signatures", signed(key, shown)), 422, "signature")


def test_a_later_allowlist_does_not_rewrite_what_was_verified(plane: Plane) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    shown = plane.acme.ok("POST", "/v1/images", IMAGE)
    allow(plane.root, one=key)
    vouched = plane.acme.ok("POST", f"/v1/images/{shown['id']}/signatures", signed(key, shown))
    assert allow(plane.root, other=other)["version"] == 2
    assert plane.acme.ok("GET", f"/v1/images/{shown['id']}") == vouched
    made = plane.acme.ok("POST", "/v1/images", IMAGE | {"imageVersion": "2"})
    refused(plane.acme.post(f"/v1/images/{made['id']}/signatures", signed(key, made)), 422, "signature")


def test_who_stays_on_the_list_keeps_who_added_them(plane: Plane) -> None:
    one, two = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    empty = plane.root.ok("GET", "/v1/image-signers")
    assert (empty["signers"], empty["version"]) == ([], 0)
    (first,) = allow(plane.root, one=one)["signers"]
    before = plane.settle()
    both = allow(plane.root, one=one, two=two)
    assert both["signers"][0] == first
    assert both["version"] == 2
    assert allow(plane.root, one=one, two=two) == both
    renamed = allow(plane.root, uno=one, two=two)
    assert {signer["name"] for signer in renamed["signers"]} == {"uno", "two"}
    assert plane.root.ok("GET", f"/v1/image-signers?asOf=@{before}")["signers"] == [first]
    stale = plane.root.call("PUT", "/v1/image-signers", {"signers": []}, If_Match='"1"')
    refused(stale, 412)
    assert plane.root.ok("PUT", "/v1/image-signers", {"signers": []})["signers"] == []
    for customer in (plane.acme, plane.acme_user):
        refused(customer.get("/v1/image-signers"), 403)
        refused(customer.call("PUT", "/v1/image-signers", {"signers": []}), 403)


def test_a_key_that_is_none_is_refused_by_its_place(plane: Plane) -> None:
    key, strange = Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP384R1())
    good = {"name": "one", "publicKey": pem(key)}
    twice = "signers[1].publicKey"
    for bad, field in (
        ({"name": "two", "publicKey": "junk"}, twice),
        ({"name": "two", "publicKey": pem(strange)}, twice),
        ({"name": "two", "publicKey": pem(key) + "\n"}, twice),
        ({"name": "Two", "publicKey": pem(Ed25519PrivateKey.generate())}, "signers[1].name"),
    ):
        refused(plane.root.call("PUT", "/v1/image-signers", {"signers": [good, bad]}), 422, field)


def test_a_public_image_is_the_platforms_and_everybody_sees_it(plane: Plane) -> None:
    public = plane.root.ok("POST", "/v1/images", IMAGE | {"visibility": "public"})
    hidden = plane.root.ok("POST", "/v1/images", IMAGE | {"name": "hidden"})
    mine = plane.acme.ok("POST", "/v1/images", IMAGE)
    refused(plane.acme.post("/v1/images", IMAGE | {"name": "shown", "visibility": "public"}), 403)
    plane.settle()
    for client, ids in (
        (plane.acme, {public["id"], mine["id"]}),
        (plane.acme_user, {public["id"], mine["id"]}),
        (plane.globex, {public["id"]}),
        (plane.root, {public["id"], hidden["id"]}),
    ):
        assert {one["id"] for one in client.ok("GET", "/v1/images")["items"]} == ids
        assert {one["id"] for one in client.ok("GET", f"/v1/images?asOf=@{plane.head()}")["items"]} == ids
    assert plane.globex.ok("GET", f"/v1/images/{public['id']}") == public
    for foreign in (hidden["id"], mine["id"]):
        refused(plane.globex.get(f"/v1/images/{foreign}"), 404, "id")
    for verb, path, body in (
        ("DELETE", f"/v1/images/{public['id']}", None),
        ("POST", f"/v1/images/{public['id']}/signatures", {"signature": "AAAA"}),
    ):
        refused(plane.acme.call(verb, path, body), 403)
        refused(plane.acme_user.call(verb, path, body), 403)


def test_a_retired_image_takes_no_signature(plane: Plane) -> None:
    key = Ed25519PrivateKey.generate()
    shown = plane.acme.ok("POST", "/v1/images", IMAGE)
    allow(plane.root, one=key)
    plane.acme.ok("DELETE", f"/v1/images/{shown['id']}")
    refused(plane.acme.post(f"/v1/images/{shown['id']}/signatures", signed(key, shown)), 409)
