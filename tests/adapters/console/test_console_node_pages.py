"""A node's pages: each action through its form, refusals in the page, the past, and names that mean harm."""

import re
import time
from typing import Any

import pytest
from signed import Browser, signed

from given import DEADLINE_S, Plane, inventory, partitioned

HOUR = 3_600_000
EVIL = "<script>alert(1)</script>\"'&"
HOSTILE = [EVIL, "‮ desrever", "x" * 200]


def offered(page: str) -> set[str]:
    return set(re.findall(r'action="/do/([\w.]+)"', page))


def until(browser: Browser, plane: Plane, path: str, said: str) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while said not in (page := browser.page(path)):
        assert time.monotonic() < deadline, page
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    return page


@pytest.fixture
def operator(plane: Plane) -> Browser:
    return signed(plane, plane.operator)


@pytest.fixture
def node(plane: Plane) -> str:
    _, (node_id,) = plane.fleet()
    return node_id


def test_maintenance_is_entered_planned_called_off_and_left_from_the_page(
    plane: Plane, operator: Browser, node: str
) -> None:
    operator.page(f"/nodes/{node}")
    assert operator.do("nodes.maintain", id=node, on="true", reason="disk").status_code == 200
    page = operator.page(f"/nodes/{node}")
    assert "It is in maintenance." in page
    assert "End maintenance" in page
    assert operator.do("nodes.maintain", id=node, on="false").status_code == 200
    window = {"from": "2099-01-01T06:00:00", "until": "2099-01-01T08:00:00"}
    refused = operator.do("nodes.maintain", id=node, on="true", reason="bios", **window)
    assert (refused.status_code, "five years ahead" in refused.text) == (422, True)
    ends = [time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + ahead)) for ahead in (86_400, 90_000)]
    window = dict(zip(("from", "until"), ends, strict=True))
    assert operator.do("nodes.maintain", id=node, on="true", reason="bios", **window).status_code == 200
    page = operator.page(f"/nodes/{node}?waitFor={plane.settle()}")
    assert "Call off a planned one" in page
    assert page.count(">maintenance <small>") > 0, "its devices are booked for it"
    (plan,) = plane.operator.ok("GET", f"/v1/nodes/{node}")["plannedMaintenance"]
    assert operator.do("nodes.maintain", id=node, on="false", plan=plan["id"]).status_code == 200
    assert plane.operator.ok("GET", f"/v1/nodes/{node}")["plannedMaintenance"] == []


def test_a_drain_says_who_leaves_and_by_when_and_shows_how_far_it_is(plane: Plane, operator: Browser) -> None:
    pool_id, (node_id,) = plane.fleet()
    active = plane.activate(plane.acme, plane.acme.reserve(pool_id, durationSeconds=7_200).json()["id"])
    ahead = plane.acme.reserve(pool_id, startsAt=plane.store.now() + 100 * HOUR).json()
    plane.settle()
    form = operator.page(f"/nodes/{node_id}").partition('action="/do/nodes.drain"')[2].partition("</form>")[0]
    placed, _, running = form.partition("Going on until its end")
    assert ahead["id"] in placed
    assert active["id"] in running
    assert operator.do("nodes.drain", id=node_id, reason="fan", deadline="2026-01-01T00:00:00").status_code == 422
    assert operator.do("nodes.drain", id=node_id, reason="fan").status_code == 200
    page = until(operator, plane, f"/nodes/{node_id}", "<strong>1</strong> of 2 left on it")
    assert re.search(r"the last ends by\s+<time", page)
    plane.acme.ok("POST", f"/v1/reservations/{active['id']}/release", {})
    plane.report(node_id)
    page = until(operator, plane, f"/nodes/{node_id}", "Empty since")
    assert operator.do("nodes.uncordon", id=node_id).status_code == 200
    assert "Empty since" not in operator.page(f"/nodes/{node_id}")


