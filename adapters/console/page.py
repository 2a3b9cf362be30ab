"""What a page is: where it is, what it asks, and the template that shows the answers."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from .ask import Ask


class Page(Struct, frozen=True, kw_only=True):
    """A page or a part of one. `build` asks, and returns what the template shows; it may raise any refusal.

    `live` are the prefixes of streams (`node`, `rsv`) whose events make it show itself anew, none: any stream.
    `needs` is the operation that says whether the navigation offers it. `past` is whether `asOf` means something here.
    """

    path: str
    name: str
    template: str
    build: Callable[[Ask], dict[str, Any]]
    title: str = ""
    nav: str = ""
    needs: str = ""
    live: tuple[str, ...] = ()
    past: bool = True


class File(Struct, frozen=True, kw_only=True):
    """What is no page: data for a script, a download. `build` returns its bytes."""

    path: str
    name: str
    media_type: str
    build: Callable[[Ask], bytes]
    filename: str | None = None
