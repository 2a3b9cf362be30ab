"""`/schema`: the OpenAPI document and a page that works with it without any network."""

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from domain.operation import Operation

from . import openapi
from .respond import Reply, matches

_CSP: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE: Final = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Better Compute API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/schema/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>The document itself is at <a href="/schema/openapi.json">/schema/openapi.json</a>.</noscript>
<script src="/schema/swagger-ui-bundle.js"></script>
<script src="/schema/start.js"></script>
</body>
</html>
"""
_START: Final = b"""window.ui = SwaggerUIBundle({
  url: "/schema/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  filter: true,
  docExpansion: "none",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
"""
_JS: Final = b"text/javascript; charset=utf-8"


class Asset:
    """Bytes that change with a release only: compressed once, and revalidated by their hash if nothing else is said."""

    def __init__(self, media_type: bytes, content: bytes, cache_control: bytes = b"no-cache") -> None:
        self._media_type = media_type
        self._cache_control = cache_control
        self._plain = content
        self._packed = gzip.compress(content, 6, mtime=0)
        self._etag = f'W/"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'

    def reply(self, request: Request[Any, Any, Any]) -> Reply:
        headers = [
            (b"content-type", self._media_type),
            (b"cache-control", self._cache_control),
            (b"vary", b"accept-encoding"),
            (b"content-security-policy", _CSP),
            (b"etag", self._etag.encode()),
        ]
        if matches(self._etag, request.headers.get("if-none-match", "")):
            return Reply(304, b"", headers[1:])
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Reply(200, self._packed, [*headers, (b"content-encoding", b"gzip")])
        return Reply(200, self._plain, headers)


def handlers(operations: Mapping[str, Operation]) -> list[HTTPRouteHandler]:
    @cache
    def document() -> Asset:
        return Asset(b"application/json", openapi.encoded(operations))

    @get("/schema/openapi.json", name="schema.document")
    async def show(request: Request[Any, Any, Any]) -> ASGIApp:
        return document().reply(request)

    return [show, *(_asset(*of) for of in _ASSETS)]


def root() -> HTTPRouteHandler:
    """Where no console is installed, the front door leads to the schema."""

    @get("/", name="root")
    async def redirect() -> ASGIApp:
        return Reply(307, b"", [(b"location", b"/schema")])

    return redirect


def _asset(path: str, name: str, media_type: bytes, content: bytes | str) -> HTTPRouteHandler:
    @cache
    def loaded() -> Asset:
        if isinstance(content, bytes):
            return Asset(media_type, content)
        return Asset(media_type, resources.files(__package__).joinpath("static", content).read_bytes())

    @get(path, name=name)
    async def show(request: Request[Any, Any, Any]) -> ASGIApp:
        return loaded().reply(request)

    return show


_ASSETS: Final[tuple[tuple[str, str, bytes, bytes | str], ...]] = (
    ("/schema", "schema.page", b"text/html; charset=utf-8", _PAGE),
    ("/schema/start.js", "schema.start", _JS, _START),
    ("/schema/swagger-ui-bundle.js", "schema.script", _JS, "swagger-ui-bundle.js"),
    ("/schema/swagger-ui.css", "schema.style", b"text/css; charset=utf-8", "swagger-ui.css"),
)
