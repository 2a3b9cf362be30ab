"""The pages of reservations: what each may see, what its state and the caller's role let them do there."""

import html
import re

import pytest
from offers import offered
from signed import signed

import given
from adapters.console import render

SCRIPT = '"><script>alert(1)</script>'


def reserved(plane: given.Plane, by: given.Client | None = None, **fields: object) -> tuple[str, str]:
    """A pool of one node, and the id of what acme's user has there."""
    pool_id, _ = plane.fleet()
    answer = (by or plane.acme_user).reserve(pool_id, **fields)
    assert answer.status_code == 201, answer.text
    return pool_id, str(answer.json()["id"])


def test_nothing_is_reserved_and_the_page_says_where_to_begin(plane: given.Plane) -> None:
    page = signed(plane, plane.acme).page("/reservations")
    assert "Nothing is reserved." in page
    assert 'href="/reserve"' in page
    assert 'href="/reserve">Reserve</a>' not in signed(plane, plane.auditor).page("/reservations")


def test_an_active_one_is_extended_renewed_and_released(plane: given.Plane) -> None:
    _, id = reserved(plane, plane.acme, leaseSeconds=600)
    plane.activate(plane.acme, id)
    browser = signed(plane, plane.acme)
    page = browser.page(f"/reservations/{id}")
    assert offered(page) == {"reservations.extend", "reservations.renew", "reservations.release"}
    assert browser.do("reservations.renew", id=id).status_code == 200
    later = render.iso(plane.acme.ok("GET", f"/v1/reservations/{id}")["endsAt"] + 3_600_000)
    there = f"/reservations/{id}"
    assert browser.do("reservations.extend", part=False, id=id, endsAt=later, _then=there).status_code == 303
    plane.settle()
    assert "<h2>Extensions</h2>" in browser.page(there)
    assert browser.do("reservations.release", id=id).status_code == 200
    plane.settle()
    assert offered(browser.page(there)) == set()


def test_what_waits_is_cancelled_and_says_its_place(plane: given.Plane) -> None:
    every = [{"class": "gpu", "count": 8}]
    pool_id, _ = reserved(plane, devices=every)
    plane.offer(pool_id, gpu=16)
    id = plane.acme_user.reserve(pool_id, devices=every).json()["id"]
    plane.until_state(id, "pending")
    plane.settle()
    browser = signed(plane, plane.acme_user)
    page = browser.page(f"/reservations/{id}")
    assert "Place in the queue" in page
    assert offered(page) == {"reservations.cancel"}
    assert browser.do("reservations.cancel", id=id).status_code == 200


def test_another_tenants_is_not_there_as_one_that_never_was(plane: given.Plane) -> None:
    _, id = reserved(plane)
    plane.settle()
    browser = signed(plane, plane.globex)
    missing = id[:-6] + ("zzzzzz" if not id.endswith("zzzzzz") else "yyyyyy")
    foreign, none = browser.get(f"/reservations/{id}"), browser.get(f"/reservations/{missing}")
    assert (foreign.status_code, none.status_code) == (404, 404)
    assert told(foreign.text).replace(id, "") == told(none.text).replace(missing, "")
    assert id not in browser.page("/reservations")


def told(page: str) -> str:
    """What a page says, without what differs with each request."""
    return re.sub(r"request [0-9a-f]+|data-position=\"\d+\"| ?data-(now|began)=\"\d+\"|value=\"\w{64}\"", "", page)


def test_the_platform_sees_another_tenants_and_evicts_what_is_in_its_pool(plane: given.Plane) -> None:
    pool_id, id = reserved(plane)
    plane.settle()
    browser = signed(plane, plane.root)
    assert id in browser.page("/reservations")
    assert id not in browser.page("/reservations?scope=tenant")
    assert offered(browser.page(f"/reservations/{id}")) == {"pools.evict"}
    assert offered(signed(plane, plane.auditor).page(f"/reservations/{id}")) == set()
    assert browser.do("pools.evict", id=pool_id, reservationId=id, reason=SCRIPT).status_code == 200
    plane.settle()
    page = signed(plane, plane.acme).page(f"/reservations/{id}")
    assert SCRIPT not in page
    assert html.escape(SCRIPT, quote=True).replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in page


def test_labels_of_any_text_are_text(plane: given.Plane) -> None:
    _, id = reserved(plane, labels={"quote": SCRIPT})
    plane.settle()
    page = signed(plane, plane.acme).page(f"/reservations/{id}")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_as_it_stood_then_it_offers_nothing(plane: given.Plane) -> None:
    _, id = reserved(plane, plane.acme)
    placed = plane.settle()
    plane.activate(plane.acme, id)
    plane.settle()
    browser = signed(plane, plane.acme)
    then = browser.page(f"/reservations/{id}?asOf=@{placed}")
    assert offered(then) == set()
    assert 'aria-current="step"><span class="state placed">' in then
    assert 'aria-current="step"><span class="state active">' in browser.page(f"/reservations/{id}")
    assert browser.get(f"/reservations/{id}?asOf=@1").status_code == 404
    assert id in browser.page(f"/reservations?asOf=@{placed}")


def test_what_is_over_a_budget_is_confirmed_by_its_own_person_alone(plane: given.Plane) -> None:
    pool_id, _ = plane.fleet()
    shown = plane.root.ok("GET", f"/v1/pools/{pool_id}")
    policy = shown["policy"] | {"admission": {"budgetCheck": "confirm"}}
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": policy})
    project_id = plane.project()
    plane.acme.ok("PUT", f"/v1/budgets/project/{project_id}", {"gpuHours": 0.5})
    id = plane.acme_user.reserve(pool_id, projectId=project_id).json()["id"]
    plane.settle()
    mine, chief = signed(plane, plane.acme_user), signed(plane, plane.acme)
    assert offered(mine.page(f"/reservations/{id}")) == {"reservations.confirm", "reservations.cancel"}
    assert "reservations.confirm" not in offered(chief.page(f"/reservations/{id}"))
    assert mine.do("reservations.confirm", id=id).status_code == 200
    plane.settle()
    assert "reservations.confirm" not in offered(mine.page(f"/reservations/{id}"))


@pytest.mark.parametrize("id", ["x", "%00", "rsv_", "%3Cscript%3E", "..%2f..", "é", "a" * 300])
def test_what_is_no_id_shows_a_refusal(plane: given.Plane, id: str) -> None:
    for client in (plane.acme, plane.root):
        answer = signed(plane, client).get(f"/reservations/{id}")
        assert answer.status_code in (404, 422)
        assert "<script>alert" not in answer.text
