"""Pools."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/pools",
        name="console.pools",
        template="empty.html",
        build=build,
        title="Pools",
        nav="Pools",
        needs="pools.list",
    ),
)
