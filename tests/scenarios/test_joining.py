"""Machines become nodes: the token is the credential, the inventory says what it is, the pool what is sold."""

import base64
import copy
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from commands import agents
from domain import inventory as document
from given import Plane, inventory


def join(plane: Plane, token: str, name: str, found: dict[str, Any]) -> Any:
    key = base64.b64encode(os.urandom(32)).decode()
    body = {"name": name, "inventory": found, "publicKey": key}
    return plane.app.post("/v1/nodes/join", json=body, headers={"authorization": f"Bearer {token}"})


def token(plane: Plane, site_id: str, **fields: Any) -> Any:
    return plane.root.ok("POST", "/v1/join-tokens", {"siteId": site_id, "trust": "platform"} | fields)


def reasons(plane: Plane, node_id: str) -> dict[str, int]:
    shown = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    assert shown["schedulable"] is (not shown["unschedulableReasons"])
    return {reason["reason"]: reason["since"] for reason in shown["unschedulableReasons"]}


def test_a_join_token_admits_as_many_machines_as_it_says_and_no_others(plane: Plane) -> None:
    site_id = plane.site()
    twice = token(plane, site_id, uses=2)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: join(plane, twice["token"], f"n{n}", inventory(index=n + 50)), range(4)))
    assert sorted(a.status_code for a in found) == [201, 201, 401, 401]
    used_up = join(plane, twice["token"], "late", inventory(index=60)).json()
    assert (used_up["code"], "used up" in used_up["detail"]) == ("UNAUTHENTICATED", True)
    revoked = token(plane, site_id)
    plane.root.ok("DELETE", f"/v1/join-tokens/{revoked['id']}")
    plane.root.ok("DELETE", f"/v1/join-tokens/{revoked['id']}")
    assert "revoked" in join(plane, revoked["token"], "n9", inventory(index=61)).json()["detail"]
    assert join(plane, "bcjt_wrong", "n9", inventory(index=61)).status_code == 401
    assert join(plane, "", "n9", inventory(index=61)).status_code == 401
    plane.settle()
    listed = plane.root.ok("GET", "/v1/join-tokens")["items"]
    assert [(t["used"], "token" in t) for t in listed] == [(2, False), (0, False)]


def test_a_join_token_is_shown_once_also_when_its_answer_is_replayed(plane: Plane) -> None:
    body = {"siteId": plane.site(), "trust": "platform"}
    first = plane.root.post("/v1/join-tokens", body, Idempotency_Key="once")
    again = plane.root.post("/v1/join-tokens", body, Idempotency_Key="once")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
    assert first.json().pop("token").startswith("bcjt_")
    assert "token" not in again.json()
    assert again.json()["id"] == first.json()["id"]
    secret = first.json()["token"]
    assert all(secret not in str(event) for event in plane.events(first.json()["id"]))


def test_only_the_platform_makes_platform_tokens_and_only_for_what_it_sees(plane: Plane) -> None:
    site_id = plane.site()
    foreign = plane.acme.post("/v1/join-tokens", {"siteId": site_id, "trust": "tenant-owned"})
    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (404, "siteId")
    own = plane.acme.ok("POST", "/v1/sites", {"name": "own", "kind": "custom", "iamRegion": "eu"})["id"]
    raised = plane.acme.post("/v1/join-tokens", {"siteId": own, "trust": "platform"})
    assert (raised.status_code, raised.json()["errors"][0]["field"]) == (422, "trust")


def test_two_machines_with_placeholders_join_as_two(plane: Plane) -> None:
    """O28: the same words from the factory identify nobody; MACs and GPUs do."""
    site_id = plane.site()
    made = []
    for index in (70, 71):
        found = inventory(index=index)
        found["system"] = {"productUuid": "03000200-0400-0500-0006-000700080009", "serialNumber": "0123456789"}
        made.append(plane.join(site_id, f"n{index}", found))
    for node_id in made:
        shown = plane.root.ok("GET", f"/v1/nodes/{node_id}")
        assert shown["conditions"] == []
        assert shown["fingerprint"], "GPUs and MACs are two kinds that survive"
        known = plane.store.load(node_id).state.identifiers
        assert {i.partition(":")[0] for i in known} == {"mac", "gpu"}


