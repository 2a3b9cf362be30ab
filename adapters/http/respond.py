"""Answers as HTTP: the status, headers and bytes that an operation's answer becomes (api.md §2)."""

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from litestar.types import Receive, Scope, Send
from msgspec import Struct

from domain import errors
from domain.operation import Answer, Operation

from . import problems

_JSON: Final = (b"content-type", b"application/json")
_TAG: Final = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_TAGS: Final = re.compile(rf"\s*(?:\*|{_TAG}(?:\s*,\s*{_TAG})*)\s*")
_PLACEHOLDER: Final = re.compile(r"\{\w+\}")


class Reply:
    """A finished answer. Litestar passes it on as it is, which saves its own response's header work."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = (_JSON,)) -> None:
        self.status = status
        self.body = body
        self.headers = list(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.status not in (204, 304):
            self.headers.append((b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class Encoded(Struct, frozen=True):
    """An answer whose body is bytes already; `etag` is absent where nothing says which version it is."""

    answer: Answer
    body: bytes
    etag: str | None
    id: str | None


def refuse(refusal: errors.Refusal, request_id: str) -> Reply:
    return Reply(problems.status_of(refusal), problems.document(refusal, request_id), problems.headers(refusal))


def encode(operation: Operation, answer: Answer) -> Encoded:
    """Encode in the worker thread. A query without a version is known by its bytes: a weak tag."""
    body = b"" if answer.status == 204 else msgspec.json.encode(answer.body)
    etag = None
    if answer.version is not None:
        etag = f'"{answer.version}.{_digest(body)}"' if answer.of_the_moment else f'"{answer.version}"'
    elif operation.in_url:
        etag = f'W/"{_digest(body)}"'
    return Encoded(answer, body, etag, _identifier(answer))


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=12).hexdigest()


def reply(encoded: Encoded, location: str | None, if_none_match: str | None) -> Reply:
    """`location` is where the thing made is found, `if_none_match` a query's header."""
    answer = encoded.answer
    headers = [_JSON]
    if answer.position is not None:
        headers.append((b"x-position", b"%d" % answer.position))
    if answer.replayed:
        headers.append((b"idempotency-replayed", b"true"))
    if encoded.etag is not None:
        headers.append((b"etag", encoded.etag.encode()))
        if if_none_match is not None and matches(encoded.etag, if_none_match):
            return Reply(304, b"", headers[1:])
    if location is not None and answer.status == 201 and encoded.id is not None:
        headers.append((b"location", f"{location}/{encoded.id}".encode()))
    return Reply(answer.status, encoded.body, headers[1:] if answer.status == 204 else headers)


def matches(etag: str, header: str) -> bool:
    """Weak comparison, as RFC 9110 §13.1.2 has it for If-None-Match; no list of tags matches nothing."""
    if not _TAGS.fullmatch(header):
        return False
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags


def location_template(operation: Operation, operations: Iterable[Operation]) -> str | None:
    """Where things made by this operation are got: its own path or the one above, if a `get` lies below."""
    shapes = {_PLACEHOLDER.sub("{}", known.path) for known in operations if known.in_url}
    for base in (operation.path, operation.path.rpartition("/")[0]):
        if _PLACEHOLDER.sub("{}", base) + "/{}" in shapes:
            return base
    return None


def _identifier(answer: Answer) -> str | None:
    if answer.status != 201:
        return None
    body: Any = answer.body
    found = body.get("id") if isinstance(body, dict) else getattr(body, "id", None)
    return found if isinstance(found, str) and found.isascii() and found.isprintable() else None
