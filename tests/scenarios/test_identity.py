"""Who a machine is: twins settled and retired, machines installed anew, devices that go while they are booked."""

import copy
import time
from typing import Any

import pytest

from commands import agents
from domain import errors, fingerprint
from domain import inventory as document
from given import DEADLINE_S, Plane, inventory


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


def test_what_a_twin_does_to_another_tenants_node_is_told_without_who_it_is(plane: Plane) -> None:
    """Its id, its token and its admissions are as foreign as its name; what changed is told all the same."""
    own = plane.acme.ok("POST", "/v1/sites", {"name": "own", "kind": "custom", "iamRegion": "eu"})["id"]
    found = inventory(gpus=0, index=52)
    made = plane.acme.ok("POST", "/v1/join-tokens", {"siteId": own, "trust": "tenant-owned"})
    body = {"name": "n1", "inventory": found, "publicKey": "B" * 43 + "="}
    answer = plane.app.post("/v1/nodes/join", json=body, headers={"authorization": f"Bearer {made['token']}"})
    mine = answer.json()["id"]
    before = plane.store.load(mine).version
    theirs = plane.join(plane.site(), "n1", twin(53, found))
    plane.connect(theirs)
    report(plane, theirs, inventory(gpus=0, index=53))
    report(plane, theirs, twin(53, found))
    plane.root.ok("POST", f"/v1/nodes/{theirs}/retire", {})
    plane.settle()
    seen = plane.store.history(mine)[before:]
    assert [type(one.event).__name__ for one in seen].count("Inventoried") == 4, "shared, alone, shared, alone again"
    state = plane.store.load(mine).state
    assert {(one.meta.actor, one.meta.admission) for one in seen} == {("controller:twins", state.admission_id)}
    foreign = {theirs} | {one.meta.actor for one in plane.store.history(theirs)} - {"controller:twins"}
    foreign |= {str(one.meta.admission) for one in plane.store.history(theirs)}
    audit = (f"/v1/audit/streams/{mine}", f"/v1/audit/streams/{mine}/state", f"/v1/audit/events?resource={mine}")
    for path in (f"/v1/nodes/{mine}/history?limit=50", *audit, f"/v1/nodes/{mine}"):
        text = plane.acme.get(path).text
        assert [name for name in foreign if name in text] == [], path


def test_a_settled_twin_of_another_tenant_is_in_no_audit_and_no_guess_confirms_it(plane: Plane) -> None:
    own = plane.acme.ok("POST", "/v1/sites", {"name": "own", "kind": "custom", "iamRegion": "eu"})["id"]
    found = inventory(index=54)
    theirs = plane.join(plane.site(), "n1", found)
    made = plane.acme.ok("POST", "/v1/join-tokens", {"siteId": own, "trust": "tenant-owned"})
    body = {"name": "n1", "inventory": twin(55, found), "publicKey": "B" * 43 + "="}
    answer = plane.app.post("/v1/nodes/join", json=body, headers={"authorization": f"Bearer {made['token']}"})
    mine = answer.json()["id"]

    def guess(node_id: str) -> tuple[int, object]:
        refused = plane.acme.post(f"/v1/nodes/{mine}/settle", {"reason": "two", "nodes": [node_id]})
        return refused.status_code, refused.json()["errors"]

    nobody = guess("node_" + "0" * 26)
    assert nobody[0] == 422
    assert guess(theirs) == nobody
    assert plane.acme.ok("POST", f"/v1/nodes/{mine}/settle", {"reason": "two"})["conditions"] == []
    assert guess(theirs) == nobody
    for path in (f"/v1/audit/streams/{mine}", f"/v1/audit/streams/{mine}/state"):
        assert theirs not in str(plane.acme.ok("GET", path))
        assert theirs in plane.auditor.get(f"{path}?scope=fleet").text


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
    if not starts_in_ms:
        bound = plane.until(plane.acme, made["id"], "binding")
        assert bound["degraded"] == "DeviceMissing", "whether it was bound before or after"
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] != "failed"
    report(plane, node_id, found)
    assert conditions(plane, node_id) == {}
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["degraded"] is None


