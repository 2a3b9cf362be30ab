"""The calendar in a real browser: by mouse, by keys, live, at both widths and in both themes."""

import re
import time
from typing import Any

import httpx
import pytest
from visits import Visit

pytestmark = pytest.mark.xdist_group("browser")
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class Ahead:
    """The day after tomorrow in the H100s of the demo, and what acme books there."""

    def __init__(self, demo: dict[str, Any]) -> None:
        self.begins = (int(time.time() * 1000) // DAY_MS + 2) * DAY_MS
        self.date = time.strftime("%Y-%m-%d", time.gmtime(self.begins / 1000))
        bearer = {"authorization": f"Bearer {demo['tokens']['acme']}"}
        self._client = httpx.Client(base_url=demo["url"], headers=bearer, timeout=30)
        pools = self._client.get("/v1/pools").raise_for_status().json()["items"]
        self.pool_id = next(pool["id"] for pool in pools if pool["name"] == "h100")
        self.path = f"/calendar?poolId={self.pool_id}&date={self.date}"

    def book(self, hour: int) -> str:
        claim = {
            "poolId": self.pool_id,
            "devices": [{"class": "gpu", "count": 1}],
            "startsAt": self.begins + hour * HOUR_MS,
            "durationSeconds": 3600,
        }
        key = {"idempotency-key": f"calendar-{time.time_ns()}"}
        return str(self._client.post("/v1/reservations", json=claim, headers=key).raise_for_status().json()["id"])


@pytest.fixture(scope="module")
def ahead(demo: dict[str, Any]) -> Ahead:
    return Ahead(demo)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_calendar_can_be_used_at_both_widths_and_in_both_themes(
    visit: Visit, ahead: Ahead, width: int, dark: bool
) -> None:
    """What two people see differs in its rows, what two views show in its scale: each is looked at once a width."""
    ahead.book(6)
    for who, views in (("acme", ("day", "month")), ("root", ("week",))):
        visitor = visit(who, width, dark)
        for view in views:
            page = visitor.go(f"{ahead.path}&view={view}")
            page.locator(f'.gantt[data-pool="{ahead.pool_id}"]').wait_for()
            visitor.look(f"calendar-{who}-{view}")


def test_a_booking_appears_while_one_looks_and_leads_to_its_reservation(visit: Visit, ahead: Ahead) -> None:
    page = visit("acme").go(ahead.path)
    page.locator(".gantt").wait_for()
    reservation_id = ahead.book(9)
    bar = page.locator(f'.gantt a[href="/reservations/{reservation_id}"]')
    bar.wait_for(timeout=20_000)
    bar.locator("rect").click()
    page.wait_for_url(f"**/reservations/{reservation_id}")


def test_a_drag_over_free_time_leads_to_the_form_with_that_time(visit: Visit, ahead: Ahead) -> None:
    page = visit("acme").go(ahead.path)
    box = page.locator(".gantt .strip").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.625, box["y"] + 10, steps=4)
    assert f"{ahead.date} 12:00 · 3 h 0 min" in page.locator(".gantt .veil").inner_text()
    page.mouse.up()
    page.wait_for_url(re.compile(rf"startsAt={ahead.begins + 12 * HOUR_MS}\b"))
    assert f"poolId={ahead.pool_id}" in page.url
    assert "durationSeconds=10800" in page.url


def test_the_keyboard_goes_from_time_to_time_and_reserves(visit: Visit, ahead: Ahead) -> None:
    page = visit("acme").go(ahead.path)
    page.locator(".gantt .plot a").first.focus()
    page.keyboard.press("ArrowRight")
    here = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert f"free, from {ahead.date} 01:00 until {ahead.date} 02:00; reserve" in here
    assert page.locator('.gantt .plot a[tabindex="0"]').count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/reserve\?.*startsAt={ahead.begins + HOUR_MS}\b"))
