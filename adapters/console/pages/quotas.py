"""Quotas."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/quotas",
        name="console.quotas",
        template="empty.html",
        build=build,
        title="Quotas",
        nav="Quotas",
        needs="quotas.get",
    ),
)
