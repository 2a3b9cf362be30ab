"""A real browser at a real demo. Chromium is Debian's, which .ci/run installs; without one these tests are skipped.

Pictures of each page are kept in `.artifacts/`, to be looked at.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from serving import directory, serving

PICTURES = Path(__file__).parents[2] / ".artifacts"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def demo() -> Iterator[dict[str, Any]]:
    with directory() as home, serving(home, "--demo") as ready:
        yield ready


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is found: install Debian's `chromium` to test the console in a browser")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


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


@pytest.fixture
def visit(browser: Browser, demo: dict[str, Any]) -> Iterator[Visit]:
    """Sign somebody in: `visit("acme", width=390, dark=True)`."""
    opened: list[tuple[BrowserContext, Visitor]] = []

    def signed_in(who: str, width: int = 1280, dark: bool = False) -> Visitor:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light", timezone_id="Asia/Tokyo"
        )
        visitor = Visitor(context, demo["url"].rstrip("/"), f"{width}{'-dark' if dark else ''}")
        opened.append((context, visitor))
        page = visitor.go("/sign-in")
        page.get_by_label("Token").fill(demo["tokens"][who])
        page.get_by_role("button", name="Sign in").click()
        page.locator("#nav").wait_for(state="attached")
        return visitor

    yield signed_in
    for context, visitor in opened:
        context.close()
        assert visitor.complaints == []
