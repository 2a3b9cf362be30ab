"""Public keys of SSH as instances take them: type and key alone, for the log keeps what it has (domain.md §1)."""

import base64
import binascii
import re
from typing import Annotated, Final

from msgspec import Meta

from domain import errors

Text = Annotated[str, Meta(min_length=1, max_length=4096)]
Keys = Annotated[tuple[Text, ...], Meta(max_length=32, description="OpenSSH public keys; comments are not kept")]

_TYPES: Final = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
_LINE: Final = re.compile(r"([!-~]+) ([A-Za-z0-9+/]+={0,2})(?: [ -~]*)?")


def kept(text: str, field: str) -> str:
    """The key without its comment, which often names a person; refuses what sshd would not take, and any option."""
    match = _LINE.fullmatch(text.strip(" "))
    if match is None or match[1] not in _TYPES or not _is_of(match[1], match[2]):
        raise errors.Invalid(field, f"expected one line of an OpenSSH public key: {', '.join(_TYPES[:3])}, ...")
    return f"{match[1]} {match[2]}"


def _is_of(type_: str, encoded: str) -> bool:
    """The key says its type again, at its beginning."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    named = len(type_).to_bytes(4, "big") + type_.encode()
    return raw.startswith(named) and len(raw) > len(named)
