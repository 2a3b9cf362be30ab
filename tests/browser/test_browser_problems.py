"""Pages of what is not there, looked at in a real browser: in the frame, readable, and a way home."""

import pytest
from playwright.sync_api import expect
from visits import Visit

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_an_address_that_is_not_there_leads_home(visit: Visit, width: int, dark: bool) -> None:
    visitor = visit("acme-user", width, dark)
    page = visitor.go("/nodez/<b>x")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.get_by_role("alert")).to_contain_text("there is no page at '/nodez/<b>x'")
    visitor.look("not-found")
    page.get_by_role("main").get_by_role("link", name="Fleet").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    page.context.clear_cookies()
    page = visitor.go("/nodez")
    visitor.look("not-found-signed-out")
    page.get_by_role("main").get_by_role("link", name="Home").click()
    page.wait_for_url("**/sign-in?then=*")
    visitor.complaints[:] = [one for one in visitor.complaints if "404" not in one]
