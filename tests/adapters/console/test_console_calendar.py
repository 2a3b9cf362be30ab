"""The calendar: who sees which bookings, and that what it offers as free can be reserved."""

import html
import re
import time
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from signed import signed

import given
from adapters.console import ask
from adapters.console.pages import calendar
from adapters.registry import OPERATIONS
from domain.operation import Operation

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class Day:
    """The day after tomorrow: wholly ahead, whenever the test runs."""

    def __init__(self) -> None:
        self.begins = (int(time.time() * 1000) // DAY_MS + 2) * DAY_MS
        self.date = time.strftime("%Y-%m-%d", time.gmtime(self.begins / 1000))

    def at(self, hour: int) -> int:
        return self.begins + hour * HOUR_MS


@pytest.fixture
def day() -> Day:
    return Day()


def booked(plane: given.Plane, client: given.Client, pool_id: str, **fields: Any) -> str:
    answer = client.reserve(pool_id, **fields)
    assert answer.status_code == 201, answer.text
    reservation_id = str(answer.json()["id"])
    plane.until(client, reservation_id, "placed", "binding", "active")
    plane.settle()
    return reservation_id


def offered(page: str) -> list[dict[str, str]]:
    """What the links to the form of a reservation say, of gaps in the chart."""
    links = re.findall(r'<a href="(/reserve\?[^"]+)" id="[gh]-', page)
    return [dict(parse_qsl(urlsplit(html.unescape(link)).query)) for link in links]


def shared(plane: given.Plane) -> tuple[str, str]:
    """A pool of one node that acme and globex are both offered."""
    pool_id, (node_id,) = plane.fleet()
    plane.offer(pool_id, "globex")
    plane.settle()
    return pool_id, node_id


def test_the_owner_of_a_pool_sees_whose_bookings_are_where(plane: given.Plane, day: Day) -> None:
    pool_id, node_id = shared(plane)
    mine = booked(plane, plane.acme, pool_id, startsAt=day.at(6))
    theirs = booked(plane, plane.globex, pool_id, startsAt=day.at(9))
    page = signed(plane, plane.root).page(f"/calendar?poolId={pool_id}&date={day.date}")
    assert f'<a href="/reservations/{mine}" id="b-' in page
    assert f'<a href="/reservations/{theirs}" id="b-' in page
    assert f'href="/nodes/{node_id}"' in page
    assert re.search(rf'aria-label="globex, rsv_[^"]+, booked, from {day.date} 09:00 until {day.date} 10:00"', page)


@pytest.mark.parametrize("view", ["day", "week", "month"])
def test_a_tenant_sees_its_own_bookings_and_never_another_tenants(plane: given.Plane, day: Day, view: str) -> None:
    pool_id, node_id = shared(plane)
    mine = booked(plane, plane.acme, pool_id, startsAt=day.at(6))
    theirs = booked(plane, plane.globex, pool_id, startsAt=day.at(9), devices=[{"class": "gpu", "count": 2}])
    hidden = {row["deviceId"] for row in plane.root.ok("GET", f"/v1/bookings?reservationId={theirs}")["items"]}
    hidden -= {row["deviceId"] for row in plane.root.ok("GET", f"/v1/bookings?reservationId={mine}")["items"]}
    for more in ("", f"&nodeId={node_id}", "&tenantId=acme", "&open=all", "&class=all"):
        page = signed(plane, plane.acme).page(f"/calendar?poolId={pool_id}&date={day.date}&view={view}{more}")
        assert f'href="/reservations/{mine}"' in page
        assert not [text for text in (theirs, "globex", *hidden) if text in page]
        assert f'href="/nodes/{node_id}"' not in page
    asked_for = signed(plane, plane.acme).page(f"/calendar?tenantId=globex&date={day.date}&view={view}")
    assert "/reservations/rsv_" not in asked_for


def test_a_tenant_sees_what_others_leave_it_without_seeing_them(plane: given.Plane, day: Day) -> None:
    pool_id, _ = shared(plane)
    booked(plane, plane.globex, pool_id, startsAt=day.at(9), devices=[{"class": "gpu", "count": 6}])
    page = signed(plane, plane.acme).page(f"/calendar?poolId={pool_id}&date={day.date}")
    assert f"8 gpu free, from {day.date} 03:00 until {day.date} 04:00; reserve" in page
    assert f"2 gpu free, from {day.date} 09:00 until {day.date} 10:00; reserve" in page


def test_what_is_shown_as_free_can_be_reserved_as_offered(plane: given.Plane, day: Day) -> None:
    pool_id, _ = shared(plane)
    booked(plane, plane.globex, pool_id, startsAt=day.at(9), devices=[{"class": "gpu", "count": 8}])
    page = signed(plane, plane.root).page(f"/calendar?poolId={pool_id}&date={day.date}")
    gaps = offered(page)
    spans = {(int(gap["startsAt"]), int(gap["startsAt"]) + 1000 * int(gap["durationSeconds"])) for gap in gaps}
    before, after = sorted(spans)
    assert before[0] == day.begins
    assert before[1] <= day.at(9)
    assert after[0] >= day.at(10)
    assert after[1] == day.begins + DAY_MS
    for gap in gaps:
        claim = {"startsAt": int(gap["startsAt"]), "durationSeconds": int(gap["durationSeconds"])}
        booked(plane, plane.acme, gap["poolId"], **claim)
    plane.settle()
    assert offered(signed(plane, plane.root).page(f"/calendar?poolId={pool_id}&date={day.date}")) == []


def test_a_gap_that_is_open_now_says_no_start(plane: given.Plane) -> None:
    pool_id, _ = shared(plane)
    gaps = offered(signed(plane, plane.root).page(f"/calendar?poolId={pool_id}&view=month"))
    assert gaps
    assert all(set(gap) == {"poolId", "durationSeconds"} and int(gap["durationSeconds"]) >= 60 for gap in gaps)


def test_who_may_not_reserve_is_offered_no_gap(plane: given.Plane, day: Day) -> None:
    pool_id, _ = shared(plane)
    page = signed(plane, plane.auditor).page(f"/calendar?poolId={pool_id}&date={day.date}")
    assert "is free, from" in page
    assert "/reserve?poolId" not in page
    assert "data-pool=" not in page


def test_a_node_that_takes_nothing_new_has_no_gaps_and_says_why(plane: given.Plane, day: Day) -> None:
    _, node_id = shared(plane)
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fans"})
    plane.settle()
    page = signed(plane, plane.root).page(f"/calendar?nodeId={node_id}&date={day.date}")
    assert "n0 takes nothing new: Cordoned" in page
    assert offered(page) == []


def test_planned_maintenance_is_a_bar_of_its_own(plane: given.Plane, day: Day) -> None:
    pool_id, node_id = shared(plane)
    body = {"on": True, "reason": "bios", "from": day.at(3), "until": day.at(5)}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", body)
    plane.settle()
    page = signed(plane, plane.root).page(f"/calendar?poolId={pool_id}&date={day.date}")
    assert f'aria-label="maintenance, planned, from {day.date} 03:00 until {day.date} 05:00"' in page
    assert {int(gap["startsAt"]) for gap in offered(page)} == {day.begins, day.at(5)}


def test_the_past_shows_what_was_known_then_and_offers_nothing(plane: given.Plane, day: Day) -> None:
    pool_id, _ = shared(plane)
    before = plane.head()
    mine = booked(plane, plane.acme, pool_id, startsAt=day.at(6))
    after = plane.head()
    for client in (plane.root, plane.acme):
        address = f"/calendar?poolId={pool_id}&date={day.date}&asOf=@"
        then, later = (signed(plane, client).page(f"{address}{position}") for position in (before, after))
        assert mine not in then
        assert f'href="/reservations/{mine}?asOf=%40{after}"' in later
        assert "/reserve?poolId" not in then + later


def test_the_past_is_drawn_around_what_was_now_then(plane: given.Plane) -> None:
    plane.fleet()
    position = plane.settle()
    ((event, _),) = plane.store.at([position])
    plane.acme.ok("POST", "/v1/projects", {"name": "later"})
    for client in (plane.root, plane.acme, plane.globex, plane.acme_user):
        page = signed(plane, client).page(f"/calendar?asOf=@{position}")
        assert re.findall(r'data-snap="\d+" data-now="(\d+)"', page) == [str(event.recorded_at)]
    assert signed(plane, plane.globex).get(f"/calendar?asOf=@{plane.settle() + 1000}").status_code == 422


def test_a_calendar_without_any_pool_says_so(plane: given.Plane) -> None:
    page = signed(plane, plane.acme).page("/calendar")
    assert "You have nothing booked in this time." in page
    assert "/reserve?poolId" not in page


def test_a_folded_node_has_what_runs_in_the_colour_of_what_is_in_use_to_its_end(plane: given.Plane) -> None:
    pool_id, _ = plane.fleet(nodes=5)
    plane.activate(plane.acme, plane.acme.reserve(pool_id, durationSeconds=3 * 3600).json()["id"])
    page = signed(plane, plane.root).page(f"/calendar?poolId={pool_id}&waitFor={plane.settle()}")
    assert len(re.findall('class="bar-of heat-1"', page)) >= 3
    assert "ahead" not in page


def test_of_many_devices_each_node_is_one_row_that_unfolds(plane: given.Plane, day: Day) -> None:
    pool_id, nodes = plane.fleet(nodes=5)
    mine = booked(plane, plane.acme, pool_id, startsAt=day.at(6))
    browser = signed(plane, plane.root)
    page = browser.page(f"/calendar?poolId={pool_id}&date={day.date}")
    assert re.search(rf'aria-label="n\d: 1 of 8 booked, from {day.date} 06:00 until {day.date} 07:00; reserve"', page)
    assert len(re.findall('class="bar-of heat-1 ahead"', page)) == 1, (
        "of a day to come, in the colour of what is booked"
    )
    assert 'id="b-' not in page
    assert page.count('aria-label="Unfold n') == len(nodes)
    opened = browser.page(f"/calendar?poolId={pool_id}&date={day.date}&open=all")
    assert f'<a href="/reservations/{mine}" id="b-' in opened


def test_a_folded_node_tells_planned_maintenance_from_what_is_booked(plane: given.Plane, day: Day) -> None:
    pool_id, (node_id, *_) = plane.fleet(nodes=5)
    body = {"on": True, "reason": "bios", "from": day.at(3), "until": day.at(4)}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", body)
    plane.settle()
    page = signed(plane, plane.root).page(f"/calendar?poolId={pool_id}&date={day.date}")
    assert re.search(rf'aria-label="n\d: 8 of 8 in planned maintenance, from {day.date} 03:00', page)
    assert len(re.findall('class="bar-of maintenance"', page)) == 1
    assert "heat-4 ahead" not in page


def test_what_is_over_holds_nothing_of_a_folded_node_in_the_hour_that_is_now(plane: given.Plane) -> None:
    pool_id, _ = plane.fleet(nodes=5)
    over = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    plane.settle()

    def held_on() -> list[str]:
        """The ends of the cells from now on in which a device is booked."""
        page, now = signed(plane, plane.root).page(f"/calendar?poolId={pool_id}"), time.gmtime()
        ends = re.findall(r": 1 of 8 booked, from [^\"]+ until ([-\d]+ [:\d]+)", page)
        return [end for end in ends if end > time.strftime("%Y-%m-%d %H:%M", now)]

    assert held_on()
    plane.acme.ok("POST", f"/v1/reservations/{over['id']}/release", {})
    for allocation in over["allocations"]:
        plane.report(allocation["nodeId"])
    plane.until(plane.acme, over["id"], "released")
    plane.settle()
    assert held_on() == []


@pytest.mark.parametrize("query", ["view=year", "date=yesterday", "date=0001-01-01", "date=9999-12-31", "nodeId=x"])
def test_a_time_or_a_thing_that_is_none_is_refused_with_a_reason(plane: given.Plane, query: str) -> None:
    answer = signed(plane, plane.acme).get(f"/calendar?{query}")
    assert answer.status_code == 422
    assert f"{query.partition('=')[0]}: expected" in answer.text


def test_what_the_address_says_is_shown_as_text(plane: given.Plane) -> None:
    shared(plane)
    page = signed(plane, plane.root).page(
        "/calendar?tenantId=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&open=%22%3E%3Cb%3E"
    )
    assert "<script>alert" not in page
    assert '"><b>' not in page


def test_nodes_stand_in_one_order_from_page_to_page(plane: given.Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar, "NODES", 2)
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    for name in ("n4", "n1", "n3", "n0", "n2"):
        plane.node(site_id, pool_id, name)
    browser, address, found = signed(plane, plane.root), f"/calendar?poolId={pool_id}&waitFor={plane.settle()}", []
    while address:
        page = browser.page(address)
        found += re.findall(r'href="/nodes/[^"]*" title="[^"]*">(n\d)</a>', page)
        (*_, address) = ["", *map(html.unescape, re.findall(r'href="([^"]*)">Next nodes', page))]
    assert found == ["n0", "n1", "n2", "n3", "n4"]


def test_a_look_asks_as_much_of_many_nodes_as_of_one(plane: given.Plane, day: Day) -> None:
    asked: list[str] = []

    def reading(*by: Any) -> Any:
        read = dispatcher.reading(*by)

        def counted(operation: Operation, *call: Any) -> Any:
            asked.append(operation.name)
            return read(operation, *call)

        return counted

    dispatcher = plane.wired.dispatcher
    console = ask.desk(OPERATIONS, dispatcher, reading, plane.wired.authorizer, plane.store, dict)
    session = plane.wired.authorizer.identify(plane.root.headers["authorization"].removeprefix("Bearer "))
    assert session is not None
    counts = []
    for name, nodes in (("one", 1), ("many", 6)):
        site_id = plane.site(name)
        pool_id = plane.pool(site_id, name)
        for n in range(nodes):
            plane.node(site_id, pool_id, f"{name}-{n}")
        asked.clear()
        query = {"poolId": pool_id, "date": day.date, "waitFor": str(plane.settle())}
        shown = calendar.build(ask.Ask(console, session, "", query, {}))
        assert sum(line.label.startswith(name) for line in shown["lines"]) == nodes
        counts.append(len(asked))
    assert counts[0] == counts[1] < 10
