"""The body of a request, bounded and of the one type that the API takes."""

import asyncio
import re
from typing import Final

from litestar.types import Receive

from domain import errors

from .problems import TooLarge, UnsupportedMediaType

MAX_BODY: Final = 1 << 20
SECONDS: Final = 30
FORM_TYPE: Final = "application/x-www-form-urlencoded"
_JSON_TYPE: Final = re.compile(r'\s*application/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?;?\s*', re.IGNORECASE)


async def read(receive: Receive, headers: dict[bytes, str], limit: int = MAX_BODY) -> bytes:
    """All of it, or a refusal before more than `limit` bytes are held, whatever the length header claims."""
    raw = await _bounded(receive, headers, limit)
    if raw and not _JSON_TYPE.fullmatch(headers.get(b"content-type", "")):
        raise UnsupportedMediaType("send the body as `Content-Type: application/json`, in UTF-8")
    return raw


async def read_form(receive: Receive, headers: dict[bytes, str], limit: int) -> bytes:
    """As `read`, of a form of the console."""
    raw = await _bounded(receive, headers, limit)
    if raw and headers.get(b"content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise UnsupportedMediaType(f"send the form as `Content-Type: {FORM_TYPE}`")
    return raw


async def _bounded(receive: Receive, headers: dict[bytes, str], limit: int) -> bytes:
    claimed = headers.get(b"content-length", "0")
    if claimed.isdecimal() and int(claimed[:20]) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(SECONDS):
            return await _collect(receive, limit)
    except TimeoutError:
        raise errors.Malformed(f"the body did not arrive within {SECONDS} s") from None


async def _collect(receive: Receive, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise errors.Malformed("the connection closed before the body ended")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"a request body is at most {limit} bytes here")
