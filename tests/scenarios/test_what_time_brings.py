"""What time alone brings about, with the clock of a store that is ahead."""

import pytest

from domain.event import Fence
from given import Plane
from passing import HOUR, pass_time, take_over


@pytest.fixture
def fence(plane: Plane) -> Fence:
    return take_over(plane)


def test_it_ends_when_its_time_is_over_and_its_atoms_when_they_are_torn_down(plane: Plane, fence: Fence) -> None:
    pool_id, (node_id,) = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, durationSeconds=60).json()
    assert pass_time(plane, made, 0, fence)["state"] == "binding"
    plane.report(node_id)
    assert pass_time(plane, made, 59_000, fence)["state"] == "active", "not a second early"
    ended = pass_time(plane, made, 60_000, fence)
    assert (ended["state"], ended["stateReason"]) == ("releasing", "Ended")
    assert pass_time(plane, made, 61_000, fence)["version"] == ended["version"]
    assert plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})["version"] == ended["version"]
    assert plane.rows("SELECT upper_inf(during) FROM device_bookings") == [(True,)]
    assert plane.rows("SELECT DISTINCT upper_inf(during) FROM quota_claims") == [(True,)], (
        "quota is held until torn down"
    )
    plane.report(node_id)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] == "released"
    assert plane.rows("SELECT 1 FROM quota_claims") == []


def test_nodes_that_do_not_prepare_in_time_fail_it_and_keep_the_atoms(plane: Plane, fence: Fence) -> None:
    pool_id, (node_id,) = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id).json()
    pass_time(plane, made, 0, fence)
    failed = pass_time(plane, made, 300_000, fence)
    assert (failed["state"], failed["stateReason"]) == ("failed", "BindTimeout")
    assert plane.rows("SELECT 1 FROM quota_claims") == [], "failing ends quota at once"
    assert plane.acme.reserve(pool_id, maxPendingSeconds=0).json()["code"] == "DOUBLE_BOOKED"
    plane.report(node_id)
    assert plane.acme.reserve(pool_id, maxPendingSeconds=0).status_code == 201


def test_a_window_that_passed_unused_expires_and_leaves_no_booking(plane: Plane, fence: Fence) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, startsAt=plane.store.now() + HOUR).json()
    assert pass_time(plane, made, 0, fence)["state"] == "placed"
    expired = pass_time(plane, made, 3 * HOUR, fence)
    assert (expired["state"], expired["stateReason"]) == ("expired", "WindowPassed")
    assert plane.rows("SELECT 1 FROM device_bookings") == []
    assert plane.rows("SELECT 1 FROM quota_claims") == []


def test_a_due_end_comes_before_the_start_that_follows_it(plane: Plane, fence: Fence) -> None:
    """O02: both are due, and the later one is not lost."""
    pool_id, (node_id,) = plane.fleet(gpus=1)
    first = plane.acme.reserve(pool_id, durationSeconds=60).json()
    second = plane.acme.reserve(pool_id, durationSeconds=60, startsAt=first["endsAt"]).json()
    assert (first["state"], second["state"]) == ("placed", "placed")
    pass_time(plane, first, 0, fence)
    plane.report(node_id)
    plane.settle()
    due = plane.rows("SELECT id FROM reservations ORDER BY due_at, due_rank, id")
    assert due[0] == (first["id"],)
    assert pass_time(plane, first, 60_000, fence)["state"] == "releasing"
    assert pass_time(plane, second, 60_000, fence)["state"] == "binding"
    plane.report(node_id)
    assert plane.acme.ok("GET", f"/v1/reservations/{first['id']}")["state"] == "released"
    plane.report(node_id)
    assert plane.acme.ok("GET", f"/v1/reservations/{second['id']}")["state"] == "active"
