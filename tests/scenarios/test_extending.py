"""A reservation's end moves on the devices that it has, or the reservation stays as it was (domain.md §5, Extend)."""

from typing import Any

import pytest

from domain import reservation
from domain.event import Fence
from facts import differences
from given import Client, Plane
from passing import HOUR, activate, pass_time, take_over

BOUNDARY = """
[boundaries.two-hours]
version = 1
[[boundaries.two-hours.statements]]
effect = "allow"
actions = ["*"]
resources = ["*"]
[[boundaries.two-hours.statements]]
effect = "deny"
actions = ["*"]
resources = ["*"]
conditions = { NumericGreaterThan = { "resource.durationHours" = 2 } }
"""


@pytest.fixture
def fence(plane: Plane) -> Fence:
    return take_over(plane)


def extend(client: Client, made: Any, ends_at: int, key: str = "more", **headers: str) -> Any:
    path = f"/v1/reservations/{made['id']}/extend"
    return client.post(path, {"endsAt": ends_at}, Idempotency_Key=key, **headers)


def bookings(plane: Plane, made: Any) -> list[tuple[int, int]]:
    sql = "SELECT DISTINCT lower(during), upper(during) FROM device_bookings WHERE reservation_id = %s"
    return plane.rows(sql, made["id"])


def test_what_is_extended_is_active_until_its_new_end_with_one_booking_and_one_claim(
    plane: Plane, fence: Fence, database: str
) -> None:
    """O05."""
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id).json()
    activate(plane, made, fence)
    later = made["endsAt"] + HOUR
    answer = extend(plane.acme, made, later)
    assert (answer.status_code, answer.json()["endsAt"], answer.json()["state"]) == (200, later, "active")
    assert bookings(plane, made) == [(made["startsAt"], later)]
    claims = "SELECT DISTINCT amount::int, lower(during), upper(during) FROM quota_claims"
    assert plane.rows(claims) == [(1, made["startsAt"], later)]
    assert pass_time(plane, made, HOUR, fence)["state"] == "active"
    assert pass_time(plane, made, 2 * HOUR, fence)["state"] == "releasing"
    plane.settle()
    (kept,) = plane.acme.ok("GET", f"/v1/extensions?reservationId={made['id']}")["items"]
    assert (kept["state"], kept["formerEndsAt"], kept["endsAt"]) == ("applied", made["endsAt"], later)
    assert kept["durationHours"] == 2.0
    assert differences(database) == []


def test_the_same_key_answers_the_same_again_and_another_body_is_refused(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    first = extend(plane.acme, made, made["endsAt"] + HOUR)
    again = extend(plane.acme, made, made["endsAt"] + HOUR)
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    other = extend(plane.acme, made, made["endsAt"] + 2 * HOUR)
    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    as_it_is = extend(plane.acme, made, made["endsAt"] + HOUR, "another")
    assert as_it_is.json()["version"] == first.json()["version"], "asking for what is changes nothing"
    path = f"/v1/reservations/{made['id']}/extend"
    assert plane.acme.post(path, {"endsAt": made["endsAt"]}).json()["errors"][0]["field"] == "Idempotency-Key"


def test_a_key_that_changed_nothing_changes_nothing_later_either(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    same = extend(plane.acme, made, made["endsAt"], "same")
    assert (same.status_code, same.json()) == (200, made)
    assert extend(plane.acme, made, made["endsAt"] + HOUR).json()["endsAt"] == made["endsAt"] + HOUR
    again = extend(plane.acme, made, made["endsAt"], "same")
    assert (again.headers["idempotency-replayed"], again.json()) == ("true", made)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["endsAt"] == made["endsAt"] + HOUR


def test_a_running_tenant_is_never_moved_to_another_device(plane: Plane, fence: Fence) -> None:
    """O06: the second GPU is free; the one that it has is booked."""
    pool_id, _ = plane.fleet(gpus=2)
    made = plane.acme.reserve(pool_id).json()
    before = activate(plane, made, fence)
    atom = before["allocations"][0]["atoms"][0]
    rows = [plane.acme.reserve(pool_id, startsAt=made["endsAt"]).json() for _ in range(2)]
    others = [one for one in rows if one["allocations"][0]["atoms"] == [atom]]
    assert len(others) == 1
    spare = next(one for one in rows if one not in others)
    plane.acme.ok("POST", f"/v1/reservations/{spare['id']}/cancel", {})
    refused = extend(plane.acme, made, made["endsAt"] + HOUR)
    assert (refused.status_code, refused.json()["code"]) == (409, "DOUBLE_BOOKED")
    assert others[0]["id"] in refused.json()["detail"], "it names who is in the way"
    shown = plane.acme.ok("GET", f"/v1/reservations/{made['id']}")
    assert shown == before, "nothing of it changed"
    plane.acme.ok("POST", f"/v1/reservations/{others[0]['id']}/cancel", {})
    again = extend(plane.acme, made, made["endsAt"] + HOUR)
    assert {**again.json(), "requestId": ""} == {**refused.json(), "requestId": ""}, "the same key, the same no"
    assert again.headers["idempotency-replayed"] == "true"
    allowed = extend(plane.acme, made, made["endsAt"] + HOUR, "anew").json()
    assert allowed["allocations"] == before["allocations"]
    plane.settle()
    kept = plane.acme.ok("GET", f"/v1/extensions?reservationId={made['id']}")["items"]
    assert [one["state"] for one in kept] == ["denied", "applied"]


def test_who_is_in_the_way_is_named_to_those_who_may_see_it(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    plane.offer(pool_id, "globex")
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    other = plane.globex.reserve(pool_id, startsAt=made["endsAt"]).json()
    detail = extend(plane.acme, made, made["endsAt"] + 1).json()["detail"]
    assert f"busy from {made['endsAt']}" in detail
    assert other["id"] not in detail


def test_a_gang_is_not_in_its_own_way(plane: Plane, fence: Fence) -> None:
    """O07."""
    pool_id, _ = plane.fleet(nodes=2, gpus=1)
    made = plane.acme.reserve(pool_id, nodes=2).json()
    before = activate(plane, made, fence)
    longer = extend(plane.acme, made, made["endsAt"] + HOUR).json()
    assert longer["allocations"] == before["allocations"]
    assert bookings(plane, made) == [(made["startsAt"], made["endsAt"] + HOUR)]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"endsAt": -1}, 422),
        ({"endsAt": 0}, 422),
        ({"endsAt": 2**53}, 422),
        ({"endsAt": "tomorrow"}, 422),
        ({"endsAt": None}, 422),
        ({}, 422),
        ({"endsAt": 4_000_000_000_000, "unknown": 1}, 422),
    ],
)
def test_a_bad_update_leaves_a_good_reservation_as_it_was(plane: Plane, body: Any, status: int) -> None:
    """O10."""
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    before = plane.acme.ok("GET", f"/v1/reservations/{made['id']}")
    answer = plane.acme.post(f"/v1/reservations/{made['id']}/extend", body, Idempotency_Key="bad")
    assert answer.status_code == status, answer.text
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}") == before


