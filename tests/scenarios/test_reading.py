"""Lists: pages that lose and repeat nothing, and only what the caller may see."""

from typing import Any

import pytest

from domain import site
from domain.event import Append, Change, Meta
from given import Client, Plane


def sites(plane: Plane, prefix: str, count: int, at: int) -> set[str]:
    """Sites of the platform, all of one millisecond."""
    made = [plane.wired.mint("site") for _ in range(count)]
    changes = tuple(
        Change(id, 0, (site.Created(f"{prefix}-{n}", "shared", "platform", "eu", at),)) for n, id in enumerate(made)
    )
    plane.store.append(Append(changes, Meta("test")))
    plane.settle()
    return set(made)


def walk(client: Client, path: str) -> Any:
    """Page after page; between pages whoever iterates does what it likes."""
    cursor = ""
    while True:
        page = client.ok("GET", f"{path}{cursor}")
        yield [row["id"] for row in page["items"]]
        if "nextCursor" not in page:
            return
        cursor = f"&cursor={page['nextCursor']}"


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_every_row_of_one_millisecond_is_shown_once_while_others_come(plane: Plane, order: str) -> None:
    """O41."""
    at = plane.store.now()
    before = sites(plane, "old", 500, at)
    seen: list[str] = []
    for n, page in enumerate(walk(plane.root, f"/v1/sites?limit=97&order={order}")):
        assert len(page) <= 97
        seen += page
        sites(plane, f"new-{n}", 5, at) if n < 3 else None
    shown = [id for id in seen if id in before]
    assert len(shown) == len(set(shown)) == 500
    assert shown == sorted(shown, reverse=order == "desc")


def test_devices_and_bookings_have_pages_too(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=3, gpus=8, quota=99)
    for _ in range(3):
        plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 5}])
    position = plane.settle()
    devices = [id for page in walk(plane.root, f"/v1/devices?limit=7&waitFor={position}") for id in page]
    assert len(devices) == len(set(devices)) == 27
    seen, cursor = [], ""
    while cursor is not None:
        page = plane.acme.ok("GET", f"/v1/bookings?limit=4&order=desc{cursor}")
        seen += [(row["from"], row["deviceId"]) for row in page["items"]]
        cursor = f"&cursor={page['nextCursor']}" if "nextCursor" in page else None
    assert len(seen) == len(set(seen)) == 15
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize(
    "cursor", ["x", "%00", "bm9wZQ==", "WzEsIlx1MDAwMCJd", "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5LCJhIl0=", "é"]
)
def test_a_cursor_that_no_page_gave_is_refused(plane: Plane, cursor: str) -> None:
    answer = plane.root.get(f"/v1/sites?cursor={cursor}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor")


def test_filters_name_things_of_the_right_kind(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    assert plane.root.ok("GET", f"/v1/nodes?poolId={pool_id}&schedulable=true")["items"][0]["id"] == node_id
    assert plane.root.ok("GET", f"/v1/nodes?poolId={pool_id}&schedulable=false")["items"] == []
    for path, field in (
        (f"/v1/nodes?poolId={pool_id.upper()}", "poolId"),
        (f"/v1/devices?nodeId={pool_id}", "nodeId"),
        (f"/v1/bookings?nodeId={node_id},{pool_id}", "nodeId"),
        ("/v1/bookings?nodeId=", "nodeId"),
        ("/v1/bookings?reservationId=rsv_1", "reservationId"),
        ("/v1/capacity?poolId=pool_oops", "poolId"),
        ("/v1/bookings?from=2&until=1", "until"),
    ):
        answer = plane.root.get(path)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field), path


def test_devices_and_bookings_are_told_of_several_nodes_at_once(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=3, gpus=2, quota=6)
    for _ in nodes:
        assert plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}]).status_code == 201
    wanted, position = set(nodes[1:]), plane.settle()
    for past in ("", f"&asOf=@{position}"):
        for noun in ("devices", "bookings"):
            rows = plane.root.ok("GET", f"/v1/{noun}?nodeId={','.join(wanted)}{past}")["items"]
            assert {row["nodeId"] for row in rows} == wanted, (noun, past)


def test_a_plain_user_lists_what_it_may_get_and_no_more(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=8, quota=99)
    later = plane.store.now() + 10**7
    mine = []
    for n in range(12):
        client = plane.acme_user if n % 3 == 0 else plane.acme
        made = client.reserve(pool_id, startsAt=later + n * 4_000_000).json()
        mine += [made["id"]] if n % 3 == 0 else []
    plane.settle()
    pages = list(walk(plane.acme_user, "/v1/reservations?limit=2"))
    assert [id for page in pages for id in page] == mine
    assert all(len(page) == 2 for page in pages[:-1]), "pages are full, whatever stands between"
    assert len(plane.acme.ok("GET", "/v1/reservations")["items"]) == 12
    others = next(id for page in walk(plane.acme, "/v1/reservations?limit=5") for id in page if id not in mine)
    assert plane.acme_user.get(f"/v1/reservations/{others}").status_code == 403
    assert plane.acme_user.post(f"/v1/reservations/{others}/cancel").status_code == 403
    assert plane.acme_user.ok("POST", f"/v1/reservations/{mine[0]}/cancel", {})["state"] == "cancelled"
    assert plane.auditor.get("/v1/reservations").json()["items"] == []
    assert len(plane.auditor.ok("GET", "/v1/reservations?scope=fleet")["items"]) == 12
    assert plane.acme.get("/v1/reservations?scope=fleet").status_code == 403


def test_a_cursor_goes_on_in_its_own_list_and_order_alone(plane: Plane) -> None:
    for name in ("north", "south"):
        plane.site(name)
    plane.settle()
    cursor = plane.root.ok("GET", "/v1/sites?limit=1")["nextCursor"]
    assert plane.root.get(f"/v1/sites?cursor={cursor}").status_code == 200
    for path in ("/v1/pools?", "/v1/bookings?", "/v1/sites?order=desc&"):
        answer = plane.root.get(f"{path}cursor={cursor}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor"), path
