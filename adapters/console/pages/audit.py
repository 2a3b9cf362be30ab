"""Audit."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/audit",
        name="console.audit",
        template="empty.html",
        build=build,
        title="Audit",
        nav="Audit",
        needs="audit.events",
    ),
)
