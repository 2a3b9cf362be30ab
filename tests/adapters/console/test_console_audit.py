"""The audit pages: what happened, by whom, under which decision, and that the log proves itself."""

import re

import pytest
from signed import signed

from adapters.console import render
from given import Plane


def test_a_things_story_says_what_who_and_under_which_decision(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, made["id"])
    plane.settle()
    page = signed(plane, plane.acme).page(f"/audit/streams/{made['id']}?order=asc")
    told = [re.sub(r"<[^>]+>", "", one).strip() for one in re.findall(r"<p><strong>(.*?)</strong>", page)]
    assert told[:3] == ["Drafted", "Admitted", "Placed"]
    assert told[-2:] == ["Activated", "Ending"]
    assert "<strong>acme/acme</strong>" in page
    assert "<code>reservations:create</code> by acme/acme" in page


def test_the_story_leads_to_the_thing_as_it_was_at_each_version(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, made["id"])
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    plane.settle()
    browser = signed(plane, plane.acme)
    story = browser.page(f"/audit/streams/{made['id']}?order=asc&waitFor={plane.head()}")
    places = re.findall(r"asOf=%40(\d+)\">as of", story)
    assert len(places) >= 6
    then = browser.page(f"/audit/streams/{made['id']}?asOf=@{places[1]}")
    assert "State at version 2" in then
    assert "As it was known at position" in then
    assert "Activated" not in then


def test_a_tenant_is_told_why_positions_are_missing_between_its_own(plane: Plane) -> None:
    plane.fleet()
    plane.acme.ok("POST", "/v1/projects", {"name": "alpha"})
    why = "those that are missing between yours are other tenants"
    position = plane.settle()
    assert why in signed(plane, plane.acme).page(f"/audit?waitFor={position}")
    assert why not in signed(plane, plane.auditor).page(f"/audit?waitFor={position}")


def test_what_has_no_end_is_told_so(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    made = plane.instance(pool_id)
    story = signed(plane, plane.acme).page(f"/audit/streams/{made['reservationId']}?waitFor={plane.settle()}")
    assert "<dt>ends at</dt><dd>no end</dd>" in story
    assert "253,402" not in story


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sizeBytes", 1_920_000_000_000, "1,920,000,000,000"),
        ("sizeBytes", 300_000_000_000_000, "300,000,000,000,000"),
        ("deadline", 1_920_000_000_000, ">2030-11-04 05:20:00</time>"),
        ("joinedAt", 86_400_000, ">1970-01-02 00:00:00</time>"),
        ("prepareBy", 86_400_000, ">1970-01-02 00:00:00</time>"),
        ("until", 253_402_300_800_000, "no end"),
    ],
)
def test_an_instant_is_told_by_its_name_not_by_its_size(name: str, value: int, said: str) -> None:
    told = render.environment().get_template("telling.html").module
    (shown,) = re.findall(r"<dd>(.*?)</dd>", told.data({name: value}))  # type: ignore[attr-defined]
    assert shown.endswith(said)


def test_another_tenants_story_is_one_that_is_not_there(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    browser = signed(plane, plane.globex)
    plane.settle()
    assert made["id"] not in browser.page("/audit"), "before globex asks for it: its own refusal names it"
    missing = browser.get(f"/audit/streams/{made['id'][:-1]}{'0' if made['id'][-1] != '0' else '1'}")
    foreign = browser.get(f"/audit/streams/{made['id']}")
    assert (foreign.status_code, missing.status_code) == (404, 404)
    told = browser.page(f"/audit?waitFor={plane.settle()}")
    assert "not resolved" in told, "that it asked is its own to know"
    assert "reservation <strong>placed" not in told


def test_who_may_not_read_the_audit_is_not_offered_it(plane: Plane) -> None:
    browser = signed(plane, plane.acme_user)
    before = len(plane.refusals())
    assert 'href="/audit"' not in browser.page("/reserve")
    assert len(plane.refusals()) == before, "to look at a page is no refusal"
    assert browser.get("/audit").status_code == 403


def test_a_search_finds_what_its_fields_say(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.acme.reserve(pool_id)
    assert plane.globex.get(f"/v1/pools/{pool_id}").status_code == 404
    plane.settle()
    browser = signed(plane, plane.root)
    wait = f"waitFor={plane.head()}"
    refused = browser.page(f"/audit?outcome=deny&{wait}")
    assert "compute:pools:get" in refused
    assert "not resolved" in refused
    assert "reservation <strong>placed" not in refused
    placed = browser.page(f"/audit?type=reservation.placed.1&{wait}")
    assert placed.count("reservation <strong>placed") == 1
    nothing = browser.page("/audit?from=2020-01-01T00:00:00&until=2020-01-02T00:00:00")
    assert "Nothing in the log is like that" in nothing


@pytest.mark.parametrize("query", ["type=%3Cscript%3E", "from=yesterday", "outcome=maybe", "cursor=x", "order=up"])
def test_a_search_that_makes_no_sense_is_refused_by_field(plane: Plane, query: str) -> None:
    answer = signed(plane, plane.root).get(f"/audit?{query}")
    assert answer.status_code == 422
    assert "<script>" not in answer.text
    assert 'class="problem"' in answer.text


def test_names_are_shown_as_text(plane: Plane) -> None:
    hostile = '"><img src=x onerror=alert(1)>'
    made = plane.acme.ok("POST", "/v1/projects", {"name": "plain"})
    answer = signed(plane, plane.acme).get(f"/audit?resource={made['id']}&identityId=%22%3E%3Cimg+src%3Dx%3E")
    assert answer.status_code == 200
    assert "<img" not in answer.text
    assert hostile not in answer.text


def test_the_proof_says_that_the_chain_is_sound_and_gives_a_checkpoint(plane: Plane) -> None:
    plane.fleet()
    for client, whose in ((plane.root, "The log"), (plane.acme, "Your chain")):
        page = signed(plane, client).page("/audit/proof")
        assert 'data-live=""' in page
        assert '<span class="state good">sound</span>' in page
        assert whose in page
        assert re.search(r"<pre[^>]*>better-compute/[0-9a-f]{32}", page)