def test_the_total_is_bounded_and_the_end_lies_behind_the_start(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    year = made["startsAt"] + 366 * 24 * HOUR
    for ends_at in (year + 1, made["startsAt"], plane.store.now() - 1):
        answer = extend(plane.acme, made, ends_at)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "endsAt")
    assert extend(plane.acme, made, year).json()["endsAt"] == year


def test_shortening_gives_room_and_quota_back_at_once(plane: Plane, database: str) -> None:
    pool_id, _ = plane.fleet(gpus=1, quota=1)
    start = plane.store.now() + HOUR
    made = plane.acme.reserve(pool_id, startsAt=start, durationSeconds=7200).json()
    assert plane.acme.reserve(pool_id, startsAt=start + HOUR).json()["code"] == "QUOTA_EXCEEDED"
    shorter = extend(plane.acme, made, start + HOUR).json()
    assert shorter["endsAt"] == start + HOUR
    assert plane.acme.reserve(pool_id, startsAt=start + HOUR).json()["state"] == "placed"
    plane.settle()
    assert differences(database) == []


def test_beyond_the_quota_nothing_changes(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=2, gpus=1, quota=1)
    start = plane.store.now() + HOUR
    made = plane.acme.reserve(pool_id, startsAt=start).json()
    elsewhere = {"class": "gpu", "count": 1, "selector": f'node.name != "{made["allocations"][0]["nodeName"]}"'}
    assert plane.acme.reserve(pool_id, startsAt=start + 2 * HOUR, devices=[elsewhere]).json()["state"] == "placed"
    assert extend(plane.acme, made, start + 2 * HOUR, "until").json()["endsAt"] == start + 2 * HOUR
    before = plane.acme.ok("GET", f"/v1/reservations/{made['id']}")
    refused = extend(plane.acme, made, start + 2 * HOUR + 1, "over").json()
    assert (refused["code"], refused["limit"], refused["peak"]) == ("QUOTA_EXCEEDED", 1, 2)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}") == before
    plane.offer(pool_id, gpu=9)
    again = extend(plane.acme, made, start + 2 * HOUR + 1, "over").json()
    assert {**again, "requestId": ""} == {**refused, "requestId": ""}


