"""The pages of pools and offerings: what an owner runs there, and what those see to whom a pool is offered."""

from offers import offered
from signed import signed

import given

RUNS = {"pools.update", "pools.offer", "pools.withdraw"}


def test_an_owner_is_offered_what_its_role_and_the_pools_state_allow(plane: given.Plane) -> None:
    pool_id, _ = plane.fleet()
    here = f"/pools/{pool_id}"
    assert offered(signed(plane, plane.root).page(here)) == RUNS
    assert offered(signed(plane, plane.operator).page(here)) == {"pools.update"}
    for client in (plane.auditor, plane.acme, plane.acme_user):
        assert offered(signed(plane, client).page(here)) == set()
    assert signed(plane, plane.globex).get(here).status_code == 404


def test_to_whom_a_pool_is_offered_sees_neither_its_policy_nor_its_other_tenants(plane: given.Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.offer(pool_id, "globex")
    plane.settle()
    page = signed(plane, plane.acme).page(f"/pools/{pool_id}")
    assert "<h2>Policy</h2>" not in page
    assert "globex" not in page
    assert "Your limit" in page
    assert "as this</a>" in page
    assert "<h2>Policy</h2>" in signed(plane, plane.root).page(f"/pools/{pool_id}")


def test_one_pool_from_its_making_to_its_end(plane: given.Plane) -> None:
    browser = signed(plane, plane.root)
    assert "A pool lies in a site of yours" in browser.page("/pools/new")
    site_id = plane.site()
    plane.settle()
    assert offered(browser.page("/pools/new")) == {"pools.create"}
    fields = {"siteId": site_id, "class": "metal-host", "gpuModel": "H100", "gpuMemoryGb": "80", "_key": "one"}
    made = [browser.do("pools.create", name="p" * 63, _then="/pools/{id}", **fields) for _ in range(2)]
    (here,) = {answer.headers["hx-redirect"].partition("?")[0] for answer in made}
    id = here.rpartition("/")[2]
    plane.settle()
    assert offered(browser.page(here)) == {"pools.update", "pools.offer", "pools.retire"}
    quota = {"quota{gpu}": "3", "quota{vcpu}": "", "priority": "0", "includeDescendants": "false"}
    assert browser.do("pools.offer", id=id, tenantId="acme", **quota).status_code == 200
    plane.settle()
    assert '<span class="label">gpu=3</span>' in browser.page(here)
    assert browser.do("pools.withdraw", id=id, tenantId="acme").status_code == 200
    assert browser.do("pools.retire", id=id).status_code == 200
    plane.settle()
    assert offered(browser.page(here)) == set()


def test_a_pool_that_was_changed_meanwhile_is_not_changed_by_an_older_form(plane: given.Plane) -> None:
    pool_id = plane.pool(plane.site())
    browser = signed(plane, plane.root)
    assert browser.do("pools.update", id=pool_id, name="first", _version="1").status_code == 200
    stale = browser.do("pools.update", id=pool_id, name="second", _version="1")
    assert stale.status_code == 412
    assert "Somebody else changed it meanwhile." in stale.text


def test_an_offering_is_seen_by_its_two_sides_alone(plane: given.Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.settle()
    (offer,) = plane.root.ok("GET", f"/v1/pools/{pool_id}/offers")["items"]
    here = f"/offerings/{offer['id']}"
    owner, taker = signed(plane, plane.root), signed(plane, plane.acme)
    assert offered(owner.page(here)) == {"pools.offer", "pools.withdraw"}
    assert offered(taker.page(here)) == set()
    assert "Reserve of it" in taker.page(here)
    assert signed(plane, plane.globex).get(here).status_code == 404
    changed = {"id": pool_id, "tenantId": "acme", "quota{gpu}": "2", "priority": "7"}
    assert owner.do("pools.offer", _version=str(offer["version"]), **changed).status_code == 200
    assert owner.do("pools.withdraw", id=pool_id, tenantId="acme").status_code == 200
    plane.settle()
    assert offered(owner.page(here)) == set()
    assert "It was withdrawn" in owner.page(here)


def test_who_holds_the_pool_is_evicted_from_its_page(plane: given.Plane) -> None:
    pool_id, _ = plane.fleet()
    id = plane.acme.reserve(pool_id).json()["id"]
    then = plane.settle()
    browser = signed(plane, plane.root)
    assert offered(browser.page(f"/pools/{pool_id}")) == RUNS | {"pools.evict"}
    assert offered(browser.page(f"/pools/{pool_id}?asOf=@{then}")) == set()
    assert browser.do("pools.evict", id=pool_id, reservationId=id).status_code == 422
    assert browser.do("pools.evict", id=pool_id, reservationId=id, reason="a fan is loud").status_code == 200


def test_lists_of_pools_show_own_and_offered_ones(plane: given.Plane) -> None:
    assert "There is no pool of yours" in signed(plane, plane.acme).page("/pools")
    pool_id, _ = plane.fleet()
    plane.settle()
    assert pool_id in signed(plane, plane.acme).page("/pools")
    assert pool_id not in signed(plane, plane.globex).page("/pools")
    assert "Nothing matches." in signed(plane, plane.acme).page("/pools?gpuModel=B200")
    assert 'href="/pools/new"' not in signed(plane, plane.acme_user).page("/pools")
