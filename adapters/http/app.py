"""The HTTP application: every operation of the registry as a route, within one envelope."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from litestar import Litestar, Request, Response, get, route
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, ControllerRouterHandler
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from adapters.telemetry import REQUEST_ID
from domain import errors
from domain.operation import Operation

from . import body, health, pages, problems, respond, routes, upload
from .envelope import Envelope
from .limits import Limiter, Limits
from .metrics import MEDIA_TYPE, Metrics
from .threads import Workers

Console = Callable[[Mapping[str, Operation], routes.Wiring], Sequence[ControllerRouterHandler]]

_TYPED: Final = re.compile(r"\{(\w+):\w+\}")
RESOLVING = 4
"""Threads that answer what a thing is; each takes a millisecond."""

_log = logging.getLogger("better_compute.http")


def create_app(
    operations: Mapping[str, Operation],
    dispatch: routes.Dispatch,
    identify: routes.Identify,
    health_check: Callable[[], health.Health],
    extra_routes: Sequence[ControllerRouterHandler] = (),
    *,
    limits: Limits | None = None,
    registry: CollectorRegistry | None = None,
    identify_reads: routes.Identify | None = None,
    identify_blocks: bool = False,
    resolver: Callable[[str], bool] | None = None,
    threads: int = 32,
    waiting: int = 512,
    lifespan: Sequence[Callable[[Litestar], Any]] = (),
    begin: upload.Begin | None = None,
    console: Console | None = None,
) -> ASGIApp:
    """Build the application.

    `dispatch` and `health_check` may block and run in threads: `threads` at once, `waiting` more in the
    queue, then 503. `identify`, and `identify_reads` where who reads is found otherwise, run on the event loop
    unless `identify_blocks`. `resolver` knows the resolver's key; without it what bears that credential is not there.
    Its threads are its own: the others may all be waiting for a decision that asks it first. `begin` opens the way of
    a body of bytes; without it operations that take one are not there. `extra_routes` are
    Litestar handlers (sockets, streams, pages); what they raise becomes a problem document too, and their `name=`
    labels their metrics. `console` makes its pages of the operations and what handlers work with.
    """
    metrics = Metrics(registry or CollectorRegistry())
    workers, probes, resolving = Workers(threads, waiting), Workers(2, 32), Workers(RESOLVING, waiting)
    uploads = Workers(upload.AT_ONCE, waiting)
    operations = {name: one for name, one in operations.items() if one.credential != "resolver" or resolver is not None}
    operations = {name: one for name, one in operations.items() if one.content is None or begin is not None}
    limiter = Limiter(limits or Limits())
    wiring = routes.Wiring(
        dispatch,
        identify,
        identify_reads or identify,
        identify_blocks,
        limiter,
        workers,
        begin or upload.nowhere,
        uploads,
    )
    asked = replace(wiring, workers=resolving, resolver=resolver) if resolver else wiring
    handlers = [*_operations(operations, wiring, asked), *health.handlers(health_check, probes)]
    handlers += [_metrics_page(metrics, probes), *pages.handlers(operations), *extra_routes]
    handlers += console(operations, wiring) if console else [pages.root()]
    app = Litestar(
        [_options(handlers), *handlers],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=body.MAX_BODY,
        exception_handlers={HTTPException: _on_http, errors.Refusal: _on_refusal, Exception: _on_crash},
        on_shutdown=[workers.close, probes.close, resolving.close, uploads.close],
        lifespan=list(lifespan),
        debug=False,
    )
    return Envelope(app, metrics)


def _operations(
    operations: Mapping[str, Operation], wiring: routes.Wiring, asked: routes.Wiring
) -> list[ControllerRouterHandler]:
    """`asked` is the wiring of what the resolver's key opens."""
    declared = tuple(operations.values())
    return [
        routes.handler(
            operation,
            asked if operation.credential == "resolver" else wiring,
            respond.location_template(operation, declared),
        )
        for operation in declared
    ]


def _options(handlers: Iterable[ControllerRouterHandler]) -> HTTPRouteHandler:
    """The answer to OPTIONS of every path, before Litestar makes its own: that names one verb where handlers share one.

    One handler, since each that is registered is looked at anew.
    """
    methods: dict[str, set[str]] = {}
    for one in (handler for handler in handlers if isinstance(handler, HTTPRouteHandler)):
        for path in one.paths:
            methods.setdefault(path, {"OPTIONS"}).update(map(str, one.http_methods))
    allowed = {
        _TYPED.sub(r"{\1}", path): ", ".join(sorted(known | ({"HEAD"} if "GET" in known else set()))).encode()
        for path, known in methods.items()
    }

    @route([*methods], http_method=["OPTIONS"])
    async def show(request: Request[Any, Any, Any]) -> ASGIApp:
        return respond.Reply(204, b"", [(b"allow", allowed[request.scope["path_template"]])])

    return show


def _metrics_page(metrics: Metrics, workers: Workers) -> HTTPRouteHandler:
    @get("/metrics", name="metrics")
    async def show() -> ASGIApp:
        return respond.Reply(200, await workers.run(metrics.text), [(b"content-type", MEDIA_TYPE)])

    return show


def _on_refusal(request: Request[Any, Any, Any], refusal: errors.Refusal) -> Response[bytes]:
    """Litestar wants its own kind of response here; the rare path can afford it."""
    made = respond.refuse(refusal, REQUEST_ID.get() or "")
    headers = {name.decode(): value.decode() for name, value in made.headers}
    return Response(made.body, status_code=made.status, headers=headers)


def _on_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Litestar's own refusals, in the API's form."""
    if error.status_code >= 500:
        return _on_crash(request, error)
    return _on_refusal(request, _as_refusal(request, error))


def _as_refusal(request: Request[Any, Any, Any], error: HTTPException) -> errors.Refusal:
    path = request.scope["path"][:200]
    match error.status_code:
        case 404:
            return problems.NoSuchRoute(f"there is nothing at {path!r}; /schema shows what there is")
        case 405:
            return problems.MethodNotAllowed(request.scope["method"], _allowed(error))
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


def _allowed(error: HTTPException) -> set[str]:
    """Of Litestar's `allow` header, with what the envelope adds to it."""
    named = next((value for name, value in (error.headers or {}).items() if name.lower() == "allow"), "")
    found = {method.strip() for method in named.split(",") if method.strip()}
    return found | {"HEAD"} if "GET" in found else found


def _on_crash(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    _log.error("a request crashed", exc_info=error)
    return _on_refusal(request, problems.Internal())
