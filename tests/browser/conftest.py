"""A real browser at a real demo. Chromium is Debian's, which .ci/run installs; without one these tests are skipped.

Demo and browser are a module's: idle beside the rest of the suite they slow it, and an open Playwright holds the
thread's event loop.
"""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from visits import Visit, Visitor

from serving import directory, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def demo() -> Iterator[dict[str, Any]]:
    with directory() as home, serving(home, "--demo") as ready:
        yield ready


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is found: install Debian's `chromium` to test the console in a browser")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


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
