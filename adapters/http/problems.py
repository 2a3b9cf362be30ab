"""Refusals as RFC 9457 problem documents: the status of each code, and how it reads (api.md §2)."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import Struct

from domain import errors
from domain.errors import FieldError

MEDIA_TYPE: Final = b"application/problem+json"
RETRY_AFTER_SECONDS: Final = 1

STATUS: Final[dict[str, int]] = {
    "MALFORMED": 400,
    "UNAUTHENTICATED": 401,
    "ACCESS_DENIED": 403,
    "MFA_REQUIRED": 403,
    "RECENT_AUTH_REQUIRED": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "REFUSED": 409,
    "CONFLICT": 409,
    "ILLEGAL_TRANSITION": 409,
    "DOUBLE_BOOKED": 409,
    "QUOTA_EXCEEDED": 409,
    "BUDGET_EXCEEDED": 409,
    "SPEND_LIMIT_REACHED": 409,
    "FENCED": 409,
    "HISTORY_PRUNED": 410,
    "STALE_VERSION": 412,
    "PAYLOAD_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "INVALID": 422,
    "IDEMPOTENCY_KEY_REUSED": 422,
    "RATE_LIMITED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "STORAGE_FULL": 503,
    "PROJECTION_BEHIND": 503,
    "EVIDENCE_UNSOUND": 503,
}
"""A code that is not here answers as the nearest of its ancestors does (a new kind of Conflict is a 409)."""


class NoSuchRoute(errors.Refusal):
    """No operation and no page has this path."""

    code = "NOT_FOUND"

    def __init__(self, path: str) -> None:
        self.path = path[:200]
        super().__init__(f"there is nothing at {self.path!r}; /schema shows what there is")


class MethodNotAllowed(errors.Refusal):
    """The path does not take this verb; the header `Allow` names those that it takes (RFC 9110 §15.5.6)."""

    code = "METHOD_NOT_ALLOWED"

    def __init__(self, method: str, allow: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(allow))
        super().__init__(f"{method} is not possible here; this path takes {self.allow}")


class TooLarge(errors.Refusal):
    """The body is longer than a request may be."""

    code = "PAYLOAD_TOO_LARGE"


class UnsupportedMediaType(errors.Refusal):
    """The body is not of the type that the operation takes: `application/json`, or the bytes of an image."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class Internal(errors.Refusal):
    """A fault of the server; the `requestId` is all that a caller learns of it, to report it."""

    code = "INTERNAL"

    def __init__(self) -> None:
        super().__init__("this is a fault of the server; report it with the requestId")


class Problem(Struct, frozen=True, rename="camel", omit_defaults=True):
    """RFC 9457 problem details; further members say more about this code (`limit`, `peak`, `allowed`)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: tuple[FieldError, ...] = ()


RESERVED: Final = frozenset(Problem.__struct_encode_fields__)


def status_of(refusal: errors.Refusal | type[errors.Refusal]) -> int:
    kind = refusal if isinstance(refusal, type) else type(refusal)
    for ancestor in kind.__mro__:
        status = STATUS.get(getattr(ancestor, "code", ""))
        if status is not None:
            return status
    return 409


def type_of(code: str) -> str:
    return "urn:better-compute:problem:" + code.lower().replace("_", "-")


def document(refusal: errors.Refusal, request_id: str) -> bytes:
    """The problem as JSON. Text that UTF-8 cannot carry is replaced, so that refusing never fails."""
    status = status_of(refusal)
    members: dict[str, Any] = {
        "type": type_of(refusal.code),
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _text(refusal.detail),
        "code": refusal.code,
        "requestId": request_id,
    }
    if refusal.errors:
        members["errors"] = [{"field": _text(e.field), "message": _text(e.message)} for e in refusal.errors]
    for name, value in refusal.extra.items():
        if name not in RESERVED:
            members[name] = _text(value) if isinstance(value, str) else value
    return msgspec.json.encode(members)


def headers(refusal: errors.Refusal) -> list[tuple[bytes, bytes]]:
    """What goes with the status: how to authenticate, when to come back, what is allowed."""
    status = status_of(refusal)
    found = [(b"content-type", MEDIA_TYPE)]
    if refusal.replayed:
        found.append((b"idempotency-replayed", b"true"))
    if status == 401:
        found.append((b"www-authenticate", b"Bearer"))
    elif status in (429, 503):
        after = getattr(refusal, "retry_after", refusal.extra.get("retryAfterSeconds", RETRY_AFTER_SECONDS))
        found.append((b"retry-after", str(after).encode()))
    elif isinstance(refusal, MethodNotAllowed):
        found.append((b"allow", refusal.allow.encode("latin-1", "replace")))
    return found


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
