"""Somebody at the console, in a real browser; pictures of pages are kept in `.artifacts/`, to be looked at."""

from collections.abc import Callable
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page

PICTURES = Path(__file__).parents[2] / ".artifacts"


class Visitor:
    """Somebody at the console. What the browser complains of fails the test at its end."""

    def __init__(self, context: BrowserContext, base: str, name: str) -> None:
        self.page: Page = context.new_page()
        self.base = base
        self._name = name
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self._hear(said.type, said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error":
            self.complaints.append(text)

    def go(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page

    def look(self, what: str) -> None:
        """Keep a picture of the page, and have it checked: nothing serious by axe, nothing wider than the screen."""
        PICTURES.mkdir(exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{self._name}-{what}.png", full_page=True)
        found = Axe().run(self.page).response["violations"]
        serious = [(one["id"], one["nodes"][0]["target"]) for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], what
        room, wide = self.page.evaluate("[innerWidth, document.documentElement.scrollWidth]")
        assert wide <= room, f"{what} is {wide} px wide on a screen of {room}"


Visit = Callable[..., Visitor]
