"""Nodes are found by each of their axes, by label and by text, in the order that is asked for."""

import time
from typing import Any

import pytest

from given import DEADLINE_S, Plane, inventory


def names(plane: Plane, query: str) -> list[str]:
    return [one["name"] for one in plane.root.ok("GET", f"/v1/nodes?scope=fleet&{query}")["items"]]


@pytest.fixture
def three(plane: Plane) -> dict[str, str]:
    """n0 is cordoned, n1 drains, n2 is in maintenance, n3 was never adopted and is fenced."""
    pool_id, (first, second, third) = plane.fleet(nodes=3)
    site_id = plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"]
    fourth = plane.join(site_id, "n3", inventory("L4", 1, index=77))
    plane.root.ok("POST", f"/v1/nodes/{first}/cordon", {"reason": "fan"})
    plane.root.ok("POST", f"/v1/nodes/{second}/drain", {"reason": "bios"})
    plane.root.ok("POST", f"/v1/nodes/{third}/maintenance", {"on": True, "reason": "cable"})
    plane.root.ok("POST", f"/v1/nodes/{third}/labels", {"labels": {"rack": "R-7", "row": "2"}})
    plane.root.ok("POST", f"/v1/nodes/{fourth}/fence", {"reason": "off"})
    deadline = time.monotonic() + DEADLINE_S
    while plane.root.ok("GET", f"/v1/nodes/{second}")["drain"]["drainedAt"] is None:
        assert time.monotonic() < deadline
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    plane.settle()
    return {"n0": first, "n1": second, "n2": third, "n3": fourth, "pool": pool_id}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("reason=Cordoned", ["n0", "n1"]),
        ("reason=Maintenance", ["n2"]),
        ("role=unassigned", ["n3"]),
        ("power=off", ["n3"]),
        ("retired=true", []),
        ("retired=false", ["n0", "n1", "n2", "n3"]),
        ("gpuModel=L4", ["n3"]),
        ("text=N1", ["n1"]),
        ("text=r-7", ["n2"]),
        ("text=100%25", []),
    ],
)
def test_nodes_are_found_by_every_axis(plane: Plane, three: dict[str, str], query: str, expected: list[str]) -> None:
    assert names(plane, query) == expected
    assert sorted(names(plane, f"{query}&asOf=@{plane.head()}")) == expected


def test_what_a_filter_finds_of_the_past_is_what_was_so_then(plane: Plane, three: dict[str, str]) -> None:
    then = plane.head()
    plane.root.ok("POST", f"/v1/nodes/{three['n0']}/uncordon", {})
    plane.settle()
    assert names(plane, "reason=Cordoned") == ["n1"]
    assert sorted(names(plane, f"reason=Cordoned&asOf=@{then}")) == ["n0", "n1"]


@pytest.mark.parametrize(
    ("sort", "order", "expected"),
    [
        ("name", "asc", ["n0", "n1", "n2", "n3"]),
        ("name", "desc", ["n3", "n2", "n1", "n0"]),
        ("changed", "desc", ["n2", "n1", "n3", "n0"]),
    ],
)
def test_pages_go_on_in_the_order_that_was_asked_for(
    plane: Plane, three: dict[str, str], sort: str, order: str, expected: list[str]
) -> None:
    for last in ("n3", "n1", "n2"):
        plane.root.ok("POST", f"/v1/nodes/{three[last]}/labels", {"labels": {"seen": last}})
    plane.settle()
    found: list[Any] = []
    cursor = ""
    while cursor is not None:
        page = plane.root.ok("GET", f"/v1/nodes?scope=fleet&sort={sort}&order={order}&limit=1{cursor}")
        found += page["items"]
        cursor = f"&cursor={page['nextCursor']}" if "nextCursor" in page else None
    assert [one["name"] for one in found] == expected
    assert [one["id"] for one in found] == [three[name] for name in expected]


def test_a_cursor_is_of_one_order_and_the_past_has_its_own(plane: Plane, three: dict[str, str]) -> None:
    page = plane.root.ok("GET", "/v1/nodes?scope=fleet&sort=name&limit=1")
    mixed = plane.root.get(f"/v1/nodes?scope=fleet&limit=1&cursor={page['nextCursor']}")
    assert (mixed.status_code, mixed.json()["errors"][0]["field"]) == (422, "cursor")
    past = plane.root.get(f"/v1/nodes?scope=fleet&sort=name&asOf=@{plane.head()}")
    assert (past.status_code, past.json()["errors"][0]["field"]) == (422, "sort")


def test_each_axis_says_since_when_it_is_so(plane: Plane, three: dict[str, str]) -> None:
    shown = plane.root.ok("GET", f"/v1/nodes/{three['n0']}")
    reasons = {one["reason"]: one["since"] for one in shown["unschedulableReasons"]}
    assert shown["cordonedSince"] == reasons["Cordoned"]
    assert shown["provisionSince"] >= shown["createdAt"]
    assert shown["session"] == 1
    off = plane.root.ok("GET", f"/v1/nodes/{three['n3']}")
    assert off["powerSince"] > off["provisionSince"] == off["createdAt"]
    assert plane.root.ok("POST", f"/v1/nodes/{three['n0']}/uncordon", {})["cordonedSince"] is None
