"""What the three readers of the console do, in a real browser: an operator, a tenant, an auditor."""

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect
from visits import Visit

pytestmark = pytest.mark.xdist_group("browser")
WIDTHS = pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
PATIENCE_MS = 15_000
expect.set_options(timeout=PATIENCE_MS)


def api(demo: dict[str, Any], who: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {demo['tokens'][who]}"}
    return httpx.Client(base_url=demo["url"], headers=headers, timeout=30)


@WIDTHS
def test_an_operator_finds_why_a_node_takes_nothing_and_puts_it_right(
    visit: Visit, demo: dict[str, Any], width: int, dark: bool
) -> None:
    visitor = visit("operator", width, dark)
    page = visitor.go("/")
    expect(page.get_by_role("status").filter(has_text="of 46 nodes shown")).to_be_visible()
    visitor.look("fleet")
    with api(demo, "operator") as client:
        nodes = client.get("/v1/nodes?scope=fleet&limit=100").json()["items"]
        node = next(one for one in nodes if one["name"] == "h100-07")
        client.post(f"/v1/nodes/{node['id']}/cordon", json={"reason": "fan 3 is loud"}).raise_for_status()
    page.get_by_role("link", name="h100-07").first.click()
    why = page.get_by_role("region", name="Why nothing is placed on it")
    expect(why).to_contain_text("Cordoned")
    expect(why).to_contain_text("fan 3 is loud")
    visitor.look("node-cordoned")
    act = why.locator("details").first
    act.locator("summary").click()
    act.get_by_role("button").click()
    expect(why).to_have_count(0)
    visitor.look("node")


@WIDTHS
def test_a_tenant_reserves_watches_releases_and_replays_it(
    visit: Visit, demo: dict[str, Any], width: int, dark: bool
) -> None:
    visitor = visit("acme", width, dark)
    page = visitor.go("/reserve")
    pool = page.locator("select[name=poolId]")
    pool.select_option(pool.locator("option", has_text=re.compile(r"^\s*h100 ")).get_attribute("value"))
    page.get_by_label("Count").first.fill("8")
    page.get_by_label("For how long").fill("2h")
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("16 GPU-hours: 8 GPUs for 2 h")
    visitor.look("reserve")
    page.get_by_role("button", name="Reserve", exact=True).click()
    page.wait_for_url(re.compile(r"/reservations/rsv_\w+"))
    reservation = page.url.rpartition("/")[2].partition("?")[0]
    now = page.get_by_role("list", name="Progress").locator("[aria-current=step]")
    expect(now).to_contain_text("active")
    visitor.look("reservation-active")

    page = visitor.go("/calendar?view=week")
    expect(page.get_by_role("table").get_by_role("link", name=short(reservation)).first).to_be_visible()
    visitor.look("calendar")

    page = visitor.go(f"/reservations/{reservation}")
    release = page.locator("#act-reservations-release-" + reservation.replace("_", "-"))
    release.locator("summary").click()
    release.get_by_role("button", name="Release now").click()
    expect(now).to_contain_text("released")

    page = visitor.go(f"/audit/streams/{reservation}")
    expect(told(page, "Released")).to_have_count(1)
    visitor.look("story")
    told(page, "Activated").get_by_role("link", name=re.compile("^as of")).click()
    expect(page.get_by_text("As it was known at position")).to_be_visible()
    expect(told(page, "Released")).to_have_count(0)
    position = re.search(r"asOf=(%40|@)(\d+)", page.url)
    assert position is not None
    page = visitor.go(f"/reservations/{reservation}?asOf=@{position[2]}")
    expect(page.get_by_role("list", name="Progress").locator("[aria-current=step]")).to_contain_text("active")
    expect(page.locator(".act")).to_have_count(0)
    visitor.look("reservation-then")


@WIDTHS
def test_an_auditor_searches_the_log_and_sees_it_proved(visit: Visit, width: int, dark: bool) -> None:
    visitor = visit("auditor", width, dark)
    page = visitor.go("/audit")
    page.get_by_text("More filters").click()
    page.locator("input[name=type]").fill("node.joined.1")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("row").filter(has_text="joined").first).to_be_visible()
    visitor.look("audit")
    page = visitor.go("/audit/proof")
    expect(page.get_by_text("sound", exact=True)).to_be_visible()
    visitor.look("proof")


@WIDTHS
def test_every_other_page_can_be_read_by_everybody(visit: Visit, width: int, dark: bool) -> None:
    visitor = visit("root", width, dark)
    for name in ("nodes", "reservations", "instances", "pools", "projects", "quotas", "usage", "sites"):
        expect(visitor.go(f"/{name}").get_by_role("heading", level=1)).to_be_visible()
        visitor.look(name)


def test_a_page_that_is_left_behind_says_so(visit: Visit) -> None:
    """And is live again once the server is heard."""
    visitor = visit("acme")
    visitor.page.route("**/live*", lambda route: route.abort())
    page = visitor.go("/reservations")
    expect(page.get_by_text(re.compile("^Not live"))).to_be_visible()
    page.unroute_all()
    expect(page.get_by_text(re.compile("^Not live"))).to_be_hidden()
    visitor.complaints.clear()


def test_a_look_that_fails_is_said_and_tried_again(visit: Visit, demo: dict[str, Any]) -> None:
    visitor = visit("acme")
    page = visitor.go("/projects")
    refusals = iter([500, 429])

    def refuse(route: Route) -> None:
        status = next(refusals, None) if "waitFor" in route.request.url else None
        route.fulfill(status=status, body="<p>no</p>") if status else route.continue_()

    page.route("**/projects*", refuse)
    name = f"late-{visitor.page.evaluate('Date.now()')}"
    with api(demo, "acme") as client:
        client.post("/v1/projects", json={"name": name}, headers={"idempotency-key": name}).raise_for_status()
    expect(page.get_by_text(re.compile("^Not live since .*: the server answers 500"))).to_be_visible()
    expect(page.get_by_role("link", name=name)).to_be_visible(timeout=2 * PATIENCE_MS)
    expect(page.get_by_text(re.compile("^Not live"))).to_be_hidden()
    visitor.complaints.clear()


def test_a_server_that_is_slow_to_answer_is_waited_for(visit: Visit) -> None:
    """After a silence a new stream is opened; to close it again within the second would never let it begin."""
    visitor = visit("acme")
    visitor.page.clock.install()
    page = visitor.go("/projects")

    def slow(route: Route) -> None:
        page.wait_for_timeout(2500)
        route.continue_()

    page.route("**/live*", slow)
    page.clock.fast_forward(60_000)
    expect(page.get_by_text(re.compile("^Not live"))).to_be_visible()
    expect(page.get_by_text(re.compile("^Not live"))).to_be_hidden()
    visitor.complaints.clear()


def told(page: Page, what: str) -> Locator:
    """The entry of a story that says this happened."""
    return page.get_by_role("listitem").filter(has=page.locator("p > strong", has_text=re.compile(f"^{what}$")))


def short(id: str) -> str:
    return f"{id[:9]}…{id[-6:]}"
