"""Nodes."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/nodes",
        name="console.nodes",
        template="empty.html",
        build=build,
        title="Nodes",
        nav="Nodes",
        needs="nodes.list",
    ),
)