def test_a_missing_card_that_nobody_has_booked_any_more_is_named_no_more(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet(gpus=2)
    found = plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory")["inventory"]
    later = plane.store.now() + 7 * 86_400_000
    made = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}], startsAt=later).json()
    found["gpus"].pop()
    report(plane, node_id, found)
    assert "BookedDeviceMissing" in conditions(plane, node_id)
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
    deadline = time.monotonic() + DEADLINE_S
    while "BookedDeviceMissing" in conditions(plane, node_id):
        assert time.monotonic() < deadline
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    assert set(conditions(plane, node_id)) == {"GpuCountMismatch"}


def test_one_dead_card_leaves_the_others_for_sale(plane: Plane) -> None:
    """O25: seven of eight are placed on; a node that is down offers nothing, whatever it last reported."""
    pool_id, (node_id,) = plane.fleet(gpus=8)
    found = plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory")["inventory"]
    found["gpus"].pop(5)
    report(plane, node_id, found)
    plane.settle()
    seven = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 7}], maxPendingSeconds=0)
    assert (seven.status_code, seven.json()["state"]) == (201, "placed"), seven.text
    plane.acme.ok("POST", f"/v1/reservations/{seven.json()['id']}/cancel", {})
    agents.end_session(plane.store, node_id, plane.store.load(node_id).state.session, "disconnected")
    plane.settle()
    none = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 1}], maxPendingSeconds=0)
    assert none.status_code == 409


def test_a_card_without_an_attribute_does_not_match_and_the_others_do(plane: Plane) -> None:
    """O27: the selector compares what one of eight lacks."""
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    plane.offer(pool_id)
    found = inventory(index=72)
    lacks = found["gpus"][3].pop("numaNode")
    assert lacks is not None
    plane.node(site_id, pool_id, "n1", found=found)
    ask = {"class": "gpu", "selector": "device.attributes.numaNode >= 0"}
    for count, status in ((8, 409), (7, 201)):
        answer = plane.acme.reserve(pool_id, devices=[ask | {"count": count}], maxPendingSeconds=0)
        assert answer.status_code == status, answer.text
    (allocation,) = plane.store.load(answer.json()["id"]).state.allocations
    assert found["gpus"][3]["uuid"] not in allocation.atoms


def key_token(plane: Plane, node_id: str, **fields: Any) -> Any:
    shown = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    body = {"siteId": shown["siteId"], "trust": shown["trust"], "nodeId": node_id} | fields
    return plane.root.post("/v1/join-tokens", body)


def join(plane: Plane, token: Any, found: dict[str, Any], key: str = "K") -> Any:
    body = {"name": "again", "inventory": found, "publicKey": key * 43 + "="}
    headers = {"authorization": f"Bearer {token.json()['token']}"}
    return plane.app.post("/v1/nodes/join", json=body, headers=headers)


def test_a_machine_installed_anew_stays_its_node_and_its_old_agent_is_refused(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    before = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    made = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, made["id"])
    old = plane.store.load(node_id).state
    found = plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory")["inventory"]
    found["system"]["biosVersion"] = "2.0"
    token = key_token(plane, node_id)
    assert token.status_code == 201, token.text
    answer = join(plane, token, found)
    assert (answer.status_code, answer.json()["id"]) == (201, node_id), answer.text
    assert join(plane, token, found).json()["id"] == node_id, "the lost answer is given again"
    used = join(plane, token, found, key="L")
    assert (used.status_code, "used up" in used.json()["detail"]) == (401, True)
    now = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    assert (now["name"], now["poolId"], now["connectivity"]) == (before["name"], pool_id, "disconnected")
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory")["inventory"]["system"]["biosVersion"] == "2.0"
    with pytest.raises(errors.Fenced):
        agents.report_inventory(plane.store, node_id, old.session, document.NodeInventory.convert(found))
    with pytest.raises(errors.Fenced):
        agents.report_status(plane.store, node_id, old.session, 1, {})
    state = plane.store.load(node_id).state
    assert (state.public_key, state.session) == ("K" * 43 + "=", old.session + 1)
    assert plane.store.holder("agent key", "", old.public_key) is None
    assert plane.store.holder("agent key", "", state.public_key) == node_id
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] == "active"
    plane.connect(node_id)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["schedulable"]


