"""The fleet's page: what is wrong and since when, what is left, and every node of it, for whoever looks."""

import html
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from signed import Browser, signed

from adapters.console import ask
from adapters.console.pages import fleet_alerts, fleet_capacity
from adapters.registry import OPERATIONS
from commands import agents
from domain import schedulability
from given import Plane, inventory
from silence import Watched

HOSTILE = "<script>alert('x')</script>\" \u202eabc " + "r" * 200


def text(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2])).split())


def rows(page: str, caption: str) -> dict[str, list[str]]:
    """A table's rows by their first cell."""
    table = page.partition(f'aria-label="{caption}"')[2].partition("</table>")[0]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in table.split("<tr>")[1:]]
    cells = [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in found]
    return {cell[0]: cell[1:] for cell in cells}


def told(browser: Browser, path: str = "/fleet/map.json") -> Any:
    return json.loads(browser.page(path))


def alerts(page: str) -> list[str]:
    """All but that of the site, which has no agent in these tests."""
    found = page.partition('<ul class="alerts">')[2].partition("</ul>")[0]
    said = [text(f"<main{one}") for one in found.split("<li")[1:]]
    return [one for one in said if "is not served" not in one]


def test_each_number_of_the_operators_capacity_is_the_pools(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=4, gpus=4, quota=100)
    placed = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 3}]).json()
    plane.activate(plane.acme, placed["id"])
    taken = placed["allocations"][0]["nodeId"]
    plane.root.ok("POST", f"/v1/nodes/{next(id for id in nodes if id != taken)}/cordon", {"reason": "fan"})
    page = signed(plane, plane.operator).page(f"/?waitFor={plane.settle()}")
    assert rows(page, "Capacity by pool")["h100"] == ["H100", "gpu", "", "3", "0", "9", "4", "16"]
    assert "gpu of h100: 3 allocated, 0 reserved, 9 available, 4 unschedulable, in all 16" in page


def test_what_is_in_use_of_nodes_out_of_service_is_told_beside(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet(nodes=1, gpus=4)
    placed = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 3}]).json()
    plane.activate(plane.acme, placed["id"])
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    page = signed(plane, plane.operator).page(f"/?waitFor={plane.settle()}")
    assert rows(page, "Capacity by pool")["h100"] == ["H100", "gpu", "", "0", "0", "0", "4 3 in use", "4"]


def test_a_tenant_sees_its_own_use_and_its_limit_and_no_totals(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=4, gpus=4, quota=10)
    plane.activate(plane.acme, plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 3}]).json()["id"])
    position = plane.settle()
    page = signed(plane, plane.acme).page(f"/?waitFor={position}")
    assert rows(page, "Capacity by pool")["h100"] == ["H100", "gpu", "", "3", "0", "7", "10"]
    assert "Unschedulable</th>" not in page
    assert "none is offered now" in text(signed(plane, plane.globex).page("/"))


def test_pools_of_one_model_are_summed(plane: Plane) -> None:
    """In the pools' own table, and by model where there are several."""
    site_id = plane.site()
    for n, name in enumerate(("a", "b")):
        plane.node(site_id, plane.pool(site_id, name), f"n{n}", gpus=4)
    page = signed(plane, plane.operator).page(f"/?waitFor={plane.settle()}")
    assert rows(page, "Capacity by pool")["all 2 pools"] == ["H100", "gpu", "", "0", "0", "8", "0", "8"]
    assert "By model" not in page
    l4 = plane.pool(site_id, "c", gpuModel="L4", gpuMemoryGb=24)
    plane.node(site_id, l4, "n2", gpus=2, model="L4")
    page = signed(plane, plane.operator).page(f"/?waitFor={plane.settle()}")
    by_model = rows(page, "Capacity by GPU model")
    assert by_model["2 pools"] == ["H100", "gpu", "", "0", "0", "8", "0", "8"]
    assert by_model["1 pool"] == ["L4", "gpu", "", "0", "0", "2", "0", "2"]
    assert "all 2 pools" not in page


@pytest.mark.parametrize("owned", [True, False])
def test_the_parts_of_a_bar_never_pass_its_whole(owned: bool) -> None:
    row = {"poolId": "pool_x", "poolName": "p", "gpuModel": "L4", "resource": "gpu"}
    amounts = {"allocated": 5, "reserved": 4, "available": 3}
    more = {"total": 2, "unschedulable": 7} if owned else {"limit": 1}
    (bar,) = fleet_capacity.bars([row | amounts | more])
    assert bar.whole == sum(amount for _, amount in bar.parts) == (19 if owned else 12)


