"""What the demo's instances are made of: three sizes, and an image of one sector that the platform vouches for."""

import base64
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

Ask = Callable[..., Any]
"""Verb, path and body of a request as the platform's administrator, to its answer; bytes are sent as they are."""

FLAVORS: Final = (
    {"name": "small", "vcpu": 2, "memoryGiB": 4, "diskGiB": 20},
    {"name": "large", "vcpu": 16, "memoryGiB": 64, "diskGiB": 200},
    {"name": "l4", "vcpu": 8, "memoryGiB": 32, "diskGiB": 100, "gpus": {"class": "gpu", "count": 1}},
)
NAME: Final = "hello"
VERSION: Final = "1"
SIGNER: Final = "demo"

_GREETING: Final = b"hello from Better Compute\r\n"
_PROGRAM: Final = bytes.fromhex(
    "31c0"  # xor ax, ax
    "8ed8"  # mov ds, ax
    "be207c"  # mov si, 0x7c20
    "ac"  # next: lodsb
    "84c0"  # test al, al
    "7408"  # jz end
    "b401"  # mov ah, 1
    "31d2"  # xor dx, dx
    "cd14"  # int 0x14: to the first serial port
    "ebf3"  # jmp next
    "f4"  # end: hlt
    "ebfd"  # jmp end
)


def disk() -> bytes:
    """A raw disk that boots on a PC's BIOS: it greets on the first serial port, and waits to be switched off."""
    return (_PROGRAM.ljust(0x20, b"\x90") + _GREETING).ljust(510, b"\x00") + b"\x55\xaa"


def flavors(ask: Ask) -> None:
    known = {flavor["name"] for flavor in ask("GET", "/v1/flavors")["items"]}
    for flavor in FLAVORS:
        if flavor["name"] not in known:
            ask("POST", "/v1/flavors", flavor)


def image(ask: Ask) -> None:
    """Whatever of it is there already stays; a start that was interrupted is made good."""
    there = [one for one in ask("GET", "/v1/images")["items"] if (one["name"], one["imageVersion"]) == (NAME, VERSION)]
    found = there[0] if there else ask("POST", "/v1/images", _registration())
    if found["state"] == "registered":
        ask("PUT", f"/v1/images/{found['id']}/content", disk())
    if not found["verified"]:
        _sign(ask, found)


def _registration() -> dict[str, Any]:
    content = disk()
    known = {"name": NAME, "imageVersion": VERSION, "format": "raw", "visibility": "public"}
    return known | {"sha256": sha256(content).hexdigest(), "sizeBytes": len(content)}


def _sign(ask: Ask, found: dict[str, Any]) -> None:
    """The key is forgotten: it vouches for this image alone."""
    key = Ed25519PrivateKey.generate()
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    there = ask("GET", "/v1/image-signers")["signers"]
    kept = [{"name": one["name"], "publicKey": one["publicKey"]} for one in there]
    ask("PUT", "/v1/image-signers", {"signers": [*kept, {"name": SIGNER, "publicKey": pem}]})
    signature = base64.b64encode(key.sign(found["statement"].encode())).decode()
    ask("POST", f"/v1/images/{found['id']}/signatures", {"signature": signature})
