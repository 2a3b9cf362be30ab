"""Who a machine is: twins settled and retired, machines installed anew, devices that go while they are booked."""

import copy
from typing import Any

import pytest

from commands import agents
from domain import fingerprint
from domain import inventory as document
from given import Plane, inventory


def report(plane: Plane, node_id: str, found: dict[str, Any]) -> None:
    session = plane.store.load(node_id).state.session
    agents.report_inventory(plane.store, node_id, session, document.NodeInventory.convert(found))


def twin(index: int, of: dict[str, Any]) -> dict[str, Any]:
    """Another machine whose board says the same UUID."""
    found = inventory(index=index)
    found["system"]["productUuid"] = of["system"]["productUuid"]
    return found


def conditions(plane: Plane, node_id: str) -> dict[str, list[str]]:
    shown = plane.root.ok("GET", f"/v1/nodes/{node_id}")["conditions"]
    return {one["type"]: one["names"] for one in shown}


def trusted(plane: Plane, node_id: str) -> bool:
    return bool(plane.root.ok("GET", f"/v1/nodes/{node_id}")["fingerprintTrusted"])


def test_settled_twins_are_placed_on_and_no_later_report_marks_them_again(plane: Plane) -> None:
    """O29: the operator says that they are two; the UUID goes on counting for neither."""
    pool_id, (first,) = plane.fleet()
    site_id = plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"]
    mine = plane.root.ok("GET", f"/v1/nodes/{first}/inventory")["inventory"]
    found = twin(81, mine)
    second = plane.node(site_id, pool_id, "n2", found=found)
    assert conditions(plane, second) == {"DuplicateHardware": [first]}
    refused = plane.root.post(f"/v1/nodes/{second}/settle", {"reason": "two", "nodes": [second]})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "nodes[0]")
    settled = plane.root.ok("POST", f"/v1/nodes/{second}/settle", {"reason": "two machines"})
    assert (settled["conditions"], settled["schedulable"]) == ([], True)
    again = plane.root.ok("POST", f"/v1/nodes/{second}/settle", {"reason": "two machines", "nodes": [first]})
    assert again["version"] == settled["version"]
    changed = copy.deepcopy(found)
    changed["memory"]["totalMiB"] += 1024
    report(plane, second, changed)
    report(plane, first, mine)
    assert conditions(plane, second) == conditions(plane, first) == {}
    for node_id in (first, second):
        state = plane.store.load(node_id).state
        whole = fingerprint.fingerprint(state.inventory)
        assert state.identifiers == whole.identifiers, "it stays an identifier"
        assert state.fingerprint != whole.fingerprint, "and counts for neither"


def test_a_retirement_gives_its_twins_back_what_was_theirs_in_the_same_append(plane: Plane) -> None:
    site_id = plane.site()
    found = inventory(index=30)
    found.pop("nics")
    found["gpus"] = []
    first = plane.join(site_id, "n1", found)
    alone = plane.root.ok("GET", f"/v1/nodes/{first}")["fingerprint"]
    second = plane.join(site_id, "n2", found)
    third = plane.join(site_id, "n3", found)
    assert conditions(plane, second) == {"DuplicateHardware": [first]}
    assert conditions(plane, third) == {"DuplicateHardware": sorted([first, second])}
    assert not trusted(plane, first)
    plane.root.ok("POST", f"/v1/nodes/{first}/retire", {})
    assert conditions(plane, second) == {}
    assert conditions(plane, third) == {"DuplicateHardware": [second]}
    plane.root.ok("POST", f"/v1/nodes/{second}/retire", {})
    assert conditions(plane, third) == {}
    assert trusted(plane, third)
    assert plane.root.ok("GET", f"/v1/nodes/{third}")["fingerprint"] == alone


def test_a_card_that_moved_belongs_to_whoever_has_it_once_the_other_says_so(plane: Plane) -> None:
    site_id = plane.site()
    one, other = inventory(gpus=2, index=40), inventory(gpus=2, index=41)
    first, second = plane.join(site_id, "n1", one), plane.join(site_id, "n2", other)
    for node_id in (first, second):
        plane.connect(node_id)
    moved = one["gpus"].pop()
    other["gpus"].append(moved)
    report(plane, second, other)
    assert conditions(plane, second) == {"DuplicateHardware": [first]}
    report(plane, first, one)
    assert conditions(plane, second) == {}


def test_another_tenants_twin_is_not_named(plane: Plane) -> None:
    own = plane.acme.ok("POST", "/v1/sites", {"name": "own", "kind": "custom", "iamRegion": "eu"})["id"]
    found = inventory(index=50)
    first = plane.join(plane.site(), "n1", found)
    made = plane.acme.ok("POST", "/v1/join-tokens", {"siteId": own, "trust": "tenant-owned"})
    body = {"name": "n1", "inventory": twin(51, found), "publicKey": "B" * 43 + "="}
    answer = plane.app.post("/v1/nodes/join", json=body, headers={"authorization": f"Bearer {made['token']}"})
    (held,) = answer.json()["conditions"]
    assert (held["type"], held.get("names", []), held["message"]) == ("DuplicateHardware", [], "another tenant's node")
    node_id = answer.json()["id"]
    assert first not in plane.acme.get(f"/v1/nodes/{node_id}").text
    plane.settle()
    assert first not in plane.acme.get("/v1/nodes").text
    assert plane.acme.ok("POST", f"/v1/nodes/{node_id}/settle", {"reason": "two machines"})["conditions"] == []


@pytest.mark.parametrize("starts_in_ms", [0, 7 * 86_400_000])
def test_a_booked_card_that_is_gone_is_named_and_its_booking_stays(plane: Plane, starts_in_ms: int) -> None:
    """O23, O25: a card that is missing takes neither the node nor the booking with it."""
    pool_id, (node_id,) = plane.fleet(gpus=2)
    found = plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory")["inventory"]
    when = {"startsAt": plane.store.now() + starts_in_ms} if starts_in_ms else {}
    made = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}], **when).json()
    lacking = copy.deepcopy(found)
    gone = lacking["gpus"].pop()["uuid"]
    report(plane, node_id, lacking)
    assert conditions(plane, node_id)["BookedDeviceMissing"] == [gone]
    shown = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    assert shown["schedulable"], "the condition only informs"
    plane.settle()
    booked = plane.root.ok("GET", f"/v1/bookings?nodeId={node_id}")["items"]
    assert gone in {b["deviceId"] for b in booked}
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] != "failed"
    report(plane, node_id, found)
    assert conditions(plane, node_id) == {}
