"""`POST /v1/iam/webhook`: where Better IAM tells what happened. The signature is the only credential (iam.md §18)."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from adapters.http import body, respond, routes
from adapters.http.threads import Workers
from adapters.iam.better.webhook import MAX_BODY, Receiver, verified
from domain import errors

PATH: Final = "/v1/iam/webhook"


log = logging.getLogger(__name__)


def handler(
    receiver: Receiver,
    secrets: Callable[[], Sequence[str]],
    workers: Workers,
    clock: Callable[[], float] = time.time,
) -> HTTPRouteHandler:
    """`secrets` are those that sign now: while one is rotated, the old and the new."""

    def receive(raw: bytes, timestamp: str, signature: str) -> None:
        now_ms = int(clock() * 1000)
        if not verified(_read(secrets), raw, timestamp, signature, now_ms):
            raise errors.Unauthenticated("the delivery bears no signature of just now by a secret that is known here")
        try:
            receiver.receive(raw, now_ms)
        except (msgspec.MsgspecError, RecursionError):
            raise errors.Malformed("the body is no event of Better IAM") from None

    @post(PATH, name="iam.webhook", status_code=200)
    async def deliver(request: Request[Any, Any, Any]) -> ASGIApp:
        headers = routes.headers_of(request.scope)
        raw = await body.read(request.receive, headers, MAX_BODY)
        timestamp = headers.get(b"x-better-iam-timestamp", "")
        signature = headers.get(b"x-better-iam-signature", "")
        await workers.run(lambda: receive(raw, timestamp, signature))
        return respond.Reply(204, b"")

    return deliver


def _read(secrets: Callable[[], Sequence[str]]) -> Sequence[str]:
    """A delivery that nobody can verify now is delivered again (iam.md §18)."""
    try:
        return secrets()
    except (OSError, UnicodeDecodeError) as problem:
        log.error("the secrets of webhooks cannot be read: %s", problem)
        raise errors.Unavailable("the delivery cannot be verified just now; deliver it again") from None
