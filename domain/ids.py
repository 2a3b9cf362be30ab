"""Identifiers: `<prefix>_<body>` in lower-case Crockford base32 (domain.md §1)."""

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Final

from domain import errors

DERIVED: Final = frozenset({"rsv", "ext", "inst"})

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_RFC4648 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_TO_CROCKFORD = str.maketrans(_RFC4648, _CROCKFORD)
_GENERATED = re.compile(f"[0-7][{_CROCKFORD}]{{25}}")
_DERIVED = re.compile(f"[{_CROCKFORD}]{{52}}")
_OPAQUE = re.compile(r"[!-~]{1,128}")
_KEY = re.compile(r"[ -~]{1,255}")
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

Mint = Callable[[str], str]
"""Makes a new id for a prefix; ids of one kind sort by creation within a process."""


def derive(prefix: str, tenant_id: str, identity_id: str, key: str) -> str:
    """The id of what this caller asks for under this Idempotency-Key: the same request, the same id."""
    digest = hashlib.sha256()
    for part in (tenant_id, identity_id, key):
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    body = base64.b32encode(digest.digest()).decode().rstrip("=").translate(_TO_CROCKFORD)
    return f"{prefix}_{body}"


def parse(prefix: str, text: str, field: str = "id") -> str:
    """Return `text` when it is an id of this kind; refuse another prefix, letter case or length by name."""
    expected = _DERIVED if prefix in DERIVED else _GENERATED
    length = 52 if prefix in DERIVED else 26
    if not text.startswith(f"{prefix}_") or not expected.fullmatch(text[len(prefix) + 1 :]):
        raise errors.Invalid(
            field,
            f"expected {prefix}_ and {length} lower-case Crockford base32 characters, got {text[:80]!r}",
        )
    return text


def opaque(text: str, field: str) -> str:
    """A tenant's or identity's id: Better IAM's own, at most 128 printable characters."""
    if not _OPAQUE.fullmatch(text):
        raise errors.Invalid(field, "expected 1 to 128 printable ASCII characters without spaces")
    return text


def idempotency_key(text: str | None) -> str:
    if text is None:
        raise errors.Invalid("Idempotency-Key", "this create needs the header: 1 to 255 printable characters")
    if not _KEY.fullmatch(text):
        raise errors.Invalid("Idempotency-Key", "expected 1 to 255 printable ASCII characters")
    return text


def name(text: str, field: str = "name") -> str:
    """Names follow Better IAM's region-name grammar (iam.md §15)."""
    if not NAME.fullmatch(text):
        raise errors.Invalid(
            field, "expected 1 to 63 of a-z, 0-9 and hyphen, beginning and ending with a letter or digit"
        )
    return text
