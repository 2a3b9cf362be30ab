"""Usage."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import File, Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/usage",
        name="console.usage",
        template="empty.html",
        build=build,
        title="Usage",
        nav="Usage",
        needs="usage.list",
    ),
)
FILES: Final[tuple[File, ...]] = ()
