"""Styles and scripts, from the package; a name with its content's digest may be kept for ever."""

import hashlib
from functools import cache
from importlib import resources
from typing import Any, Final

from litestar import Request, get
from litestar.exceptions import NotFoundException
from litestar.types import ASGIApp

from adapters.http.pages import Asset

_JS: Final = b"text/javascript; charset=utf-8"
_CSS: Final = b"text/css; charset=utf-8"
_FOR_EVER: Final = b"public, max-age=31536000, immutable"
_KINDS: Final = {"js": _JS, "css": _CSS, "svg": b"image/svg+xml"}


@cache
def names() -> tuple[str, ...]:
    found = resources.files(__package__).joinpath("static").iterdir()
    return tuple(sorted(one.name for one in found if one.name.rpartition(".")[2] in _KINDS))


@cache
def content(name: str) -> bytes:
    return resources.files(__package__).joinpath("static", name).read_bytes()


@cache
def address(name: str) -> str:
    """Where a file is, of this very content."""
    return f"/static/{name}?v={hashlib.blake2b(content(name), digest_size=8).hexdigest()}"


@cache
def _asset(name: str, kept: bytes) -> Asset:
    return Asset(_KINDS[name.rpartition(".")[2]], content(name), cache_control=kept)


@get("/static/{name:str}", name="console.static")
async def show(request: Request[Any, Any, Any]) -> ASGIApp:
    """A page of another release may ask here while servers are replaced: it must not keep this one's file."""
    name = request.scope["path_params"]["name"]
    if name not in names():
        raise NotFoundException
    asked = address(name).partition("?")[2].encode() == request.scope["query_string"]
    return _asset(name, _FOR_EVER if asked else b"no-cache").reply(request)
