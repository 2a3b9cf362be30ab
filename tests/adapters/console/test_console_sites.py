"""Sites and join tokens: made, renamed and revoked from their pages; a token's secret is shown once."""

import re

import pytest
from signed import Browser, signed

from given import Plane, inventory


def offered(page: str) -> set[str]:
    return set(re.findall(r'action="/do/([\w.]+)"', page))


@pytest.fixture
def root(plane: Plane) -> Browser:
    return signed(plane, plane.root)


def test_a_site_is_made_and_renamed(plane: Plane, root: Browser) -> None:
    root.page("/sites")
    made = root.do("sites.create", name="west", kind="shared", iamRegion="eu-west", _then="/sites/{id}")
    place = made.headers["hx-redirect"]
    assert re.fullmatch(r"/sites/site_\w+\?waitFor=\d+", place)
    assert "not served" in root.page(place)
    site_id = place.removeprefix("/sites/").partition("?")[0]
    assert root.do("sites.update", id=site_id, name="far-west").status_code == 200
    assert "far-west" in root.page(f"/sites?waitFor={plane.settle()}")
    refused = root.do("sites.update", id=site_id, name="Not A Name")
    assert (refused.status_code, "name" in refused.text) == (422, True)


def test_a_join_tokens_secret_is_shown_once_and_makes_a_node(plane: Plane, root: Browser) -> None:
    site_id = plane.site()
    root.page(f"/sites/{site_id}")
    asked = {"siteId": site_id, "trust": "platform", "role": "unassigned", "uses": "1", "expiresInSeconds": "7d"}
    made = root.do("joinTokens.create", **asked)
    (secret,) = re.findall(r'class="secret">(bcjt_[\w-]+)<', made.text)
    page = root.page(f"/sites/{site_id}?waitFor={plane.settle()}")
    assert secret not in page
    assert "0 of 1" in page
    body = {"name": "n", "inventory": inventory(index=94), "publicKey": "A" * 43 + "="}
    joined = plane.app.post("/v1/nodes/join", json=body, headers={"authorization": f"Bearer {secret}"})
    assert joined.status_code == 201
    assert "used up" in root.page(f"/sites/{site_id}?waitFor={plane.settle()}")


def test_without_scripts_the_secret_is_shown_as_well(plane: Plane, root: Browser) -> None:
    site_id = plane.site()
    root.page(f"/sites/{site_id}")
    made = root.do("joinTokens.create", siteId=site_id, trust="platform", _back=f"/sites/{site_id}", part=False)
    assert made.status_code == 200, "a redirect would lose it"
    assert "bcjt_" in made.text
    assert f'href="/sites/{site_id}"' in made.text


def test_a_token_that_is_good_can_be_revoked_and_then_no_more(plane: Plane, root: Browser) -> None:
    site_id = plane.site()
    token = plane.root.ok("POST", "/v1/join-tokens", {"siteId": site_id, "trust": "platform"})["id"]
    assert "joinTokens.revoke" in offered(root.page(f"/sites/{site_id}?waitFor={plane.settle()}"))
    assert root.do("joinTokens.revoke", id=token).status_code == 200
    page = root.page(f"/sites/{site_id}?waitFor={plane.settle()}")
    assert "revoked" in page
    assert "joinTokens.revoke" not in offered(page)


def test_an_operator_runs_sites_and_makes_no_tokens_and_an_auditor_neither(plane: Plane) -> None:
    site_id = plane.site()
    page = signed(plane, plane.operator).page(f"/sites/{site_id}")
    assert offered(page) == {"sites.update"}
    auditor = signed(plane, plane.auditor)
    assert offered(auditor.page(f"/sites/{site_id}")) == offered(auditor.page("/sites")) == set()


def test_a_tenant_makes_sites_of_its_own_kind_and_sees_no_others_tokens(plane: Plane) -> None:
    site_id = plane.site()
    acme = signed(plane, plane.acme)
    page = acme.page("/sites")
    assert re.findall(r'<option value="(\w+)"', page.partition("/do/sites.create")[2]) == ["custom"]
    plane.root.ok("POST", "/v1/join-tokens", {"siteId": site_id, "trust": "platform"})
    plane.settle()
    answer = acme.get(f"/sites/{site_id}")
    assert answer.status_code == 404 or "jt_" not in answer.text


def test_a_sites_past_offers_nothing(plane: Plane, root: Browser) -> None:
    site_id = plane.site()
    then = plane.settle()
    plane.root.ok("PATCH", f"/v1/sites/{site_id}", {"name": "other"})
    page = root.page(f"/sites/{site_id}?asOf=@{then}")
    assert "north" in page
    assert offered(page) == set()
