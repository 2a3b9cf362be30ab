"""Calendar."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/calendar",
        name="console.calendar",
        template="empty.html",
        build=build,
        title="Calendar",
        nav="Calendar",
        needs="bookings.list",
    ),
)
