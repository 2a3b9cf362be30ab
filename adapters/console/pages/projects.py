"""Projects."""

from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page


def build(ask: Ask) -> dict[str, Any]:
    return {}


PAGES: Final = (
    Page(
        path="/projects",
        name="console.projects",
        template="empty.html",
        build=build,
        title="Projects",
        nav="Projects",
        needs="projects.list",
    ),
)
