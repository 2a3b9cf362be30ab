"""Structured logs: one JSON line per record, with the request it belongs to and without any credential.

Every process calls `configure` once. Fields of a record come as `extra={"fields": {...}}`, so that a message
stays a constant that one can count.
"""

import logging
import re
import sys
from contextvars import ContextVar
from typing import Any, Final, TextIO

import msgspec

REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)
"""The request that the running code serves; worker threads inherit it."""

CLIENT_ADDRESS: Final[ContextVar[str | None]] = ContextVar("client_address", default=None)
"""Where that request came from, as the server sees it; what this process does by itself came from nowhere."""

_SECRET = re.compile(
    r"""
    (biam_[a-z]{2,8}_ | bcjt_ | whsec_ | Bearer(?:\s|%20|\+)+ | (?:access_|session_)?token= | eyJ)
    [\w.~+/=-]{8,}
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""Better IAM's tokens and webhook secrets (iam.md §13, §18), our join tokens, any bearer, JWTs."""
_encode = msgspec.json.Encoder(enc_hook=repr).encode


def redact(text: str) -> str:
    """The text with everything blotted out that looks like a credential, but for what shows its kind."""
    return _SECRET.sub(lambda match: match.group(1) + "[redacted]", text)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; `at` is epoch ms."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        request_id = REQUEST_ID.get()
        if request_id is not None:
            line["requestId"] = request_id
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line.update(fields)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return redact(_line(line))


def _line(line: dict[str, Any]) -> str:
    """A log call never fails its caller: what JSON cannot hold (a lone surrogate) is escaped."""
    try:
        return _encode(line).decode()
    except (ValueError, TypeError):
        return _encode({"message": ascii(line)}).decode()


def configure(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all loggers of this process to one stream (stderr). Calling again replaces the handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("uvicorn.access", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
