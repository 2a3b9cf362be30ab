"""Reservations."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/reservations",
        name="console.reservations",
        template="empty.html",
        build=build,
        title="Reservations",
        nav="Reservations",
        needs="reservations.list",
    ),
)
