"""Fleet."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import File, Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/",
        name="console.fleet",
        template="empty.html",
        build=build,
        title="Fleet",
        nav="Fleet",
        needs="capacity.list",
    ),
)
FILES: Final[tuple[File, ...]] = ()
