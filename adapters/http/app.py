"""The HTTP application: every operation of the registry as a route, within one envelope."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from litestar import Litestar, Request, Router, get, route
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, ControllerRouterHandler
from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from domain.operation import Operation

from . import body, health, pages, respond, routes, unanswered, upload
from .envelope import Envelope
from .limits import Limiter, Limits
from .metrics import MEDIA_TYPE, Metrics
from .threads import Workers


class People(Struct, frozen=True):
    """What is there for people: pages, and how they are shown what no page answers."""

    handlers: Sequence[ControllerRouterHandler]
    show: unanswered.Show | None = None


Console = Callable[[Mapping[str, Operation], routes.Wiring], People]

RESOLVING = 4
"""Threads that answer what a thing is; each takes a millisecond."""

_TYPE: Final = re.compile(r":\w+(?=})")
"""Of a path's placeholder; Litestar's templates do without."""


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
    labels their metrics. `console` makes what is there for people of the operations and what handlers work with.
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
    people = console(operations, wiring) if console else People((pages.root(),))
    handlers += people.handlers
    app = Litestar(
        [Router("/", route_handlers=[_options(handlers), *handlers])],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=body.MAX_BODY,
        exception_handlers=unanswered.handlers(people.show),
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
    """The answer to OPTIONS of every path; Litestar's own names one verb where handlers share a path."""
    methods: dict[str, set[str]] = {}
    for one in (handler for handler in handlers if isinstance(handler, HTTPRouteHandler)):
        for path in one.paths:
            methods.setdefault(path, {"OPTIONS"}).update(map(str, one.http_methods))
    allowed = {_TYPE.sub("", path): _listed(known) for path, known in methods.items()}

    @route(list(methods), http_method=["OPTIONS"])
    async def show(request: Request[Any, Any, Any]) -> ASGIApp:
        return respond.Reply(204, b"", [(b"allow", allowed[request.scope["path_template"]])])

    return show


def _listed(methods: set[str]) -> bytes:
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set()))).encode()


def _metrics_page(metrics: Metrics, workers: Workers) -> HTTPRouteHandler:
    @get("/metrics", name="metrics")
    async def show() -> ASGIApp:
        return respond.Reply(200, await workers.run(metrics.text), [(b"content-type", MEDIA_TYPE)])

    return show
