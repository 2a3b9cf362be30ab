"""One Litestar route per operation, all made by one function (api.md §1; ecosystem.md §1.5: what costs)."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from litestar import Request, delete, get, patch, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope
from msgspec import Struct
from msgspec.structs import replace

from adapters.telemetry import REQUEST_ID
from domain import errors
from domain.access import Session
from domain.operation import Answer, Call, Operation
from domain.operation import Request as Asked

from . import body, decode, respond, upload
from .limits import Limiter
from .lines import Lines
from .sse import Streaming
from .threads import Workers

Dispatch = Callable[[Operation, Any, Call], Answer]
Identify = Callable[[str], Session | None]

_DECORATORS: Final = {"GET": get, "POST": post, "PUT": put, "PATCH": patch, "DELETE": delete}
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_TOKEN: Final = r"[A-Za-z0-9._~+/-]{1,4096}=*"
_BEARER: Final = re.compile(rf"[Bb][Ee][Aa][Rr][Ee][Rr] +({_TOKEN})")
_VERSION: Final = re.compile(r'"([0-9]{1,18})(?:\.[0-9a-f]{24})?"')
_NAMES: Final = {"session": "token", "join-token": "join token", "resolver": "resolver key"}
_ONCE: Final = (b"idempotency-key", b"if-match", b"if-none-match", b"authorization", b"content-type")


class Wiring(Struct, frozen=True):
    """What every handler works with."""

    dispatch: Dispatch
    identify: Identify
    identify_reads: Identify
    identify_blocks: bool
    limiter: Limiter
    workers: Workers
    begin: upload.Begin
    uploads: Workers
    resolver: Callable[[str], bool] = lambda token: False


def handler(operation: Operation, wiring: Wiring, location: str | None) -> HTTPRouteHandler:
    """The route of one operation. `location` is where things that it makes are got, with placeholders."""
    shape = decode.Shape(operation)

    async def handle(request: Request[Any, Any, Any]) -> ASGIApp:
        scope = request.scope
        try:
            headers = headers_of(scope)
            call = await _call(operation, wiring, scope, headers)
            raw = b""
            if not operation.in_url and operation.content is None:
                raw = await body.read(request.receive, headers)
            path = scope["path_params"]
            asked = decode.request_of(shape, path, scope["query_string"], raw)
            if operation.streaming is not None:
                return await _stream(operation, wiring, asked, call, headers)
            if operation.content is not None:
                encoded = await _upload(operation, wiring, asked, call, request.receive, headers)
            else:
                encoded = await wiring.workers.run(lambda: _answer(operation, wiring.dispatch, asked, call))
            where = location and _PLACEHOLDER.sub(lambda match: path[match[1]], location)
            return respond.reply(encoded, where, headers.get(b"if-none-match") if operation.in_url else None)
        except errors.Refusal as refusal:
            return respond.refuse(refusal, REQUEST_ID.get() or "")

    path = _PLACEHOLDER.sub(r"{\1:str}", operation.path)
    made: HTTPRouteHandler = _DECORATORS[operation.verb](path, name=operation.name, status_code=200)(handle)
    return made


async def _upload(
    operation: Operation, wiring: Wiring, asked: Any, call: Call, receive: Receive, headers: dict[bytes, str]
) -> respond.Encoded:
    tenant_id = call.session.tenant_id if call.session else ""
    begin = partial(wiring.begin, operation, asked, call)
    return respond.encode(operation, await upload.take(begin, wiring.uploads, receive, headers, tenant_id))


async def _stream(
    operation: Operation, wiring: Wiring, asked: Any, call: Call, headers: dict[bytes, str]
) -> Lines | Streaming:
    tenant_id = call.session.tenant_id if call.session else ""
    if operation.streaming == "events":
        asked = replace(asked, after=resumed(headers, asked.after))
    answer = await wiring.workers.run(lambda: wiring.dispatch(operation, asked, call))
    if operation.streaming == "lines":
        return Lines(answer, wiring.workers, tenant_id)
    return Streaming(answer.body, wiring.workers, tenant_id)


def headers_of(scope: Scope) -> dict[bytes, str]:
    """The request's headers; one that must mean one thing may come once (RFC 9110 §5.3)."""
    found: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in found and name in _ONCE:
            raise errors.Malformed(f"the header {name.decode()} came twice; send it once")
        found[name] = value.decode("latin-1")
    return found