def test_what_is_wrong_is_said_with_since_when_and_a_way_there(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=3)
    runs = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    (third,) = [one["nodeId"] for one in runs["allocations"]]
    first, second = [node_id for node_id in nodes if node_id != third]
    agents.end_session(plane.store, first, plane.store.load(first).state.session, "disconnected")
    plane.root.ok("POST", f"/v1/nodes/{second}/maintenance", {"on": True, "reason": "disk"})
    plane.root.ok("POST", f"/v1/nodes/{third}/drain", {"reason": "bios", "force": True})
    position = plane.settle()
    page = signed(plane, plane.operator).page(f"/?waitFor={position}")
    said = alerts(page)
    assert "disconnected" in said[0]
    since = plane.root.ok("GET", f"/v1/nodes/{first}")["unschedulableReasons"][0]["since"]
    assert f"since {datetime.fromtimestamp(since / 1000, UTC):%Y-%m-%d %H:%M:%S}" in said[0]
    names = {one["id"]: one["name"] for one in plane.root.ok("GET", "/v1/nodes")["items"]}
    assert any("1 node in maintenance" in one and names[second] in one for one in said)
    assert any("1 node draining" in one and names[third] in one for one in said), "what runs there holds it"
    assert not any("cordoned since" in one for one in said), "a drain cordons: that is no news"
    there = signed(plane, plane.operator).page("/fleet/nodes?connectivity=disconnected")
    assert 'href="/fleet/nodes?connectivity=disconnected"' in page
    assert f'href="/nodes/{first}"' in there
    assert f'href="/nodes/{second}"' not in there


def test_every_reason_of_hardware_has_an_alert() -> None:
    told_of = {value for kind in fleet_alerts.KINDS for value in kind.filter.values()}
    assert schedulability.BLOCKING - {"PartitionPending"} <= told_of


def test_a_site_is_served_or_says_since_when_not_and_a_fleet_with_nothing_wrong_says_so(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=2)
    site_id = plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"]
    browser = signed(plane, plane.operator)
    assert "it has no site agent" in text(browser.page(f"/?waitFor={plane.settle()}"))
    agent = plane.join(site_id, "agent", inventory(index=77), role="site")
    plane.root.ok("POST", f"/v1/nodes/{agent}/adopt", {})
    session = agents.open_session(plane.store, agent)
    page = text(browser.page(f"/?waitFor={plane.settle()}"))
    assert "Of 3 nodes none is lost" in page
    assert "nodes in service 2" in page
    assert "not in service 0" in page
    agents.end_session(plane.store, agent, session, "disconnected")
    assert "none of its site agents is connected" in text(browser.page(f"/?waitFor={plane.settle()}"))


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ({"projections": "nodes: position 7, node.joined.1"}, "a read model stopped: nodes: position 7, node.joined.1"),
        ({"follower": "stopped behind position 7"}, "nothing of the log is read: stopped behind position 7"),
        ({"projectionLag": 12_345}, "12,345 positions behind the log"),
        ({"accessFile": "line 3 is no TOML; an earlier one is in force"}, "line 3 is no TOML"),
    ],
)
def test_lists_that_grow_old_are_an_alert_for_the_platform_with_what_to_do(
    plane: Plane, checks: dict[str, Any], said: str
) -> None:
    wired: Any = plane.wired
    well = {"database": "ok", "projections": "ok", "follower": "ok", "projectionLag": 3, "accessFile": "ok"}
    desk = ask.desk(
        OPERATIONS, wired.dispatcher, wired.dispatcher.reading, wired.authorizer, wired.store, lambda: well | checks
    )
    for client, told_of in ((plane.operator, [said]), (plane.acme, [])):
        session = wired.authorizer.identify(client.headers["authorization"].removeprefix("Bearer "))
        found = fleet_alerts.found(ask.Ask(desk, session, "", {}, {}), (), (), "tenant")
        of_lists = [alert for alert in found if alert.advice]
        assert [one in alert.said for one, alert in zip(told_of, of_lists, strict=True)] == [True] * len(told_of)


