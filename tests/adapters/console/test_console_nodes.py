"""The fleet and its nodes: why nothing is placed on one comes first, and what may be done stands beside."""

import json
import re

import pytest
from signed import Browser, signed

from adapters.console.pages import node_reasons
from domain import provision, schedulability
from given import Plane


def text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.partition("<main")[2]))


def operator(plane: Plane) -> Browser:
    return signed(plane, plane.operator)


def test_every_reason_that_can_stand_against_a_node_has_advice() -> None:
    assert set(node_reasons.REASONS) >= set(schedulability.REASONS), "a reason without a word of help"
    assert all(advice.says and advice.do for advice in node_reasons.REASONS.values())


def test_a_cordoned_node_says_so_first_since_when_and_why_and_how_to_end_it(plane: Plane) -> None:
    _, (node, *_) = plane.fleet()
    plane.operator.ok("POST", f"/v1/nodes/{node}/cordon", {"reason": "fan <3> is loud"})
    page = operator(plane).page(f"/nodes/{node}")
    first = page.partition('aria-label="Why nothing is placed on it"')[2].partition("</section>")[0]
    assert "Cordoned" in first
    assert "fan &lt;3&gt; is loud" in first
    assert 'action="/do/nodes.uncordon"' in first
    assert re.search(r"since <time", first)


def test_what_is_done_from_the_page_is_done(plane: Plane) -> None:
    _, (node, *_) = plane.fleet()
    browser = operator(plane)
    browser.page(f"/nodes/{node}")
    assert browser.do("nodes.cordon", id=node, reason="x").status_code == 200
    assert plane.operator.ok("GET", f"/v1/nodes/{node}")["cordoned"] == "x"
    assert browser.do("nodes.uncordon", id=node).status_code == 200
    assert browser.do("nodes.drain", id=node, reason="y").status_code == 200
    assert plane.operator.ok("GET", f"/v1/nodes/{node}")["drain"]["reason"] == "y"


def test_what_the_state_does_not_allow_is_not_offered(plane: Plane) -> None:
    _, (node, *_) = plane.fleet()
    offered = set(re.findall(r'action="/do/(nodes\.\w+)"', operator(plane).page(f"/nodes/{node}")))
    assert {"nodes.cordon", "nodes.drain", "nodes.maintain", "nodes.label"} <= offered
    assert not {"nodes.uncordon", "nodes.adopt", "nodes.deploy", "nodes.settle"} & offered
    assert "retired" in provision.MOVES


def test_who_only_reads_is_offered_nothing(plane: Plane) -> None:
    _, (node, *_) = plane.fleet()
    page = signed(plane, plane.auditor).page(f"/nodes/{node}")
    assert 'action="/do/' not in page


def test_the_past_offers_nothing_and_shows_what_was(plane: Plane) -> None:
    _, (node, *_) = plane.fleet()
    before = plane.settle()
    plane.operator.ok("POST", f"/v1/nodes/{node}/cordon", {"reason": "later"})
    page = operator(plane).page(f"/nodes/{node}?asOf=@{before}")
    assert 'action="/do/' not in page
    assert "later" not in page


@pytest.mark.parametrize(
    "path", ["/nodes/{id}", "/nodes/{id}/commands", "/nodes/{id}/inventory", "/nodes/{id}/history"]
)
def test_a_node_of_a_pool_that_is_offered_is_not_the_tenants_to_see(plane: Plane, path: str) -> None:
    _, (node, *_) = plane.fleet()
    assert signed(plane, plane.acme).get(path.format(id=node)).status_code == 404
    assert operator(plane).get(path.format(id=node)).status_code == 200


def test_the_fleets_page_names_the_nodes_that_need_a_look_and_no_others(plane: Plane) -> None:
    _, (node, *_) = plane.fleet(nodes=2)
    browser = operator(plane)
    assert node not in browser.page(f"/?waitFor={plane.settle()}")
    plane.operator.ok("POST", f"/v1/nodes/{node}/cordon", {"reason": "fan"})
    page = browser.page(f"/?waitFor={plane.settle()}")
    assert "Needs a look" in page
    assert f'href="/nodes/{node}"' in page


def test_the_maps_file_has_every_node_and_only_for_who_may_see_them(plane: Plane) -> None:
    _, nodes = plane.fleet(nodes=3)
    found = json.loads(operator(plane).page(f"/fleet/map.json?waitFor={plane.settle()}"))
    assert {row["id"] if isinstance(row, dict) else row[0] for row in found["nodes"]} == set(nodes)
    acme = json.loads(signed(plane, plane.acme).page("/fleet/map.json"))
    assert acme["nodes"] == []


def test_a_tenants_fleet_is_what_it_is_offered(plane: Plane) -> None:
    _, (node, *_) = plane.fleet()
    before = len(plane.refusals())
    page = signed(plane, plane.acme).page(f"/?waitFor={plane.settle()}")
    assert "H100" in text(page)
    assert node not in page
    assert len(plane.refusals()) == before, "to look at a page is no refusal"


def test_nodes_are_found_by_text_and_state(plane: Plane) -> None:
    _, (first, second) = plane.fleet(nodes=2)
    plane.operator.ok("POST", f"/v1/nodes/{second}/labels", {"labels": {"row": "z9"}})
    wait = plane.settle()
    page = operator(plane).page(f"/nodes?text=Z9&waitFor={wait}")
    assert second in page
    assert first not in page
