"""Reserve."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/reserve",
        name="console.reserve",
        template="empty.html",
        build=build,
        title="Reserve",
        nav="Reserve",
        needs="reservations.create",
    ),
)
PARTS: Final[tuple[Page, ...]] = ()