def test_scalars_and_planned_maintenance_are_in_the_way_as_devices_are(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet(gpus=2)
    plane.root.ok("PUT", f"/v1/pools/{pool_id}/offers/acme", {"quota": {"gpu": 9, "vcpu": 999}})
    start = plane.store.now() + HOUR
    made = plane.acme.reserve(pool_id, startsAt=start, scalars={"vcpu": 90}).json()
    other = plane.acme.reserve(pool_id, startsAt=start + HOUR, scalars={"vcpu": 90}).json()
    assert (made["state"], other["state"]) == ("placed", "placed")
    refused = extend(plane.acme, made, start + HOUR + 1, "scalars").json()
    assert refused["code"] == "DOUBLE_BOOKED"
    plane.acme.ok("POST", f"/v1/reservations/{other['id']}/cancel", {})
    plan = {"on": True, "reason": "bios", "from": start + HOUR, "until": start + 2 * HOUR}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", plan)
    refused = extend(plane.acme, made, start + HOUR + 1, "plan").json()
    assert refused["code"] == "DOUBLE_BOOKED"
    assert f"busy from {start + HOUR}" in refused["detail"]


def test_a_policy_reads_the_new_total_and_a_refused_extension_is_kept(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    text = plane.access.read_text().replace("[tenants.acme]\n", '[tenants.acme]\nboundaries = ["two-hours"]\n')
    plane.access.write_text(text + BOUNDARY)
    assert plane.wired.authorizer.reload()
    before = plane.acme.ok("GET", f"/v1/reservations/{made['id']}")
    refused = extend(plane.acme, made, made["startsAt"] + 2 * HOUR + 1, "over")
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}") == before
    again = extend(plane.acme, made, made["startsAt"] + 2 * HOUR + 1, "over")
    assert {**again.json(), "requestId": ""} == {**refused.json(), "requestId": ""}
    assert extend(plane.acme, made, made["startsAt"] + 2 * HOUR, "within").status_code == 200
    story = plane.acme.ok("GET", f"/v1/audit/streams/{refused.json()['extensionId']}")
    assert [item["type"] for item in story["items"]] == ["extension.drafted.1", "extension.denied.1"]
    shown = plane.acme.ok("GET", f"/v1/extensions/{refused.json()['extensionId']}")
    assert (shown["state"], shown["stateReason"], shown["reservationId"]) == ("denied", "AccessDenied", made["id"])


def test_if_match_is_of_the_reservation(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    version = made["version"]
    stale = extend(plane.acme, made, made["endsAt"] + HOUR, If_Match=f'"{version - 1}"')
    assert (stale.status_code, stale.json()["code"]) == (412, "STALE_VERSION")
    right = extend(plane.acme, made, made["endsAt"] + HOUR, If_Match=f'"{version}"')
    assert right.headers["etag"] == f'"{version + 1}"'


def test_withdrawn_it_runs_to_its_end_and_no_longer(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    plane.root.ok("DELETE", f"/v1/pools/{pool_id}/offers/acme")
    refused = extend(plane.acme, made, made["endsAt"] + 1)
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
    assert extend(plane.acme, made, made["endsAt"] - 1, "shorter").status_code == 200


def test_only_what_has_a_place_is_extended(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    plane.acme.reserve(pool_id)
    waiting = plane.acme.reserve(pool_id).json()
    refused = extend(plane.acme, waiting, plane.store.now() + HOUR).json()
    assert (refused["code"], refused["state"], refused["allowed"]) == ("ILLEGAL_TRANSITION", "pending", ["cancel"])
    foreign = extend(plane.globex, waiting, plane.store.now() + HOUR)
    assert (foreign.status_code, foreign.json()["code"]) == (404, "NOT_FOUND")


def test_an_extension_voids_the_notice_of_the_former_end(plane: Plane, fence: Fence) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, durationSeconds=600).json()
    assert activate(plane, made, fence)["endingAt"] == made["endsAt"]
    later = made["endsAt"] + 2 * HOUR
    assert extend(plane.acme, made, later).json()["endingAt"] is None
    assert pass_time(plane, made, HOUR, fence)["endingAt"] is None
    assert pass_time(plane, made, HOUR + 601_000, fence)["endingAt"] == later
    notices = [e for e in plane.events(made["id"]) if isinstance(e, reservation.Ending)]
    assert [notice.at for notice in notices] == [made["endsAt"], later]


def test_who_may_not_see_a_reservation_does_not_see_its_extensions(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    start = plane.store.now() + HOUR
    theirs = plane.acme.reserve(pool_id, startsAt=start).json()
    own = plane.acme_user.reserve(pool_id, startsAt=start).json()
    assert extend(plane.acme, theirs, start + 2 * HOUR).status_code == 200
    assert extend(plane.acme_user, own, start + 2 * HOUR).status_code == 200
    assert extend(plane.acme_user, theirs, start + 3 * HOUR, "x").status_code == 403
    plane.settle()
    seen = {one["reservationId"] for one in plane.acme_user.ok("GET", "/v1/extensions")["items"]}
    assert seen == {own["id"]}
    assert len(plane.acme.ok("GET", "/v1/extensions")["items"]) == 3
    assert plane.globex.ok("GET", "/v1/extensions")["items"] == []


def test_the_pools_cleaning_gap_is_kept_behind_the_new_end_too(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"cleaningSeconds": 600}})
    plane.settle()
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    gap, following = 600_000, made["endsAt"] + HOUR
    assert plane.acme.reserve(pool_id, startsAt=following).json()["state"] == "placed"
    assert extend(plane.acme, made, following - gap + 1).json()["code"] == "DOUBLE_BOOKED"
    assert extend(plane.acme, made, following - gap, "near").status_code == 200
