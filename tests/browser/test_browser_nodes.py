"""A node's page in a real browser: it changes by itself, a refusal stays in its form, forms stay as they are typed."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import expect
from visits import Visit

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=15_000)


def api(demo: dict[str, Any]) -> httpx.Client:
    headers = {"authorization": f"Bearer {demo['tokens']['root']}"}
    return httpx.Client(base_url=demo["url"], headers=headers, timeout=30)


def named(client: httpx.Client, name: str) -> str:
    (found,) = client.get(f"/v1/nodes?scope=fleet&text={name}").json()["items"]
    return str(found["id"])


def test_a_node_that_others_change_changes_on_the_page_and_leaves_a_form_alone(
    visit: Visit, demo: dict[str, Any]
) -> None:
    with api(demo) as client:
        node = named(client, "l4-shared-07")
        page = visit("operator").go(f"/nodes/{node}")
        page.evaluate("window.loadedOnce = true")
        plan = page.locator("details.act", has_text="Plan maintenance").first
        plan.locator("summary").click()
        plan.get_by_label("Reason").fill("half a sen")
        client.post(f"/v1/nodes/{node}/cordon", json={"reason": "by another"}).raise_for_status()
        expect(page.get_by_role("region", name="Why nothing is placed on it")).to_contain_text("by another")
        assert plan.get_by_label("Reason").input_value() == "half a sen"
        client.post(f"/v1/nodes/{node}/uncordon", json={}).raise_for_status()
        expect(page.get_by_role("region", name="Why nothing is placed on it")).to_have_count(0)
        assert page.evaluate("window.loadedOnce")


def test_a_refusal_stays_in_its_form(visit: Visit, demo: dict[str, Any]) -> None:
    with api(demo) as client:
        node = named(client, "l4-shared-08")
    visitor = visit("operator", 390, True)
    page = visitor.go(f"/nodes/{node}")
    drain = page.locator("details.act.danger", has_text="Drain").first
    drain.locator("summary").click()
    drain.get_by_label("Reason").fill("fan")
    drain.get_by_label("Deadline, UTC").fill("2020-01-01T00:00:00")
    drain.get_by_role("button").click()
    expect(drain.get_by_role("alert")).to_contain_text("lies in the past")
    assert drain.get_by_label("Reason").input_value() == "fan"
    expect(page.locator("#said")).to_be_empty()
    visitor.look("node-refused")
    assert all("422" in said for said in visitor.complaints), "browsers say so of each refusal"
    visitor.complaints.clear()