def test_the_later_of_two_machines_with_one_uuid_is_marked_and_the_earlier_goes_on(plane: Plane) -> None:
    """O29: the identifier counts for neither, and a newcomer takes no running node out."""
    pool_id, (first,) = plane.fleet()
    site_id = plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"]
    found = inventory(index=81)
    mine = plane.root.ok("GET", f"/v1/nodes/{first}/inventory")["inventory"]
    before = plane.root.ok("GET", f"/v1/nodes/{first}")["fingerprint"]
    found["system"]["productUuid"] = mine["system"]["productUuid"]
    second = plane.join(site_id, "n2", found)
    assert second != first
    marked = plane.root.ok("GET", f"/v1/nodes/{second}")
    assert [(c["type"], c["message"]) for c in marked["conditions"]] == [("DuplicateHardware", first)]
    assert "DuplicateHardware" in reasons(plane, second)
    assert plane.root.ok("GET", f"/v1/nodes/{first}")["fingerprint"] != before
    session = plane.store.load(first).state.session
    agents.report_inventory(plane.store, first, session, document.NodeInventory.convert(mine))
    assert reasons(plane, first) == {}, "the earlier node reports again and stays schedulable"
    plane.root.ok("POST", f"/v1/nodes/{first}/retire", {})
    session = plane.connect(second)
    agents.report_inventory(plane.store, second, session, document.NodeInventory.convert(found))
    assert "DuplicateHardware" not in reasons(plane, second), "the operator settled it"


@pytest.mark.parametrize("order", ["other order", "other names", "other case"])
def test_nics_in_another_order_name_or_case_are_the_same_node(plane: Plane, order: str) -> None:
    """O30, O31, O45: nothing is written for it but that it was seen."""
    found = inventory(index=90)
    found["nics"] = [{"mac": f"b8:3f:d2:00:aa:0{n}", "name": f"eth{n}"} for n in range(3)]
    node_id = plane.join(plane.site(), "n1", found)
    session = plane.connect(node_id)
    changed = copy.deepcopy(found)
    match order:
        case "other order":
            changed["nics"].reverse()
        case "other names":
            for nic in changed["nics"]:
                nic["name"] = "ens" + nic["name"]
        case _:
            for nic in changed["nics"]:
                nic["mac"] = nic["mac"].upper()
            for card in changed["gpus"]:
                card["uuid"] = "GPU-" + card["uuid"][4:].upper()
    head = plane.head()
    agents.report_inventory(plane.store, node_id, session, document.NodeInventory.convert(changed))
    assert plane.head() == head


def test_macs_that_identify_nothing_stay_out_of_the_fingerprint(plane: Plane) -> None:
    """O31: locally administered and multicast ones."""
    found = inventory(index=95)
    found["nics"] += [{"mac": "fa:4b:7f:00:00:01"}, {"mac": "01:00:5e:00:00:01"}]
    node_id = plane.join(plane.site(), "n1", found)
    macs = [i for i in plane.store.load(node_id).state.identifiers if i.startswith("mac:")]
    assert macs == ["mac:B83FD200005F"]


def test_a_disk_is_its_wwn_or_serial_and_without_either_it_is_not_sold(plane: Plane) -> None:
    """O32."""
    pool_id, _ = plane.fleet()
    site_id = plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"]
    found = inventory(index=97)
    found["disks"] = [
        {"name": "sda", "sizeBytes": 10**12, "transport": "usb", "serial": "STICK1"},
        {"name": "sdb", "sizeBytes": 10**12},
        {"name": "sdc", "sizeBytes": 10**12, "wwn": "0x5000c500a1b2c3d4"},
        {"name": "sdd", "sizeBytes": 10**12, "serial": "ZC1ABCDE"},
    ]
    node_id = plane.node(site_id, pool_id, "disks", found=found)
    disks = plane.root.ok("GET", f"/v1/devices?nodeId={node_id}&class=disk&bookable=true")["items"]
    assert sorted(d["id"].lower() for d in disks) == ["0x5000c500a1b2c3d4", "zc1abcde"]


def test_a_pool_takes_one_gpu_family_of_a_size(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, gpuMemoryGb=94)
    small = plane.join(site_id, "small", inventory("H100", index=101))
    other = plane.join(site_id, "other", inventory("L4", index=102))
    for node_id, says in ((small, "80 GB"), (other, "family L4")):
        refused = plane.root.post(f"/v1/nodes/{node_id}/assign", {"poolId": pool_id})
        assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
        assert says in refused.json()["detail"]
    unknown = inventory("H100", index=103)
    unknown["gpus"][0]["name"] = "Graphics Device"
    node_id = plane.join(site_id, "unknown", unknown)
    assert "GpuModelUnknown" in reasons(plane, node_id)
    elsewhere = plane.pool(plane.site("south"), "far")
    refused = plane.root.post(f"/v1/nodes/{small}/assign", {"poolId": elsewhere})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "poolId")


