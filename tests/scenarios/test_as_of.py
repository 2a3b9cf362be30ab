"""As it was known then: `asOf` on gets and lists (api.md §2)."""

import copy
import json
import time
from threading import Event, Thread
from typing import Any

import msgspec
import pytest

from adapters import dispatch
from adapters.postgres import rebuild
from adapters.registry import OPERATIONS
from commands import agents
from domain import errors, inventory, node, registry, reservation_view
from domain.policy.instant import epoch_ms
from given import Client, Plane
from given import inventory as document
from projections import table
from wellformed import REQUESTS, fill, things

LATER_MS = 10**7
NOT_IN_THE_LOG = {"leases.list"}
NO_PAST = {
    "commands.types": "a table in the program",
    "iam.catalog": "a table in the program",
    "instances.console": "is kept beside the log, of now alone",
    "audit.checkpoint": "says what was so when it was signed",
    "audit.export": "says itself up to where it goes",
    "audit.verify": "proves the log as it is",
    "events.stream": "goes through the log itself, from the position that is asked for",
}
"""Queries that have no asOf, and why."""
SORTED: dict[str, Any] = {"bookings.list": lambda row: f"{row['deviceId']}|{row['allocationId']}"}
LEFT_AS_THEY_ARE = ("nodes.devices", "nodes.count", "capacity.list", "capacity.timeline", "usage.list")
MOVING = (
    "capacity.list",
    "capacity.timeline",
    "usage.list",
    "usage.timeline",
    "quotas.get",
    "quotas.list",
    "offerings.get",
)
OF_THE_MOMENT = {"at", "peakAt", "until", "deviceHours", "gpuHours", "from"}
"""Of the present these go on with the clock, of the past they stand where the clock was."""
OF_THE_LOG = {"audit.events", "audit.stream", "audit.state", "nodes.history", "reservations.states"}
"""Their past has no end, and they show events, which are what they were (test_audit_events.py)."""
PAST = sorted(
    name
    for name, one in OPERATIONS.items()
    if "as_of" in one.request.__struct_fields__ and name not in NOT_IN_THE_LOG | OF_THE_LOG
)


def then(client: Client, path: str, position: int) -> Any:
    """The body of an answer as of a position; the answer says that position."""
    answer = client.get(f"{path}{'&' if '?' in path else '?'}asOf=@{position}")
    assert (answer.status_code, answer.headers.get("x-position")) == (200, str(position)), answer.text
    return answer.json()


def ids(page: Any) -> list[str]:
    return [row["id"] for row in page["items"]]


def test_every_get_and_list_has_a_past_or_says_why_not() -> None:
    """A new query takes asOf, or is named above with its reason."""
    without = {name for name, one in OPERATIONS.items() if one.verb == "GET"}
    assert without - {*PAST, *NOT_IN_THE_LOG, *OF_THE_LOG} <= NO_PAST.keys()


def test_what_has_a_past_says_what_it_refuses() -> None:
    for name in PAST:
        assert {errors.HistoryPruned, errors.ProjectionBehind} <= set(OPERATIONS[name].refusals), name
    assert {name for name, one in OPERATIONS.items() if one.of_log} == OF_THE_LOG


