"""Instances."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/instances",
        name="console.instances",
        template="empty.html",
        build=build,
        title="Instances",
        nav="Instances",
        needs="instances.list",
    ),
)
