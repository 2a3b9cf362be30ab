"""What forms of the console do in a real browser: a refusal stays with what was typed, a form sent twice acts once."""

import re
import uuid
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from visits import Visit, Visitor

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=15_000)


@pytest.fixture
def admin(visit: Visit) -> Visitor:
    made: Visitor = visit("acme")
    return made


def project(page: Page, name: str) -> Any:
    """The form of a new project, filled in."""
    act = page.locator("details.act", has=page.locator("summary", has_text="New project"))
    act.locator("summary").click()
    act.get_by_label("Name").fill(name)
    return act


def named(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:6]}"


def refused(visitor: Visitor) -> None:
    """The browser itself complains of each refusal; nothing else may have been wrong."""
    assert [one for one in visitor.complaints if "Failed to load resource" not in one] == []
    visitor.complaints.clear()


def test_a_refusal_stays_in_its_form_and_what_is_put_right_is_done(admin: Visitor) -> None:
    page = admin.go("/projects")
    act = project(page, "No Name!")
    act.get_by_role("button").click()
    expect(act.get_by_role("alert")).to_contain_text("name")
    expect(act.get_by_label("Name")).to_be_visible()
    expect(act.get_by_label("Name")).to_have_value("No Name!")
    expect(page.locator("#said")).to_be_empty()
    refused(admin)
    name = named("put-right")
    act.get_by_label("Name").fill(name)
    act.get_by_role("button").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_form_that_is_sent_twice_acts_once(admin: Visitor) -> None:
    page = admin.go("/projects")
    name = named("twice")
    project(page, name).get_by_role("button").evaluate(
        "button => { button.click(); button.click(); button.form?.requestSubmit() }"
    )
    page.wait_for_url(re.compile(r"/projects/prj_\w+"))
    page.goto(f"{admin.base}/projects")
    expect(page.get_by_role("link", name=name, exact=True)).to_have_count(1)
    admin.complaints.clear()


def test_what_was_done_folds_its_form_and_is_said(admin: Visitor) -> None:
    page = admin.go("/projects")
    project(page, named("folded")).get_by_role("button").click()
    page.wait_for_url(re.compile(r"/projects/prj_\w+"))
    act = page.locator("details.act", has=page.locator("summary", has_text="Set the quota"))
    act.locator("summary").click()
    act.get_by_label("gpu", exact=True).fill("4")
    act.get_by_role("button").click()
    expect(page.get_by_role("region", name="Quota of the project")).to_contain_text("gpu")
    expect(act).not_to_have_attribute("open", "")
    expect(page.locator("#said")).to_contain_text("quotas.set")
