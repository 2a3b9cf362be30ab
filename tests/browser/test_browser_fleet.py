"""The map of all nodes, in a real browser: by keyboard, by filter, and as it changes."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from test_browser_journey import PATIENCE_MS, api
from visits import Visit

pytestmark = pytest.mark.xdist_group("browser")


def drawn(page: Page) -> None:
    expect(page.get_by_role("status").filter(has_text="of 46 nodes shown")).to_be_visible(timeout=PATIENCE_MS)


def node_of(demo: dict[str, Any], name: str) -> str:
    with api(demo, "root") as client:
        items = client.get("/v1/nodes?scope=fleet&limit=100").json()["items"]
    return str(next(one["id"] for one in items if one["name"] == name))


def test_arrow_keys_go_from_cell_to_cell_and_each_is_announced(visit: Visit, demo: dict[str, Any]) -> None:
    page = visit("operator").go("/")
    drawn(page)
    page.get_by_role("combobox", name="Pool").select_option(label="h100")
    said = page.locator(".fleet-map .cell")
    page.locator(".fleet-map .cells").focus()
    expect(said).to_contain_text("h100-00: ")
    expect(said).to_contain_text("rack north-0")
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("h100-01: ")
    page.keyboard.press("PageDown")
    expect(said).to_contain_text("h100-04: ")
    page.keyboard.press("End")
    expect(said).to_contain_text("h100-19: ")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/nodes/{node_of(demo, 'h100-18')}$"))


def test_filters_are_in_the_address_and_lead_to_the_same_rows_as_a_table(visit: Visit) -> None:
    page = visit("operator").go("/")
    drawn(page)
    page.get_by_role("combobox", name="Site").select_option(label="south")
    page.get_by_role("combobox", name="Pool").select_option(label="vps")
    status = page.get_by_role("status").filter(has_text="nodes shown")
    expect(status).to_contain_text("4 of 46")
    page.reload()
    expect(status).to_contain_text("4 of 46")
    page.get_by_role("combobox", name="Colour by").select_option("connectivity")
    alone = page.get_by_role("button", name=re.compile("^connected"))
    alone.click()
    expect(alone).to_have_attribute("aria-pressed", "true")
    expect(status).to_contain_text("4 of 46")
    page.get_by_role("link", name="As a table").click()
    expect(page.get_by_role("row")).to_have_count(5)


def test_a_cell_changes_without_the_page_and_without_all_the_others(visit: Visit, demo: dict[str, Any]) -> None:
    visitor = visit("operator", 390, dark=True)
    page = visitor.go("/")
    drawn(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "map.json" in request.url else None)
    node_id = node_of(demo, "l4-shared-07")
    cordoned = page.locator("button[data-state=cordoned]")
    before = cordoned.inner_text() if cordoned.count() else ""
    with api(demo, "operator") as client:
        client.post(f"/v1/nodes/{node_id}/cordon", json={"reason": "fan"}).raise_for_status()
        expect(cordoned).not_to_have_text(before or "cordoned 0")
        visitor.look("fleet-map")
        client.post(f"/v1/nodes/{node_id}/uncordon", json={}).raise_for_status()
    expect(cordoned).to_have_count(0) if not before else expect(cordoned).to_have_text(before)
    assert asked
    assert all("after=" in url for url in asked), "only what changed is asked for"