def test_a_token_for_a_node_admits_no_other_machine(plane: Plane) -> None:
    """O29: also not one whose board says the same UUID as another machine's."""
    site_id = plane.site()
    found = inventory(index=60)
    node_id = plane.join(site_id, "n1", found)
    other = plane.join(site_id, "n2", twin(61, found))
    token = key_token(plane, node_id)
    for stranger in (inventory(index=62), twin(61, found)):
        refused = join(plane, token, stranger)
        assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT"), refused.text
        assert "shares no hardware identifier" in refused.json()["detail"]
    taken = plane.store.load(other).state.public_key
    body = {"name": "again", "inventory": found, "publicKey": taken}
    headers = {"authorization": f"Bearer {token.json()['token']}"}
    refused = plane.app.post("/v1/nodes/join", json=body, headers=headers)
    assert (refused.status_code, "belongs to another node" in refused.json()["detail"]) == (409, True)
    assert join(plane, token, found).json()["id"] == node_id, "the refused ones used nothing up"


def test_without_a_token_for_the_node_a_machine_installed_anew_is_another_node(plane: Plane) -> None:
    """Inventory is self-reported: it must not be a way to become another node."""
    site_id = plane.site()
    found = inventory(index=63)
    first = plane.join(site_id, "n1", found)
    key = plane.store.load(first).state.public_key
    second = plane.join(site_id, "n2", found)
    assert second != first
    assert conditions(plane, second) == {"DuplicateHardware": [first]}
    assert plane.store.load(first).state.public_key == key


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"trust": "tenant-owned"}, "trust"),
        ({"role": "host"}, "role"),
        ({"enroll": True}, "enroll"),
        ({"poolId": "{pool}"}, "poolId"),
        ({"siteId": "{elsewhere}"}, "siteId"),
    ],
)
def test_a_token_for_a_node_changes_its_key_and_nothing_else(plane: Plane, fields: dict[str, Any], field: str) -> None:
    pool_id, (node_id,) = plane.fleet()
    known = {"pool": pool_id, "elsewhere": plane.site("south")}
    given = {name: of.format_map(known) if isinstance(of, str) else of for name, of in fields.items()}
    refused = key_token(plane, node_id, **given)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field), refused.text


def test_a_token_is_made_for_a_live_node_of_ones_own(plane: Plane) -> None:
    site_id = plane.site()
    node_id = plane.join(site_id, "n1", inventory(index=64))
    own = plane.acme.ok("POST", "/v1/sites", {"name": "own", "kind": "custom", "iamRegion": "eu"})["id"]
    foreign = plane.acme.post("/v1/join-tokens", {"siteId": own, "trust": "tenant-owned", "nodeId": node_id})
    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (404, "nodeId")
    late = key_token(plane, node_id)
    plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})
    assert key_token(plane, node_id).json()["code"] == "CONFLICT"
    refused = join(plane, late, inventory(index=64))
    assert (refused.status_code, "retired" in refused.json()["detail"]) == (409, True)


def test_a_machine_with_nothing_installed_begins_as_enrolling(plane: Plane) -> None:
    node_id = plane.join(plane.site(), "n1", inventory(index=65), enroll=True)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["provisionState"] == "enrolling"
    assert [type(event).__name__ for event in plane.events(node_id)[:2]] == ["Joined", "Enrolled"]
    refused = plane.root.post(f"/v1/nodes/{node_id}/adopt").json()
    assert (refused["code"], refused["state"]) == ("ILLEGAL_TRANSITION", "enrolling")
    plane.root.ok("POST", f"/v1/nodes/{node_id}/inspect", {})
