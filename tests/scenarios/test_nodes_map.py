"""`nodes.map` and `nodes.count`: the whole fleet in one answer, as `nodes.list` would show it."""

from collections import Counter
from typing import Any

import pytest
from test_lists_by_plan import allow, given_role

from domain import node, provision
from domain.event import Append, Change, Meta
from given import Client, Plane

MANY = 10_000
WAYS = 7
"""Kinds of nodes in a big fleet."""


def cells(client: Client, query: str = "") -> list[dict[str, Any]]:
    return list(client.ok("GET", f"/v1/nodes/map?{query}")["items"])


def listed(client: Client, query: str = "") -> list[dict[str, Any]]:
    """What `nodes.list` says, page by page, in the words of the map."""
    found, cursor = [], ""
    while True:
        page = client.ok("GET", f"/v1/nodes?limit=1000&{query}{cursor}")
        found += [_cell(row) for row in page["items"]]
        if "nextCursor" not in page:
            return found
        cursor = f"&cursor={page['nextCursor']}"


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    drain = row["drain"] and ("drained" if row["drain"].get("drainedAt") else "draining")
    cell = {name: row[name] for name in ("id", "name", "siteId", "poolId", "role", "provisionState", "connectivity")}
    cell |= {"rack": row["labels"].get("rack"), "drain": drain}
    cell["reasons"] = {one["reason"]: one["since"] for one in row["unschedulableReasons"]}
    cell["conditions"] = {one["type"]: one["since"] for one in row["conditions"]}
    return {name: value for name, value in cell.items() if value}


def put(plane: Plane, site_id: str, pool_id: str, count: int) -> None:
    """So many nodes in the log, in some disorder; nothing of theirs is booked."""
    for first in range(0, count, 500):
        changes = tuple(
            Change(plane.wired.mint("node"), 0, events(n, site_id, pool_id)) for n in range(first, first + 500)
        )
        plane.store.append(Append(changes, Meta("controller:test")))


def events(n: int, site_id: str, pool_id: str) -> tuple[node.Events, ...]:
    labels = {"rack": f"r{n // 20}"} if n % 10 else {}
    made: list[node.Events] = [
        node.Joined(f"n{n}", site_id, "platform", "eu-north", "host", "platform", f"key{n}", "jt_x", labels, 1000 + n),
        node.Assigned("host", pool_id if n % 2 else None, None),
        node.Moved(provision.Provision.__args__[n % WAYS], "", 2000),  # type: ignore[attr-defined]
    ]
    if n % 3:
        made.append(node.ConnectivityChanged("connected", 1, 3000))
    if n % 5 == 0:
        made += [node.Cordoned("fan", 4000), node.DrainStarted("fan", 4000, None, 0.05), node.Drained(4500)]
        made.append(node.ConditionRaised(node.Condition("SpecDrift", "Drift", "", 5000)))
    made.append(node.SchedulabilityChanged({"Cordoned": 4000 + n} if n % 5 == 0 else {}))
    return tuple(made)


def test_the_map_of_ten_thousand_nodes_says_what_the_list_says_of_each(plane: Plane) -> None:
    site_id = plane.site()
    put(plane, site_id, plane.pool(site_id), MANY)
    plane.settle()
    expected = listed(plane.root)
    assert len(expected) == MANY
    assert cells(plane.root) == expected
    assert cells(plane.root, f"asOf=@{plane.head()}") == sorted(expected, key=lambda cell: str(cell["id"]))
    for query, holds in FILTERS.items():
        wanted = [cell for cell in expected if holds(cell)]
        assert 0 < len(wanted) < MANY, query
        assert cells(plane.root, query) == wanted, query
        if len(wanted) < 1000:
            assert listed(plane.root, query) == wanted, query
    counted = plane.root.ok("GET", "/v1/nodes/count")["items"]
    assert sum(one["count"] for one in counted) == MANY
    assert Counter({key(one): one["count"] for one in counted}) == Counter(map(key, expected))
    for one in counted:
        alike = [cell for cell in expected if key(cell) == key(one)]
        for reason, since in one.get("reasons", {}).items():
            assert since == min(cell["reasons"][reason] for cell in alike)


FILTERS: dict[str, Any] = {
    "rack=r3": lambda cell: cell.get("rack") == "r3",
    "drain=drained": lambda cell: cell.get("drain") == "drained",
    "reason=Cordoned": lambda cell: "Cordoned" in cell.get("reasons", {}),
    "condition=SpecDrift": lambda cell: "SpecDrift" in cell.get("conditions", {}),
    "connectivity=disconnected": lambda cell: cell["connectivity"] == "disconnected",
    "provisionState=ready": lambda cell: cell["provisionState"] == "ready",
    "schedulable=false&rack=r3": lambda cell: bool(cell.get("reasons")) and cell.get("rack") == "r3",
}