def test_a_drain_beyond_the_budget_is_refused_in_the_page_and_can_be_forced(plane: Plane, operator: Browser) -> None:
    _, (first, second) = plane.fleet(nodes=2)
    operator.page(f"/nodes/{first}")
    assert operator.do("nodes.drain", id=first, reason="fan").status_code == 200
    refused = operator.do("nodes.drain", id=second, reason="fan")
    assert refused.status_code == 409
    assert first in refused.text
    assert "<html" not in refused.text, "a form shows what was refused in its own place"
    whole = operator.do("nodes.drain", id=second, reason="fan", _back=f"/nodes/{second}", part=False)
    assert f'href="/nodes/{second}"' in whole.text, "without scripts there is a way back"
    assert operator.do("nodes.drain", id=second, reason="fan", force="true").status_code == 200


def test_a_node_on_its_way_into_service_offers_its_next_step(plane: Plane, operator: Browser) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    node_id = plane.join(site_id, "fresh", inventory(index=99), enroll=True)
    page = operator.page(f"/nodes/{node_id}?waitFor={plane.settle()}")
    assert "A machine that is installed already is adopted" in page
    assert {"nodes.inspect", "nodes.assign", "nodes.retire"} <= offered(page)
    assert not {"nodes.adopt", "nodes.deploy", "nodes.release", "nodes.rescue"} & offered(page)
    for act, state in (("inspect", "inspecting"), ("commission", "ready")):
        assert operator.do(f"nodes.{act}", id=node_id).status_code == 200
        assert plane.operator.ok("GET", f"/v1/nodes/{node_id}")["provisionState"] == state
    assert operator.do("nodes.assign", id=node_id, poolId=pool_id, role="host").status_code == 200
    assert {"nodes.deploy", "nodes.inspect", "nodes.retire"} <= offered(operator.page(f"/nodes/{node_id}"))
    assert operator.do("nodes.retire", id=node_id).status_code == 200
    gone = operator.page(f"/nodes/{node_id}")
    assert "It is retired since" in gone
    assert offered(gone) == set()
    assert node_id not in operator.page(f"/nodes?waitFor={plane.settle()}")
    assert node_id in operator.page("/nodes?provisionState=retired")
    assert node_id in operator.page(f"/nodes?text={node_id}")


def test_a_lost_machine_is_fenced_from_where_the_page_says_why(plane: Plane, operator: Browser) -> None:
    site_id = plane.site()
    node_id = plane.join(site_id, "silent", inventory(index=98))
    page = operator.page(f"/nodes/{node_id}")
    why = page.partition("Nothing is placed on it")[2].partition("</section>")[0]
    assert "nodes.fence" in offered(why)
    assert page.count('action="/do/nodes.fence"') == 1, "what helps is offered once, beside the reason"
    assert operator.do("nodes.fence", id=node_id, reason="pulled out").status_code == 200
    assert plane.operator.ok("GET", f"/v1/nodes/{node_id}")["power"] == "off"


def test_commands_are_issued_with_their_params_and_cancelled(plane: Plane, operator: Browser, node: str) -> None:
    page = operator.page(f"/nodes/{node}/commands")
    assert 'name="params.checks[0]"' in page
    gpu = plane.operator.ok("GET", f"/v1/nodes/{node}/inventory")["inventory"]["gpus"][0]["uuid"]
    assert f"<option>{gpu}</option>" in page
    checks = {"params.checks[2]": "disks", "params.checks[5]": "memory"}
    later = "2027-01-01T00:00:00" if time.time() < 1_798_000_000 else "2036-01-01T00:00:00"
    answer = operator.do("commands.issue", id=node, name="run-acceptance", notBefore=later, **checks)
    assert answer.status_code == 200, answer.text
    refused = operator.do("commands.issue", id=node, name="gpu-reset", **{"params.gpuUuid": "GPU-none"})
    assert (refused.status_code, "params.gpuUuid" in refused.text) == (422, True)
    page = operator.page(f"/nodes/{node}/commands?waitFor={plane.settle()}")
    assert "checks: disks, memory" in page
    (command,) = plane.operator.ok("GET", f"/v1/commands?nodeId={node}")["items"]
    assert operator.do("commands.cancel", id=command["id"], reason="not needed").status_code == 200
    page = operator.page(f"/nodes/{node}/commands?waitFor={plane.settle()}")
    assert "not needed" in page
    assert "commands.cancel" not in offered(page)


