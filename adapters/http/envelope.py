"""What holds for every answer, also for those that Litestar's own middleware never sees (404, 405, a crash).

Raw ASGI around the application: request id, HEAD, security headers, the access log and the counters.
"""

import logging
import re
import time
from typing import Final, cast

from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from adapters.entropy import Entropy
from adapters.telemetry import CLIENT_ADDRESS, REQUEST_ID, redact

from . import problems
from .metrics import Metrics
from .respond import refuse

_access = logging.getLogger("better_compute.access")
_log = logging.getLogger("better_compute.http")

_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_entropy: Final = Entropy()
_DEFAULTS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
_FIXED: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Envelope:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # type: ignore[comparison-overlap]
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        token = REQUEST_ID.set(request_id)
        client = scope.get("client")
        came_from = CLIENT_ADDRESS.set(client[0] if client else None)
        try:
            if scope["type"] == "http":  # type: ignore[comparison-overlap]
                await self._answer(cast(HTTPScope, scope), receive, send, request_id)
            else:
                await self._app(scope, receive, send)
        finally:
            CLIENT_ADDRESS.reset(came_from)
            REQUEST_ID.reset(token)

    async def _answer(self, scope: HTTPScope, receive: Receive, send: Send, request_id: str) -> None:
        started = time.perf_counter()
        method = scope["method"]
        path = scope["path"]
        answer = _Answering(send, request_id, head=method == "HEAD")
        if method == "HEAD":
            scope = cast(HTTPScope, {**scope, "method": "GET"})  # the server's own still says that no body follows
        try:
            await self._app(scope, receive, answer.send)
        except Exception:
            _log.exception("a request crashed")
            if answer.status:
                raise
            await refuse(problems.Internal(), request_id)(scope, receive, answer.send)
        finally:
            self._record(scope, method, path, answer.status, time.perf_counter() - started)

    def _record(self, scope: HTTPScope, method: str, path: str, status: int, seconds: float) -> None:
        """Count and log. Neither query nor headers nor body: a cursor or a token may be in them."""
        route = scope.get("route_handler")
        operation = route.name if route is not None else None
        self._metrics.observe(operation, status, seconds)
        if _access.isEnabledFor(logging.INFO):
            client = scope.get("client")
            fields = {
                "method": method,
                "path": path[:300],
                "status": status,
                "ms": round(seconds * 1000, 2),
                "operation": operation,
                "client": client[0] if client else None,
                "caller": scope.get("better_compute.caller"),
            }
            _access.info("request", extra={"fields": fields})


class _Answering:
    """The way of one answer's messages out; `status` is 0 until it began."""

    __slots__ = ("_head", "_request_id", "_send", "status")

    def __init__(self, send: Send, request_id: str, *, head: bool) -> None:
        self._send = send
        self._request_id = request_id
        self._head = head
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message["headers"])
            present = {name for name, _ in headers}
            headers.extend(_FIXED)
            headers.extend(default for default in _DEFAULTS if default[0] not in present)
            headers.append((b"x-request-id", self._request_id.encode()))
            message["headers"] = headers
            await self._send(message)
            if self._head:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not self._head:
            await self._send(message)


def _request_id(scope: Scope) -> str:
    """The caller's own id when it is one that can stand in a log and a header, else a new one.

    The log keeps it for good, so one that looks like a credential is not taken.
    """
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ID.fullmatch(value) and redact(given := value.decode()) == given:
            return given
    return _entropy(16).hex()
