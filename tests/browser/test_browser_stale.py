"""A page that is not true any more says so, in a real browser, and is true again by itself."""

import re
import uuid
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from visits import Visit, Visitor

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=30_000)

AGAIN = re.compile(r"/projects\?waitFor=")


@pytest.fixture
def admin(visit: Visit) -> Visitor:
    made: Visitor = visit("acme")
    return made


def made(page: Page, demo: dict[str, Any], base: str) -> str:
    """A project that somebody else makes meanwhile; its name."""
    name = f"stale-{uuid.uuid4().hex[:6]}"
    headers = {"authorization": f"Bearer {demo['tokens']['acme']}"}
    answer = page.request.post(f"{base}/v1/projects", data={"name": name}, headers=headers)
    assert answer.status == 201, answer.text()
    return name


def expected(visitor: Visitor) -> None:
    """The browser complains of each answer that failed; nothing else may have been wrong."""
    rest = [one for one in visitor.complaints if "Failed to load resource" not in one]
    assert rest == []
    visitor.complaints.clear()


def test_what_could_not_be_shown_is_told_and_shown_later_though_nothing_else_happens(
    admin: Visitor, demo: dict[str, Any]
) -> None:
    page = admin.go("/projects")
    page.route(AGAIN, lambda route: route.fulfill(status=503, body="away"))
    name = made(page, demo, admin.base)
    expect(page.locator("#stale")).to_contain_text("the server answers 503")
    page.unroute(AGAIN)
    expect(page.get_by_role("link", name=name)).to_be_visible()
    expect(page.locator("#stale")).to_be_hidden()
    expected(admin)


def test_a_page_that_is_refused_from_now_on_says_so(admin: Visitor, demo: dict[str, Any]) -> None:
    page = admin.go("/projects")
    page.route(AGAIN, lambda route: route.fulfill(status=403, body="no"))
    made(page, demo, admin.base)
    expect(page.locator("#stale")).to_contain_text("this page is refused, the server answers 403")
    expected(admin)


def test_a_page_that_the_server_could_not_show_comes_by_itself(admin: Visitor) -> None:
    page = admin.go("/projects/none")
    wrong = re.sub(r'data-refused="\d+"', 'data-refused="503"', page.content())
    page.route("**/projects", lambda route: route.fulfill(status=503, body=wrong, content_type="text/html"), times=1)
    admin.go("/projects")
    expect(page.locator("h1")).to_have_text("This did not work" if "This did not work" in wrong else "Not found")
    expect(page.locator("h1")).to_have_text("Projects")
    expected(admin)


def test_a_clock_that_is_set_back_hides_no_silence(admin: Visitor) -> None:
    page = admin.go("/projects")
    page.wait_for_function("document.body.dataset.live !== ''")
    page.context.set_offline(True)
    with page.expect_event("requestfailed"):
        page.evaluate("document.dispatchEvent(new CustomEvent('changed', { detail: {} }))")
    page.evaluate("{ const was = Date.now.bind(Date); Date.now = () => was() - 3600000; }")
    expect(page.locator("#stale")).to_contain_text("Not live")
    page.context.set_offline(False)
    expect(page.locator("#stale")).to_be_hidden(timeout=60_000)
    admin.complaints.clear()


@pytest.mark.parametrize("reason", ["x" * 255, "e" + "\u0301" * 254], ids=["long", "piled"])
@pytest.mark.parametrize("verb", ["cordon", "drain"])
def test_a_reason_of_one_word_is_not_wider_than_the_screen(
    visit: Visit, demo: dict[str, Any], reason: str, verb: str
) -> None:
    visitor = visit("operator", 390)
    headers = {"authorization": f"Bearer {demo['tokens']['operator']}"}
    nodes = f"{visitor.base}/v1/nodes"
    node = visitor.page.request.get(f"{nodes}?limit=1", headers=headers).json()["items"][0]["id"]
    asked = visitor.page.request.post(f"{nodes}/{node}/{verb}", data={"reason": reason}, headers=headers)
    assert asked.ok, asked.text()
    page = visitor.go(f"/nodes/{node}?waitFor={asked.headers['x-position']}")
    room, wide = page.evaluate("[innerWidth, document.documentElement.scrollWidth]")
    assert wide <= room
    assert page.request.post(f"{nodes}/{node}/uncordon", data={}, headers=headers).ok
