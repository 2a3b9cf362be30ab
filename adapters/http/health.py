"""What an orchestrator asks: does the process answer, and can it do its work (api.md §2)."""

import logging
from collections.abc import Callable

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import Struct

from adapters.http.respond import Reply
from adapters.http.threads import Workers

_log = logging.getLogger("better_compute.http")


class Health(Struct, frozen=True):
    """`checks` says what was looked at: `database: "ok"`, `projectionLag: 12`. It names nothing secret."""

    ready: bool
    checks: dict[str, str | float]


def handlers(health: Callable[[], Health], workers: Workers) -> list[HTTPRouteHandler]:
    """`health` may block; it runs apart from the requests, so that load does not look like death."""

    @get("/health/live", name="health.live")
    async def live() -> ASGIApp:
        return Reply(200, msgspec.json.encode({"status": "live"}))

    @get("/health/ready", name="health.ready")
    async def ready() -> ASGIApp:
        try:
            found = await workers.run(health)
        except Exception:
            _log.exception("the health check failed")
            found = Health(ready=False, checks={"health": "failed"})
        status = "ready" if found.ready else "unavailable"
        body = msgspec.json.encode({"status": status, "checks": found.checks})
        return Reply(200 if found.ready else 503, body)

    return [live, ready]