def test_who_only_reads_sees_commands_and_issues_none(plane: Plane, node: str) -> None:
    page = signed(plane, plane.auditor).page(f"/nodes/{node}/commands")
    assert offered(page) == set()
    assert "Give it a command" not in page


def test_an_auditor_gets_to_the_decision_and_an_operator_who_may_not_gets_its_id(plane: Plane, node: str) -> None:
    assert 'href="/audit?admissionId=adm_' in signed(plane, plane.auditor).page(f"/nodes/{node}/history")
    page = signed(plane, plane.operator).page(f"/nodes/{node}/history")
    assert 'href="/audit' not in page
    assert "adm_" in page


def test_history_goes_on_from_page_to_page_in_both_orders(plane: Plane, operator: Browser, node: str) -> None:
    newest = operator.page(f"/nodes/{node}/history")
    assert newest.index("<strong>Schedulable</strong>") < newest.index("<strong>Joined</strong>")
    oldest = operator.page(f"/nodes/{node}/history?order=asc")
    assert oldest.index("<strong>Joined</strong>") < oldest.index("<strong>Schedulable</strong>")
    for n in range(60):
        plane.operator.ok("POST", f"/v1/nodes/{node}/labels", {"labels": {"n": str(n)}})
        plane.operator.ok("POST", f"/v1/nodes/{node}/labels", {"labels": {}})
    first = operator.page(f"/nodes/{node}/history?waitFor={plane.settle()}")
    assert "<strong>Joined</strong>" not in first
    following = re.search(r'href="(/nodes/\w+/history\?[^"]*cursor=[^"]+)"', first)
    assert following is not None
    assert "<strong>Joined</strong>" in operator.page(following[1].replace("&amp;", "&"))


def test_the_page_as_of_an_event_shows_that_moment(plane: Plane, operator: Browser, node: str) -> None:
    plane.operator.ok("POST", f"/v1/nodes/{node}/cordon", {"reason": "for the record"})
    page = operator.page(f"/nodes/{node}")
    (cordoned,) = re.findall(r"for the record\s.*?asOf=(%40\d+)", page.partition("Lately")[2], re.S)[:1]
    plane.operator.ok("POST", f"/v1/nodes/{node}/uncordon", {})
    then = operator.page(f"/nodes/{node}?asOf={cordoned}")
    assert "An operator cordoned it" in then
    assert offered(then) == set()
    assert "An operator cordoned it" not in operator.page(f"/nodes/{node}")
    assert operator.get(f"/nodes/{node}?asOf=@1").status_code == 404, "it had not joined"


def test_hardware_is_compared_with_an_earlier_report(plane: Plane, operator: Browser, node: str) -> None:
    page = operator.page(f"/nodes/{node}/inventory")
    assert "NVIDIA H100 80GB HBM3" in page
    assert "<h3>Changes</h3>" not in page
    compared = operator.page(f"/nodes/{node}/inventory?diff=@1")
    assert "<h3>Changes</h3>" in compared
    assert "gpus[GPU-" in compared
    assert "Nothing changed." in operator.page(f"/nodes/{node}/inventory?diff=@{plane.head()}")
    assert operator.get(f"/nodes/{node}/inventory?diff=yesterday").status_code == 422


def test_bookings_stand_at_the_slices_that_they_hold(plane: Plane, operator: Browser) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, "mig", gpuModel="A100", sharing="mig", policy={"migLayout": MIG})
    plane.offer(pool_id, quota={"gpu.mig": 7})
    node_id = plane.node(site_id, pool_id, "m0", found=partitioned(index=97))
    claim = plane.acme.reserve(pool_id, devices=[{"class": "gpu.mig", "count": 2}]).json()
    page = operator.page(f"/nodes/{node_id}?waitFor={plane.settle()}")
    devices = page.partition('id="h-devices"')[2].partition("</section>")[0]
    assert devices.count(claim["id"]) >= 2
    assert "5 free:" in devices