def test_what_is_not_in_the_log_refuses_to_be_asked_for_its_past(plane: Plane) -> None:
    for name in NOT_IN_THE_LOG:
        answer = plane.root.get(f"{OPERATIONS[name].path}?asOf=@{plane.head()}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "asOf")


def test_as_of_now_is_what_is_shown_now(plane: Plane) -> None:
    known = things(plane)
    position = plane.settle()
    for name in PAST:
        path = fill(REQUESTS[name][0], known)
        for client in (plane.root, plane.acme):
            now = client.get(path)
            if now.status_code != 200:
                assert client.get(f"{path}?asOf=@{position}").status_code == now.status_code
                continue
            shown = now.json()
            if "items" in shown and name not in LEFT_AS_THEY_ARE:
                shown["items"].sort(key=SORTED.get(name, lambda row: (row.get("nodeId", ""), row["id"])))
            assert settled(name, then(client, path, position)) == settled(name, shown), name


def settled(name: str, body: Any) -> Any:
    """Without what goes on with the clock."""
    if name not in MOVING:
        return body
    match body:
        case dict():
            return {of: settled(name, value) for of, value in body.items() if of not in OF_THE_MOMENT}
        case list():
            return [settled(name, one) for one in body]
        case _:
            return body


def test_it_can_be_waited_for_as_well(plane: Plane) -> None:
    site_id = plane.site()
    position = plane.head()
    assert ids(then(plane.root, f"/v1/sites?waitFor={position}", position)) == [site_id]
    assert then(plane.root, f"/v1/sites?waitFor={position}", position - 1)["items"] == []
    assert plane.root.get(f"/v1/sites?waitFor={position + 1000}&asOf=@{position}").status_code == 503


def test_a_reservation_shows_each_state_that_it_went_through(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + LATER_MS).json()["id"]
    plane.acme.ok("POST", f"/v1/reservations/{made}/cancel", {})
    plane.settle()
    history = plane.store.history(made)
    assert plane.acme.get(f"/v1/reservations/{made}?asOf=@{history[0].position - 1}").status_code == 404
    seen = []
    for n, recorded in enumerate(history, start=1):
        state = registry.fold_recorded(made, history[:n])
        shown = then(plane.acme, f"/v1/reservations/{made}", recorded.position)
        assert shown == json.loads(msgspec.json.encode(reservation_view.view(made, state, n)))
        assert plane.acme.get(f"/v1/reservations/{made}?asOf=@{recorded.position}").headers["etag"] == f'"{n}"'
        for status in ("draft", "placed", "cancelled"):
            listed = then(plane.acme, f"/v1/reservations?state={status}&poolId={pool_id}", recorded.position)
            assert ids(listed) == ([made] if status == shown["state"] else []), (n, status)
        assert ids(then(plane.acme, "/v1/reservations", recorded.position)) == [made] * (shown["state"] != "draft")
        seen.append(shown["state"])
        way = then(plane.acme, f"/v1/reservations/{made}/states", recorded.position)["items"]
        assert [step["state"] for step in way] == list(dict.fromkeys(seen))
        assert way[-1]["since"] <= recorded.recorded_at
    assert list(dict.fromkeys(seen)) == ["draft", "placed", "cancelled"]


def test_another_tenant_sees_nothing_of_it_at_any_time(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id).json()["id"]
    position = plane.settle()
    for path in (f"/v1/reservations/{made}", f"/v1/nodes/{node_id}", f"/v1/pools/{pool_id}"):
        assert plane.globex.get(f"{path}?asOf=@{position}").status_code == 404
    for path in ("/v1/reservations", "/v1/nodes", "/v1/pools", "/v1/devices", "/v1/sites", "/v1/join-tokens"):
        assert then(plane.globex, path, position)["items"] == []
        assert plane.globex.get(f"{path}?asOf=@{position}&scope=fleet").status_code == 403
        assert then(plane.auditor, f"{path}?scope=fleet", position)["items"] != []


def test_a_node_is_listed_by_what_it_was(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    free = plane.settle()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    cordoned = plane.settle()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/uncordon", {})
    again = plane.settle()
    for position, schedulable in ((free, True), (cordoned, False), (again, True)):
        for asked in (True, False):
            path = f"/v1/nodes?poolId={pool_id}&schedulable={json.dumps(asked)}"
            assert ids(then(plane.root, path, position)) == ([node_id] if asked is schedulable else [])
        shown = then(plane.root, f"/v1/nodes/{node_id}", position)
        assert (shown["schedulable"], shown["cordoned"]) == (schedulable, None if schedulable else "fan")


def test_a_pool_is_seen_by_whom_it_is_offered_to_today_as_it_was_then(plane: Plane) -> None:
    site_id = plane.site()
    before = plane.settle()
    pool_id = plane.pool(site_id, policy={"cleaningSeconds": 7})
    alone = plane.settle()
    plane.offer(pool_id)
    offered = plane.settle()
    assert ids(then(plane.acme, "/v1/pools", before)) == []
    assert plane.acme.get(f"/v1/pools/{pool_id}?asOf=@{before}").status_code == 404
    (seen,) = then(plane.acme, "/v1/pools", alone)["items"]
    assert seen == then(plane.acme, f"/v1/pools/{pool_id}", alone)
    assert then(plane.root, "/v1/pools", alone)["items"][0]["policy"]["cleaningSeconds"] == 7
    assert seen["policy"]["cleaningSeconds"] != 7, "the policy is the owner's"
    assert then(plane.acme, f"/v1/pools/{pool_id}/offers", alone)["items"] == []
    assert len(then(plane.acme, f"/v1/pools/{pool_id}/offers", offered)["items"]) == 1
    plane.root.ok("DELETE", f"/v1/pools/{pool_id}/offers/acme")
    plane.root.ok("DELETE", f"/v1/pools/{pool_id}")
    retired = plane.settle()
    assert then(plane.acme, "/v1/pools", offered)["items"] == []
    assert len(then(plane.root, f"/v1/pools/{pool_id}/offers", offered)["items"]) == 1
    assert then(plane.root, f"/v1/pools/{pool_id}/offers", retired)["items"] == []
    for position, was in ((offered, False), (retired, True)):
        assert ids(then(plane.root, f"/v1/pools?retired={json.dumps(was)}", position)) == [pool_id]
        assert ids(then(plane.root, f"/v1/pools?retired={json.dumps(not was)}", position)) == []


def is_devices(event: object) -> bool:
    return isinstance(event, node.DevicesChanged)


def test_a_device_that_is_gone_was_there(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    found = document(gpus=2, index=900)
    node_id = plane.node(site_id, pool_id, found=found)
    other = plane.node(site_id, pool_id, "n2", gpus=1)
    whole = plane.settle()
    less = copy.deepcopy(found)
    gone = less["gpus"].pop()["uuid"]
    session = plane.store.load(node_id).state.session
    agents.report_inventory(plane.store, node_id, session, msgspec.convert(less, inventory.NodeInventory))
    plane.settle()
    (after,) = (r.position for r in plane.store.history(node_id) if r.position > whole and is_devices(r.event))
    cards = f"/v1/devices?nodeId={node_id}&class=gpu"
    assert {row["id"] for row in then(plane.root, cards, whole)["items"]} > {
        row["id"] for row in then(plane.root, cards, after)["items"]
    }
    assert gone in json.dumps(then(plane.root, cards, after - 1))
    assert gone not in json.dumps(then(plane.root, cards, after))
    assert len(then(plane.root, f"/v1/nodes/{node_id}/devices", whole)["items"]) == 3
    assert gone in json.dumps(then(plane.root, f"/v1/nodes/{node_id}/inventory", whole))
    assert gone not in json.dumps(then(plane.root, f"/v1/nodes/{node_id}/inventory", after))
    listed = then(plane.root, "/v1/devices?bookable=true", whole)["items"]
    assert [row["nodeId"] for row in listed] == sorted([node_id, node_id, other])


def test_a_site_was_served_while_its_agent_was_connected(plane: Plane) -> None:
    site_id = plane.site()
    node_id = plane.join(site_id, "agent", document(gpus=0, index=950), role="site")
    plane.root.ok("POST", f"/v1/nodes/{node_id}/adopt", {})
    before = plane.settle()
    plane.connect(node_id)
    served = plane.settle()
    state = plane.store.load(node_id).state
    agents.end_session(plane.store, node_id, state.session, "unreachable")
    after = plane.settle()
    for position, was in ((before, False), (served, True), (after, False)):
        assert then(plane.root, f"/v1/sites/{site_id}", position)["served"] is was
        (listed,) = then(plane.root, "/v1/sites", position)["items"]
        assert listed["served"] is was


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_walk_of_pages_is_by_id_and_of_one_moment(plane: Plane, order: str) -> None:
    pool_id, _ = plane.fleet(quota=99)
    start = plane.store.now() + LATER_MS
    made = [plane.acme.reserve(pool_id, startsAt=start).json()["id"] for _ in range(5)]
    plane.acme.ok("POST", f"/v1/reservations/{made[0]}/cancel", {})
    position = plane.settle()
    path, seen, cursor = f"/v1/reservations?limit=1&order={order}&state=placed", [], ""
    while cursor is not None:
        page = then(plane.acme, f"{path}{cursor}", position)
        assert len(page["items"]) <= 1
        seen += ids(page)
        following, cursor = cursor, f"&cursor={page['nextCursor']}" if "nextCursor" in page else None
        plane.acme.reserve(pool_id, startsAt=start)
        plane.acme.ok("POST", f"/v1/reservations/{made[len(seen) % 5]}/cancel", {})
        plane.settle()
    assert seen == sorted(made[1:], reverse=order == "desc")
    mixed = plane.acme.get(f"{path}{following}&asOf=@{position + 1}")
    assert (mixed.status_code, mixed.json()["errors"][0]["field"]) == (422, "cursor")
    assert f"as of @{position + 1}" in mixed.json()["detail"]


def test_a_plain_user_sees_of_the_past_what_it_may_get_today(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=99)
    start = plane.store.now() + LATER_MS
    mine = plane.acme_user.reserve(pool_id, startsAt=start).json()["id"]
    others = plane.acme.reserve(pool_id, startsAt=start).json()["id"]
    position = plane.settle()
    assert ids(then(plane.acme_user, "/v1/reservations", position)) == [mine]
    assert ids(then(plane.acme, "/v1/reservations", position)) == sorted([mine, others])
    assert plane.acme_user.get(f"/v1/reservations/{others}?asOf=@{position}").status_code == 403


def test_an_instant_is_the_last_position_not_later(plane: Plane) -> None:
    site_id = plane.site()
    time.sleep(0.002)
    plane.root.ok("PATCH", f"/v1/sites/{site_id}", {"name": "south"})
    plane.settle()
    created, renamed = plane.store.history(site_id)
    for instant, name in ((created.recorded_at, "north"), (renamed.recorded_at, "south")):
        answer = plane.root.get(f"/v1/sites/{site_id}?asOf={instant}")
        assert answer.json()["name"] == name
        (position,) = plane.rows("SELECT max(position) FROM log_time WHERE t <= %s", instant)[0]
        assert answer.headers["x-position"] == str(position)
    made = plane.site("fresh")
    now = plane.store.now()
    listed = plane.root.get(f"/v1/sites?asOf={now}")
    assert made in ids(listed.json()), "it is in the log before the request, whatever the lists have read"


def test_before_the_log_there_was_nothing(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    for asked in ("@0", "0", "1000"):
        for path in ("/v1/sites", "/v1/pools", "/v1/nodes", "/v1/devices", f"/v1/pools/{pool_id}/offers"):
            answer = plane.root.get(f"{path}?asOf={asked}")
            assert (answer.status_code, answer.json()["items"], answer.headers["x-position"]) == (200, [], "0")
        for path in (f"/v1/pools/{pool_id}", f"/v1/nodes/{node_id}/inventory"):
            answer = plane.root.get(f"{path}?asOf={asked}")
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
            assert "as of @0" in answer.json()["detail"]


@pytest.mark.parametrize(
    "asked", ["", "@", "now", "-1", "@-1", "1e3", "12.5", "@1@", "2026-01-01T00:00:00Z", "9" * 19, "12%0A", "%201", "١"]
)
def test_what_is_neither_instant_nor_position_is_refused(plane: Plane, asked: str) -> None:
    for path in ("/v1/sites", f"/v1/sites/{plane.site()}"):
        answer = plane.root.get(f"{path}?asOf={asked}")
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID"), answer.text
        assert answer.json()["errors"][0]["field"] == "asOf"


def test_what_is_not_yet_is_refused_and_told_where_the_log_is(plane: Plane) -> None:
    site_id = plane.site()
    head, now = plane.settle(), plane.store.now()
    for path in ("/v1/sites", f"/v1/sites/{site_id}"):
        beyond = plane.root.get(f"{path}?asOf=@{head + 1000}").json()
        assert (beyond["code"], beyond["errors"][0]["field"]) == ("INVALID", "asOf")
        assert f"ends at @{head}" in beyond["detail"]
        future = plane.root.get(f"{path}?asOf={now + 60_000}").json()
        assert (future["code"], future["errors"][0]["field"]) == ("INVALID", "asOf")
        said = epoch_ms(future["detail"].rpartition(" ")[2])
        assert said is not None, "an instant as people read it"
        assert now <= said <= plane.store.now()


def test_what_the_lists_have_not_read_is_waited_for_but_not_for_ever(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "WAIT_S", 0.05)
    early = plane.site("early")
    time.sleep(0.002)
    settled = plane.store.history(early)[0]
    plane.site("then")
    plane.settle()
    plane.wired.worker.stop()
    plane.wired.follower.stop()
    late = plane.site("late")
    head = plane.head()
    for asked in (f"@{head}", str(plane.store.now())):
        for path in ("/v1/sites", f"/v1/sites/{late}"):
            answer = plane.root.get(f"{path}?asOf={asked}")
            assert (answer.status_code, answer.json()["code"]) == (503, "PROJECTION_BEHIND")
    for asked in (f"@{settled.position}", str(settled.recorded_at)):
        assert ids(plane.root.ok("GET", f"/v1/sites?asOf={asked}")) == [early], "the past is settled"


def test_a_cursor_of_the_past_is_none_of_the_present(plane: Plane) -> None:
    """Whoever forgets asOf on the second page would go on among other rows."""
    for name in "ab":
        plane.site(name)
    position = plane.settle()
    cursor = then(plane.root, "/v1/sites?scope=fleet&limit=1", position)["nextCursor"]
    for wrong in (f"cursor={cursor}", f"cursor={cursor}x&asOf=@{position}"):
        answer = plane.root.get(f"/v1/sites?scope=fleet&limit=1&{wrong}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor")


@pytest.mark.parametrize("as_of", [False, True])
def test_a_list_read_while_its_table_is_made_anew_lacks_nothing(plane: Plane, as_of: bool) -> None:
    """A snapshot older than the swap would find the new table and none of its rows."""
    plane.site("here")
    position = plane.settle()
    dsn = plane.wired.reads.conninfo
    (sites,) = (of for of in table.ASYNC if of.name == "sites")
    path = f"/v1/sites?scope=fleet{f'&asOf=@{position}' if as_of else ''}"
    stop = Event()

    def rebuilding() -> None:
        while not stop.is_set():
            rebuild.rebuild(dsn, sites)

    thread = Thread(target=rebuilding)
    thread.start()
    try:
        found = [len(plane.root.ok("GET", path)["items"]) for _ in range(150)]
    finally:
        stop.set()
        thread.join()
    assert set(found) == {1}
