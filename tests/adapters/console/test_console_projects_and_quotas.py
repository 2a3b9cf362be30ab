"""The pages of projects, quotas and budgets: who limits whom, and what is told to whom."""

import pytest
from offers import offered
from signed import signed

import given

LIMITS = {"quotas.set", "budgets.set"}


def test_a_project_is_made_once_limited_and_archived_by_its_tenant(plane: given.Plane) -> None:
    browser = signed(plane, plane.acme)
    assert "There are no projects." in browser.page("/projects")
    fields = {"name": "p" * 63, "labels{}": "team=vision\nwhat=<b>", "_key": "one", "_then": "/projects/{id}"}
    places = {browser.do("projects.create", **fields).headers["hx-redirect"].partition("?")[0] for _ in range(2)}
    (here,) = places
    id = here.rpartition("/")[2]
    plane.settle()
    page = browser.page(here)
    assert "what=&lt;b&gt;" in page
    assert offered(page) == LIMITS | {"projects.archive"}
    of = {"kind": "project", "id": id}
    assert browser.do("quotas.set", **of, **{"limits{gpu}": "6", "limits{vcpu}": ""}).status_code == 200
    days = {"from:day": "2026-11-01", "until:day": "2026-12-31"}
    assert browser.do("budgets.set", gpuHours="100.5", **of, **days).status_code == 200
    plane.settle()
    page = browser.page(here)
    assert "of 100.50 GPU-hours" in page
    assert ">2026-12-31 00:00:00</time>" in page
    (gpu,) = plane.acme.ok("GET", f"/v1/quotas/project/{id}")["resources"]
    assert (gpu["resource"], gpu["limit"]) == ("gpu", 6)
    assert browser.do("quotas.set", **of, **{"limits:empty": "yes"}).status_code == 200
    assert browser.do("budgets.set", **of, **{"gpuHours:null": "yes"}).status_code == 200
    assert "No budget is set." in browser.page(here)
    assert browser.do("projects.archive", id=id).status_code == 200
    plane.settle()
    assert offered(browser.page(here)) == set()


@pytest.mark.parametrize("day", ["2026-13-01", "31.12.2026", "tomorrow", "<script>"])
def test_what_is_no_day_is_refused_by_its_field(plane: given.Plane, day: str) -> None:
    id = plane.project()
    browser = signed(plane, plane.acme)
    refused = browser.do("budgets.set", kind="project", id=id, gpuHours="1", **{"from:day": day})
    assert refused.status_code == 422
    assert "<strong>from: " in refused.text
    assert "<script>" not in refused.text


def test_others_are_not_offered_a_projects_limits(plane: given.Plane) -> None:
    id = plane.project()
    plane.settle()
    for client in (plane.acme_user, plane.root, plane.auditor):
        assert offered(signed(plane, client).page(f"/projects/{id}")) == set()
    assert signed(plane, plane.globex).get(f"/projects/{id}").status_code == 404
    assert id not in signed(plane, plane.globex).page("/projects")


def test_a_project_as_it_stood_before_it_was_archived(plane: given.Plane) -> None:
    id = plane.project()
    then = plane.settle()
    plane.acme.ok("POST", f"/v1/projects/{id}/archive", {})
    plane.settle()
    browser = signed(plane, plane.acme)
    assert '<span class="state archived">' in browser.page(f"/projects/{id}")
    before = browser.page(f"/projects/{id}?asOf=@{then}")
    assert '<span class="state archived">' not in before
    assert offered(before) == set()


def test_the_platform_limits_tenants_and_a_tenant_sees_its_own(plane: given.Plane) -> None:
    browser = signed(plane, plane.root)
    here = "/quotas/tenant/acme"
    assert offered(browser.page(here)) == LIMITS
    assert browser.do("quotas.set", kind="tenant", id="acme", **{"limits{gpu}": "40"}).status_code == 200
    assert browser.do("budgets.set", kind="tenant", id="acme", gpuHours="1000").status_code == 200
    plane.settle()
    mine = signed(plane, plane.acme).page(here)
    assert "of 1,000 GPU-hours" in mine
    for client in (plane.acme, plane.acme_user, plane.operator, plane.auditor):
        assert offered(signed(plane, client).page(here)) == set()
    assert signed(plane, plane.globex).get(here).status_code == 404


def test_the_list_of_quotas_shows_every_tenant_to_the_platform_alone(plane: given.Plane) -> None:
    id = plane.project()
    plane.root.ok("PUT", "/v1/quotas/tenant/globex", {"limits": {"gpu": 3}})
    plane.acme.ok("PUT", f"/v1/quotas/project/{id}", {"limits": {"gpu": 2}})
    plane.settle()
    whole = signed(plane, plane.root).page("/quotas")
    assert "/quotas/tenant/globex" in whole
    assert id in whole
    assert "/quotas/tenant/globex" not in signed(plane, plane.root).page("/quotas?scope=tenant")
    mine = signed(plane, plane.acme).page("/quotas")
    assert id in mine
    assert "globex" not in mine
    assert id not in signed(plane, plane.globex).page("/quotas?scope=fleet")