def test_who_waits_is_shown_with_why(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    placed = [plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}]).json() for _ in range(2)]
    page = signed(plane, plane.operator).page(f"/?waitFor={plane.settle()}")
    assert f'href="/reservations/{placed[1]["id"]}"' in page.partition('id="queue"')[2]
    assert "no capacity" in text(page).partition("Queue")[2]
    assert placed[1]["id"] not in signed(plane, plane.globex).page("/")


def test_hostile_names_stay_text(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/labels", {"labels": {"rack": HOSTILE}})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": HOSTILE})
    browser, position = signed(plane, plane.operator), plane.settle()
    for path in ("/", "/fleet/nodes"):
        assert "<script>alert" not in browser.page(f"{path}?waitFor={position}")
    assert told(browser)["nodes"][0]["rack"] == HOSTILE
    assert browser.get("/fleet/nodes?rack=%3Cscript%3E").text.count("<script>") == 0
    assert browser.get("/fleet/nodes?connectivity=nonsense").status_code == 422
    assert browser.get("/fleet/map.json?after=nonsense").status_code == 422


def test_an_open_map_asks_for_what_changed_alone(plane: Plane) -> None:
    _, (first, second) = plane.fleet(nodes=2)
    browser = signed(plane, plane.operator)
    whole = told(browser, f"/fleet/map.json?waitFor={plane.settle()}")
    assert {row["id"] for row in whole["nodes"]} == {first, second}
    assert (list(whole["sites"].values()), list(whole["pools"].values())) == (["north"], ["h100"])
    assert told(browser, f"/fleet/map.json?after={whole['position']}")["nodes"] == []
    plane.root.ok("POST", f"/v1/nodes/{second}/cordon", {"reason": "fan"})
    changed = told(browser, f"/fleet/map.json?after={whole['position']}&waitFor={plane.settle()}")
    assert [row["id"] for row in changed["nodes"]] == [second]
    assert changed["position"] > whole["position"]
    assert "sites" not in changed


def test_the_past_is_shown_as_it_was_and_never_moves(plane: Plane) -> None:
    _, (node_id,) = plane.fleet(nodes=1)
    before = plane.settle()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    plane.settle()
    browser = signed(plane, plane.operator)
    page = browser.page(f"/?asOf=@{before}")
    assert alerts(page) == []
    assert 'data-fleet-map="/fleet/map.json?asOf=%40' in page
    assert 'data-live="no"' in page
    assert "reasons" not in told(browser, f"/fleet/map.json?asOf=@{before}")["nodes"][0]
    assert "it is in service" in text(browser.page(f"/fleet/nodes?asOf=@{before}"))
    assert "cordoned since" in text(browser.page("/fleet/nodes"))


def test_where_there_was_no_pool_the_past_says_so_and_asks_for_none(plane: Plane) -> None:
    plane.fleet(nodes=1)
    for person in (plane.operator, plane.acme):
        said = text(signed(plane, person).page("/?asOf=2020-01-01T00:00"))
        assert "There was no pool" in said
        assert "none is offered now" not in said
        assert "Register a site" not in said


def test_who_lost_a_node_is_not_told_that_what_ran_there_goes_on(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet(nodes=1)
    runs = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    watched = Watched(plane)
    watched.silence(node_id)
    watched.wait(302)
    assert plane.acme.ok("GET", f"/v1/reservations/{runs['id']}")["state"] == "failed"
    (said,) = alerts(signed(plane, plane.operator).page(f"/?waitFor={plane.settle()}"))
    assert "1 node lost: what ran on it alone failed" in said


def test_the_table_goes_on_where_its_page_ends(plane: Plane) -> None:
    _, nodes = plane.fleet(nodes=3)
    plane.settle()
    browser = signed(plane, plane.operator)
    assert all(f'href="/nodes/{id}"' in browser.page("/fleet/nodes") for id in nodes)
    assert "Next page" not in browser.page("/fleet/nodes")
    assert "No node is so" in browser.page("/fleet/nodes?rack=none")


def test_looking_records_nothing_whoever_looks(plane: Plane) -> None:
    plane.fleet()
    before, position = len(plane.refusals()), plane.settle()
    for client in (plane.root, plane.operator, plane.auditor, plane.acme, plane.acme_user, plane.globex):
        for path in ("/", "/fleet/nodes", "/fleet/map.json"):
            assert signed(plane, client).get(f"{path}?waitFor={position}").status_code == 200, path
    assert len(plane.refusals()) == before
