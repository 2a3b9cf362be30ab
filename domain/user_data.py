"""User data of an instance as a request brings it: bytes in base64, which the log never sees (domain.md §6)."""

import base64
import binascii
import hashlib
from typing import Annotated, Final

from msgspec import Meta

from domain import errors, instance

MOST_BYTES: Final = 65_536
UserDataText = Annotated[str, Meta(max_length=4 * -(-MOST_BYTES // 3), description="base64, of 64 KiB at most")]


def decoded(text: str, field: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise errors.Invalid(field, "is no base64 (RFC 4648, with padding)") from None
    if len(content) > MOST_BYTES:
        raise errors.Invalid(field, f"is {len(content)} bytes; {MOST_BYTES} are the most")
    return content


def noted(content: bytes) -> instance.UserData:
    """What the log has of it."""
    return instance.UserData(hashlib.sha256(content).hexdigest(), len(content))