def key(cell: dict[str, Any]) -> tuple[Any, ...]:
    names = tuple(sorted(cell.get("reasons", {}))), tuple(sorted(cell.get("conditions", {})))
    of = ("siteId", "poolId", "role", "provisionState", "connectivity", "drain")
    return *(cell.get(name) for name in of), *names


def test_an_answer_that_was_cut_says_where_it_goes_on(plane: Plane) -> None:
    _, nodes = plane.hosts(3)
    first = plane.root.ok("GET", "/v1/nodes/map?limit=2")
    rest = plane.root.ok("GET", f"/v1/nodes/map?limit=2&cursor={first['nextCursor']}")
    assert [row["id"] for row in first["items"] + rest["items"]] == nodes
    assert "nextCursor" not in rest
    assert plane.root.get("/v1/nodes/map?limit=20001").status_code == 422


def test_what_changed_after_a_position_is_all_that_an_open_map_needs(plane: Plane) -> None:
    _, nodes = plane.hosts(3)
    position = int(plane.root.get(f"/v1/nodes/map?waitFor={plane.settle()}").headers["x-position"])
    assert cells(plane.root, f"after={position}") == []
    plane.root.ok("POST", f"/v1/nodes/{nodes[1]}/cordon", {"reason": "fan"})
    plane.report(nodes[2])
    changed = cells(plane.root, f"after={position}&waitFor={plane.settle()}")
    assert [(row["id"], [*row["reasons"]]) for row in changed] == [(nodes[1], ["Cordoned"])]
    assert cells(plane.root, f"after={position}&asOf=@{plane.head()}") == changed


def test_a_retired_node_is_on_no_map_but_an_open_one_is_told(plane: Plane) -> None:
    _, nodes = plane.hosts(2)
    before = plane.settle()
    plane.root.ok("POST", f"/v1/nodes/{nodes[0]}/retire", {"force": True})
    position = plane.settle()
    assert [row["id"] for row in cells(plane.root, f"waitFor={position}")] == nodes[1:]
    assert [row["id"] for row in cells(plane.root, "provisionState=retired")] == nodes[:1]
    assert [row["provisionState"] for row in cells(plane.root, f"after={before}")] == ["retired"]
    assert sum(one["count"] for one in plane.root.ok("GET", "/v1/nodes/count")["items"]) == 1
    assert [row["id"] for row in cells(plane.root, f"asOf=@{before}")] == sorted(nodes)


def test_the_map_of_then_has_the_racks_and_reasons_of_then(plane: Plane) -> None:
    _, (node_id,) = plane.hosts()
    labels = f"/v1/nodes/{node_id}/labels"
    plane.root.ok("POST", labels, {"labels": {"rack": "r1"}})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    then = plane.settle()
    plane.root.ok("POST", labels, {"labels": {"rack": "r2"}})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/uncordon", {})
    plane.settle()
    (was,), (now,) = cells(plane.root, f"asOf=@{then}"), cells(plane.root)
    assert (was["rack"], [*was["reasons"]]) == ("r1", ["Cordoned"])
    assert (now["rack"], now.get("reasons")) == ("r2", None)
    assert cells(plane.root, f"asOf=@{then}&rack=r2") == []


@pytest.mark.parametrize("of", ["map", "count"])
def test_another_tenant_finds_nothing_of_the_platforms_nodes(plane: Plane, of: str) -> None:
    plane.fleet()
    plane.settle()
    for client in (plane.acme, plane.acme_user, plane.globex):
        assert client.ok("GET", f"/v1/nodes/{of}")["items"] == []
        assert client.get(f"/v1/nodes/{of}?scope=fleet").status_code == 403


def test_only_nodes_that_the_caller_may_get_are_shown_and_counted(plane: Plane) -> None:
    site_id = plane.site(by=plane.acme, kind="custom")
    pools = [plane.pool(site_id, name, by=plane.acme) for name in ("a", "b")]
    nodes = [
        plane.node(site_id, pool_id, f"n{n}", by=plane.acme, trust="tenant-owned") for n, pool_id in enumerate(pools)
    ]
    only = [allow("compute-tenant/*"), allow("compute-node/*", StringEquals={"resource.parentId": pools[0]})]
    only[0]["actions"] += ["compute:nodes:map", "compute:nodes:count"]
    given_role(plane, only, pools[0])
    position = plane.settle()
    assert [row["id"] for row in cells(plane.acme, f"waitFor={position}")] == nodes
    seen = cells(plane.acme_user)
    assert [row["id"] for row in seen] == nodes[:1] == [row["id"] for row in listed(plane.acme_user)]
    assert [one["count"] for one in plane.acme_user.ok("GET", "/v1/nodes/count")["items"]] == [1]