def test_a_pools_overcommit_changes_only_while_it_has_no_nodes(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)

    def overcommit(ratio: float) -> Any:
        return plane.root.call("PATCH", f"/v1/pools/{pool_id}", {"policy": {"overcommit": {"vcpu": ratio}}})

    assert overcommit(2.0).json()["policy"]["overcommit"]["vcpu"] == 2.0
    node_id = plane.node(site_id, pool_id)
    refused = overcommit(3.0)
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT"), refused.text
    assert overcommit(2.0).status_code == 200, "the same again is no change"
    plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})
    assert overcommit(3.0).status_code == 200


def test_a_node_says_why_nothing_is_placed_on_it_and_since_when(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    node_id = plane.join(site_id, "n1", inventory(index=110))
    new = reasons(plane, node_id)
    assert set(new) == {"NotProvisioned", "NotHost", "NotConnected", "SpecNotObserved"}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": pool_id})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/adopt", {})
    assert reasons(plane, node_id) == {name: new[name] for name in ("NotConnected", "SpecNotObserved")}
    plane.connect(node_id)
    assert reasons(plane, node_id) == {}
    before = plane.store.now()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    first = plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "another"})
    assert (first["cordoned"], plane.root.ok("GET", f"/v1/nodes/{node_id}")["version"]) == ("fan", first["version"])
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", {"on": True, "reason": "bios"})
    held = reasons(plane, node_id)
    assert set(held) == {"Cordoned", "Maintenance"}
    assert before <= held["Cordoned"] <= held["Maintenance"] <= plane.store.now()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/uncordon", {})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", {"on": False})
    assert reasons(plane, node_id) == {}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})
    again = plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})
    assert again["provisionState"] == "retired"
    refused = plane.root.post(f"/v1/nodes/{node_id}/adopt").json()
    assert (refused["code"], refused["state"], refused["allowed"]) == ("ILLEGAL_TRANSITION", "retired", [])
    assert plane.root.post(f"/v1/nodes/{node_id}/maintenance", {"on": True}).status_code == 409


def test_nothing_is_removed_from_under_a_booking(plane: Plane) -> None:
    """O13: the booking of next week is named, and stays."""
    pool_id, (node_id,) = plane.fleet()
    other = plane.pool(plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"], "other")
    week = plane.store.now() + 7 * 86_400_000
    made = plane.acme.reserve(pool_id, startsAt=week).json()
    for verb, path, body in (
        ("POST", f"/v1/nodes/{node_id}/retire", {}),
        ("POST", f"/v1/nodes/{node_id}/assign", {"poolId": other}),
    ):
        refused = plane.root.call(verb, path, body)
        assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
        assert refused.json()["reservations"] == [made["id"]]
    in_use = plane.root.call("DELETE", f"/v1/pools/{pool_id}")
    assert (in_use.status_code, in_use.json()["nodes"]) == (409, [node_id])
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] == "placed"
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})
    assert plane.root.ok("DELETE", f"/v1/pools/{pool_id}")["retired"] is True
    assert plane.acme.reserve(pool_id).status_code == 404


def test_a_fence_proves_atoms_free_that_no_report_will(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, made["id"])
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    assert plane.acme.reserve(pool_id, maxPendingSeconds=0).status_code == 409
    first = plane.root.ok("POST", f"/v1/nodes/{node_id}/fence", {"reason": "burnt"})
    assert (first["power"], plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"]) == ("off", "released")
    assert plane.root.ok("POST", f"/v1/nodes/{node_id}/fence", {"reason": "burnt"})["version"] == first["version"]
    plane.connect(node_id)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["power"] == "unknown", "a machine that speaks is not off"


def test_a_name_that_is_taken_is_a_conflict_that_names_the_field(plane: Plane) -> None:
    site_id = plane.site()
    plane.pool(site_id)
    plane.join(site_id, "n1", inventory(index=120))
    secret = token(plane, site_id)["token"]
    answers = [
        plane.root.post("/v1/sites", {"name": "north", "kind": "shared", "iamRegion": "eu"}),
        plane.root.post(
            "/v1/pools",
            {"name": "h100", "siteId": site_id, "class": "metal-host", "gpuModel": "H100", "gpuMemoryGb": 80},
        ),
        join(plane, secret, "n1", inventory(index=121)),
        plane.root.call("PATCH", f"/v1/sites/{plane.site('south')}", {"name": "north"}),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT"), answer.text
        assert answer.json()["errors"][0]["field"] == "name"
    assert join(plane, secret, "n2", inventory(index=121)).status_code == 201, "the refused join used nothing up"