MIG = [{"profile": "1g.10gb", "start": start} for start in range(7)]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_people_wrote_is_text_whatever_it_says(plane: Plane, operator: Browser, node: str, text: str) -> None:
    found = inventory(index=96)
    found["gpus"][0]["name"] = found["system"]["productName"] = text
    agent = plane.join(plane.site("other"), "odd", found)
    operator.page(f"/nodes/{node}")
    assert operator.do("nodes.label", id=node, **{"labels{}": f"rack={text[:60]}"}).status_code in (200, 422)
    for of in (node, agent):
        assert operator.do("nodes.cordon", id=of, reason=text).status_code == 200
        for below in ("", "/commands", "/inventory", "/history"):
            page = operator.page(f"/nodes/{of}{below}?waitFor={plane.settle()}")
            assert EVIL not in page
            assert "<script>alert" not in page
    assert "<script>alert" not in operator.page("/nodes?scope=fleet&text=%3Cscript%3Ealert")


def test_a_tenants_own_machine_is_the_tenants_to_run(plane: Plane) -> None:
    site_id = plane.site("own", by=plane.acme, kind="custom")
    node_id = plane.join(site_id, "mine", inventory(index=95), by=plane.acme, trust="tenant-owned")
    acme = signed(plane, plane.acme)
    assert node_id in acme.page(f"/nodes?waitFor={plane.settle()}")
    assert "nodes.cordon" in offered(acme.page(f"/nodes/{node_id}"))
    user = signed(plane, plane.acme_user)
    assert offered(user.page(f"/nodes/{node_id}")) == set()
    assert signed(plane, plane.globex).get(f"/nodes/{node_id}").status_code == 404
    answer = user.do("nodes.cordon", id=node_id, reason="no")
    assert (answer.status_code, "ACCESS_DENIED" in answer.text) == (403, True)


def test_who_has_no_nodes_is_told_whose_they_are(plane: Plane, node: str) -> None:
    before = len(plane.refusals())
    page = signed(plane, plane.acme).page("/nodes")
    assert "There are no nodes of yours." in page
    assert 'id="filters"' not in page
    assert len(plane.refusals()) == before


@pytest.mark.parametrize(
    ("query", "status"),
    [("provisionState=nonsense", 422), ("cursor=nonsense", 422), ("sort=nonsense", 200), ("text=" + "x" * 500, 422)],
)
def test_an_address_that_somebody_wrote_is_refused_in_words(
    operator: Browser, node: str, query: str, status: int
) -> None:
    answer = operator.get(f"/nodes?{query}")
    assert (answer.status_code, "<h1" in answer.text) == (status, True)


def test_no_page_of_a_node_records_a_refusal(plane: Plane, operator: Browser, node: str) -> None:
    before: list[Any] = plane.refusals()
    for below in ("", "/commands", "/inventory", "/history"):
        operator.page(f"/nodes/{node}{below}")
    assert plane.refusals() == before


GETS = """
[roles.gets]
version = 1
[[roles.gets.statements]]
effect = "allow"
actions = ["compute:nodes:get", "compute:nodes:list"]
resources = ["*"]
"""


def test_a_tab_that_would_be_refused_is_not_shown(plane: Plane, node: str) -> None:
    plane.access.write_text(plane.access.read_text().replace('["auditor"]', '["gets"]') + GETS)
    assert plane.wired.authorizer.reload()
    page = signed(plane, plane.auditor).page(f"/nodes/{node}")
    assert re.findall(rf'href="/nodes/{node}(/\w+)?"', page) == [""]
    assert "Hardware</a>" not in page


@pytest.mark.parametrize("below", ["", "/commands", "/inventory", "/history"])
def test_a_nodes_pages_are_below_nodes(operator: Browser, node: str, below: str) -> None:
    page = operator.page(f"/nodes/{node}{below}")
    assert '<a href="/nodes" aria-current="page">Nodes</a>' in page
    assert '<p class="crumbs"><a href="/nodes">Nodes</a></p>' in page


def test_a_sites_pages_are_below_nodes(plane: Plane, operator: Browser, node: str) -> None:
    assert '<a href="/nodes" aria-current="page">Nodes</a>' in operator.page("/sites")
    site_id = plane.operator.ok("GET", f"/v1/nodes/{node}")["siteId"]
    page = operator.page(f"/sites/{site_id}")
    assert '<a href="/nodes" aria-current="page">Nodes</a>' in page
    assert '<p class="crumbs"><a href="/sites">Sites</a></p>' in page