def bearer_of(headers: dict[bytes, str]) -> str | None:
    match = _BEARER.fullmatch(headers.get(b"authorization", ""))
    return match[1] if match else None


def is_token(text: str) -> bool:
    """Whether it can be the bearer at all (RFC 6750 §2.1)."""
    return re.fullmatch(_TOKEN, text) is not None


def if_match_of(headers: dict[bytes, str]) -> int | None:
    header = headers.get(b"if-match")
    if header is None or header.strip() == "*":
        return None
    match = _VERSION.fullmatch(header.strip())
    if match is None:
        raise errors.Malformed('If-Match takes one version as an ETag showed it, such as "7"')
    return int(match[1])


def resumed(headers: dict[bytes, str], after: int | None) -> int | None:
    """Where a stream goes on: behind the last event that the client saw."""
    header = headers.get(b"last-event-id")
    if header is None:
        return after
    if not re.fullmatch(r"[0-9]{1,15}", header):
        raise errors.Malformed("Last-Event-ID is the id of an event of this stream: a log position")
    return int(header)


def _answer(operation: Operation, dispatch: Dispatch, asked: Asked, call: Call) -> respond.Encoded:
    return respond.encode(operation, dispatch(operation, asked, call))


async def _call(operation: Operation, wiring: Wiring, scope: Scope, headers: dict[bytes, str]) -> Call:
    """Who asks, and under which circumstances; counts the request against that caller.

    The resolver is not counted: every decision of a Better IAM host waits for it.
    """
    token = bearer_of(headers)
    if operation.credential == "resolver" and token is not None and wiring.resolver(token):
        return Call(session=None, request_id=REQUEST_ID.get() or "")
    client = scope.get("client")
    address = client[0] if client else ""
    session, counted = None, False
    if operation.credential == "session" and token is not None:
        identify = wiring.identify_reads if operation.in_url else wiring.identify
        session, counted = await identified(wiring, token, identify, address)
    if session is not None:
        wiring.limiter.admit(session.tenant_id, session.identity_id, read=operation.in_url)
        scope["better_compute.caller"] = f"{session.tenant_id}/{session.identity_id}"  # type: ignore[typeddict-unknown-key]
    else:
        if not counted:
            wiring.limiter.admit_stranger(address)
        if token is None or operation.credential != "join-token":
            raise _unauthenticated(operation, token)
    return Call(
        session=session,
        request_id=REQUEST_ID.get() or "",
        idempotency_key=headers.get(b"idempotency-key"),
        if_match=None if operation.is_query else if_match_of(headers),
        bearer=token if operation.credential == "join-token" else None,
    )


async def identified(wiring: Wiring, token: str, identify: Identify, address: str) -> tuple[Session | None, bool]:
    """Whose the token is, and whether the request was counted as a stranger's.

    Where asking costs somebody, what nobody has vouched for is counted first: a flood of tokens that nobody knows ends
    here. One that turns out to be good was not meant.
    """
    if not wiring.identify_blocks:
        return identify(token), False
    limiter = wiring.limiter
    counted = token not in limiter.known
    if counted:
        limiter.admit_stranger(address)
    session = await wiring.workers.run(lambda: identify(token))
    if session is None:
        limiter.known.bad(token)
        return None, counted
    limiter.known.good(token)
    if counted:
        limiter.was_no_stranger(address)
    return session, False


def _unauthenticated(operation: Operation, token: str | None) -> errors.Unauthenticated:
    credential = _NAMES[operation.credential]
    if token is None:
        return errors.Unauthenticated(f"send your {credential} as `Authorization: Bearer <token>`")
    return errors.Unauthenticated(f"this {credential} is unknown, expired or revoked; get a new one")
