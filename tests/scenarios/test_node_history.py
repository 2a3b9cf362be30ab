"""What happened to a node, page by page, and what its inventories changed."""

import copy
from typing import Any

import pytest

from commands import agents
from domain import inventory as document
from given import Plane, inventory


def report(plane: Plane, node_id: str, found: dict[str, Any]) -> None:
    session = plane.store.load(node_id).state.session
    agents.report_inventory(plane.store, node_id, session, document.NodeInventory.convert(found))


def pages(plane: Plane, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = plane.root.ok("GET", path + cursor)
        items += page["items"]
        if not page.get("nextCursor"):
            return items
        cursor = f"&cursor={page['nextCursor']}"


def test_an_inventory_is_compared_with_an_earlier_one(plane: Plane) -> None:
    found = inventory(gpus=2, index=20)
    node_id = plane.join(plane.site(), "n1", found)
    plane.connect(node_id)
    joined = plane.settle()
    changed = copy.deepcopy(found)
    changed["gpus"].pop()
    changed["memory"]["totalMiB"] = 1
    report(plane, node_id, changed)
    plain = plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory")
    assert (plain["changes"], set(plain["sections"])) == (None, set(document.SECTIONS))
    shown = plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory?diff=@{joined}")
    assert [(c["section"], c["path"], c["after"]) for c in shown["changes"]] == [
        ("memory", "memory.totalMiB", 1),
        ("gpus", f"gpus[{found['gpus'][1]['uuid']}]", None),
    ]
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory?diff=@{joined}&asOf=@{joined}")["changes"] == []
    first = plane.root.ok("GET", f"/v1/nodes/{node_id}/inventory?diff=@0")["changes"]
    assert {change["before"] for change in first} == {None}, "before it joined there was none"
    for wrong in ("@99999999", "yesterday", "99999999999999"):
        refused = plane.root.get(f"/v1/nodes/{node_id}/inventory?diff={wrong}")
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "diff")


@pytest.mark.parametrize("order", ["", "&order=asc", "&order=desc"])
def test_history_tells_every_event_once_in_pages(plane: Plane, order: str) -> None:
    node_id = plane.join(plane.site(), "n1", inventory(index=21))
    for n in range(7):
        plane.root.ok("POST", f"/v1/nodes/{node_id}/labels", {"labels": {"rack": f"r{n}"}})
    whole = plane.store.history(node_id)
    told = pages(plane, f"/v1/nodes/{node_id}/history?limit=3{order}")
    versions = [entry["version"] for entry in told]
    assert versions == sorted(versions, reverse=order != "&order=asc")
    assert sorted(versions) == [recorded.version for recorded in whole]
    last = max(told, key=lambda entry: entry["version"])
    assert (last["type"], last["change"]) == ("node.labelled.1", {"labels": {"rack": "r6"}})
    assert last["actor"].startswith("identity:")
    assert last["admissionId"] == whole[-1].meta.admission
    assert last["position"] == whole[-1].position


def test_history_says_what_an_inventory_changed_and_not_the_document(plane: Plane) -> None:
    found = inventory(gpus=2, index=22)
    node_id = plane.join(plane.site(), "n1", found)
    plane.connect(node_id)
    changed = copy.deepcopy(found)
    changed["gpus"][0]["vbios"] = "96.00"
    report(plane, node_id, changed)
    told = pages(plane, f"/v1/nodes/{node_id}/history?limit=2")
    newest, first = (entry for entry in told if entry["type"] == "node.inventoried.1")
    assert newest["inventory"]["sections"] == ["gpus"]
    (change,) = newest["inventory"]["changes"]
    assert (change["path"], change["before"], change["after"]) == (
        f"gpus[{found['gpus'][0]['uuid']}].vbios",
        None,
        "96.00",
    )
    assert newest["inventory"]["hash"] == plane.root.ok("GET", f"/v1/nodes/{node_id}")["inventoryHash"]
    assert "inventory" not in newest["change"]
    assert (first["inventory"]["omitted"], bool(first["inventory"]["changes"])) == (0, True)


def test_a_long_change_is_cut_and_says_how_much_is_left_out(plane: Plane) -> None:
    found = inventory(gpus=0, index=23)
    found["nics"] = [{"mac": f"9c:6b:00:12:{n >> 8:02x}:{n & 255:02x}"} for n in range(130)]
    node_id = plane.join(plane.site(), "n1", found)
    (seen,) = [e["inventory"] for e in pages(plane, f"/v1/nodes/{node_id}/history?limit=50") if e["inventory"]]
    assert len(seen["changes"]) == 100
    assert seen["omitted"] > 30


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_page_with_many_inventories_is_short_and_goes_on(plane: Plane, order: str) -> None:
    found = inventory(gpus=1, index=23)
    node_id = plane.join(plane.site(), "n1", found)
    plane.connect(node_id)
    for n in range(24):
        found["memory"]["totalMiB"] = 1_000 + n
        report(plane, node_id, found)
    path = f"/v1/nodes/{node_id}/history?limit=1000&order={order}"
    first = plane.root.ok("GET", path)
    assert sum(entry["inventory"] is not None for entry in first["items"]) == 10
    versions = [entry["version"] for entry in pages(plane, path)]
    every = list(range(1, plane.store.load(node_id).version + 1))
    assert versions == (every if order == "asc" else every[::-1])


def test_a_cursor_of_another_node_is_none(plane: Plane) -> None:
    site_id = plane.site()
    one, other = plane.join(site_id, "n1", inventory(index=24)), plane.join(site_id, "n2", inventory(index=25))
    cursor = plane.root.ok("GET", f"/v1/nodes/{one}/history?limit=1")["nextCursor"]
    refused = plane.root.get(f"/v1/nodes/{other}/history?limit=1&cursor={cursor}")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "cursor")


def test_no_history_names_another_tenants_node(plane: Plane) -> None:
    own = plane.acme.ok("POST", "/v1/sites", {"name": "own", "kind": "custom", "iamRegion": "eu"})["id"]
    found = inventory(index=26)
    first = plane.join(plane.site(), "n1", found)
    made = plane.acme.ok("POST", "/v1/join-tokens", {"siteId": own, "trust": "tenant-owned"})
    body = {"name": "n1", "inventory": found, "publicKey": "B" * 43 + "="}
    headers = {"authorization": f"Bearer {made['token']}"}
    node_id = plane.app.post("/v1/nodes/join", json=body, headers=headers).json()["id"]
    plane.acme.ok("POST", f"/v1/nodes/{node_id}/settle", {"reason": "two"})
    told = plane.acme.get(f"/v1/nodes/{node_id}/history")
    assert "node.duplicate_settled.1" in told.text
    assert first not in told.text
    for path in (f"/v1/nodes/{first}/history", f"/v1/nodes/{first}/inventory"):
        assert plane.acme.get(path).status_code == 404
