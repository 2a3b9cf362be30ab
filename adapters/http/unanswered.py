"""What no handler answered: an address or a verb that is not there, a request that crashed.

An API client gets a problem document, a person at a browser the console's page of it where there is a console.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, ExceptionHandlersMap, Scope

from adapters.telemetry import REQUEST_ID
from domain import errors

from . import body, problems, respond

Asked = Request[Any, Any, Any]
Show = Callable[[Scope, errors.Refusal], Awaitable[ASGIApp]]

OF_CLIENTS: Final = ("v1", "schema", "metrics", "health")
"""Where only programs ask, whatever they say that they accept: the first segments of such paths."""

_log = logging.getLogger("better_compute.http")


def handlers(show: Show | None) -> ExceptionHandlersMap:
    """`show` makes a person's page of a refusal."""

    def answered(request: Asked, refusal: errors.Refusal) -> Response[bytes]:
        if show is not None and for_people(request.scope):
            return _Awaited(show(request.scope, refusal))
        return _document(refusal)

    def crashed(request: Asked, error: Exception) -> Response[bytes]:
        _log.error("a request crashed", exc_info=error)
        return answered(request, problems.Internal())

    def refused(request: Asked, error: HTTPException) -> Response[bytes]:
        """Litestar's own refusals, as ours."""
        if error.status_code >= 500:
            return crashed(request, error)
        return answered(request, _as_refusal(request, error))

    return {HTTPException: refused, errors.Refusal: answered, Exception: crashed}


def for_people(scope: Scope) -> bool:
    """Whether a page of the console is what the caller wants: a browser that goes somewhere, or htmx on a page."""
    if scope["path"].lstrip("/").partition("/")[0] in OF_CLIENTS:
        return False
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"]
    return prefers_html(",".join(given)) or any(name == b"hx-request" for name, _ in scope["headers"])


def prefers_html(accept: str) -> bool:
    """HTML is named, and JSON is wanted less (RFC 9110 §12.5.1)."""
    wanted = dict(filter(None, map(_preference, accept.lower().split(","))))
    json = next((wanted[kind] for kind in ("application/json", "application/*", "*/*") if kind in wanted), 0.0)
    return wanted.get("text/html", 0.0) > json


def _preference(part: str) -> tuple[str, float] | None:
    kind, *parameters = (piece.strip() for piece in part.split(";"))
    weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
    try:
        return (kind, float(weight)) if kind else None
    except ValueError:
        return None


class _Awaited(Response[bytes]):
    """An answer that has yet to be found: Litestar waits for no handler of an exception, but for its response."""

    def __init__(self, found: Awaitable[ASGIApp]) -> None:
        super().__init__(b"")
        self._found = found

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await (await self._found)(scope, receive, send)

        return answer


def _document(refusal: errors.Refusal) -> Response[bytes]:
    """Litestar wants its own kind of response here; the rare path can afford it."""
    made = respond.refuse(refusal, REQUEST_ID.get() or "")
    headers = {name.decode(): value.decode() for name, value in made.headers}
    return Response(made.body, status_code=made.status, headers=headers)


def _as_refusal(request: Asked, error: HTTPException) -> errors.Refusal:
    match error.status_code:
        case 404:
            return problems.NoSuchRoute(request.scope["path"])
        case 405:
            return problems.MethodNotAllowed(request.scope["method"], _allowed(error.headers or {}))
        case 413:
            return problems.TooLarge(f"a request body is at most {body.MAX_BODY} bytes here")
        case 415:
            return problems.UnsupportedMediaType(error.detail)
        case 401:
            return errors.Unauthenticated(error.detail)
        case 403:
            return errors.AccessDenied(error.detail)
        case _:
            return errors.Malformed(error.detail)


def _allowed(headers: Mapping[str, str]) -> set[str]:
    """Of Litestar's `allow` header, with what the envelope adds to it."""
    named = next((value for name, value in headers.items() if name.lower() == "allow"), "")
    found = {method.strip() for method in named.split(",") if method.strip()}
    return found | {"HEAD"} if "GET" in found else found
