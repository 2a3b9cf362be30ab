"""Opaque tokens in Better IAM's form, so that its scanners and ours find a leaked one (iam.md §13).

`biam_<type>_`, 43 base64url characters of 32 random bytes, and 6 of the CRC-32 of all before: 58 characters.
The checksum only tells garbage from a token; what a token may do is stored, under its SHA-256.
"""

import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Literal
from zlib import crc32

TokenType = Literal["ses", "key", "rol", "sts", "dlg"]

_SHAPE = re.compile(r"biam_(ses|key|rol|sts|dlg)_[A-Za-z0-9_-]{49}")


def mint(kind: TokenType = "key", random: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """Makes a new token; `random` gives that many random bytes."""
    body = f"biam_{kind}_{_base64url(random(32))}"
    return body + _checksum(body)


def kind_of(token: str) -> str | None:
    """The type of a token whose shape and checksum are right, else None."""
    shape = _SHAPE.fullmatch(token)
    return shape[1] if shape and _checksum(token[:-6]) == token[-6:] else None


def digest(token: str) -> str:
    """SHA-256 hex: how a token is stored, and looked up; any text has one."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _checksum(body: str) -> str:
    return _base64url(crc32(body.encode("ascii")).to_bytes(4, "big"))


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
