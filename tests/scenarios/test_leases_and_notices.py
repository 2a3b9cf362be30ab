"""Allocation leases that are to be renewed, and the notice that is given before an end."""

import pytest

from domain import reservation
from domain.event import Fence
from given import Plane
from passing import HOUR, MINUTE, activate, pass_time, take_over


@pytest.fixture
def fence(plane: Plane) -> Fence:
    return take_over(plane)


def test_a_lease_that_is_not_renewed_lapses_and_the_reservation_is_released(plane: Plane, fence: Fence) -> None:
    pool_id, (node_id,) = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, leaseSeconds=60, durationSeconds=7200).json()
    assert (made["leaseSeconds"], made["leaseUntil"]) == (60, None), "it runs from active on"
    shown = activate(plane, made, fence)
    activated = next(e for e in plane.events(made["id"]) if isinstance(e, reservation.Activated))
    assert shown["leaseUntil"] == activated.at + MINUTE
    assert pass_time(plane, made, 50_000, fence)["state"] == "active"
    lapsed = pass_time(plane, made, MINUTE, fence)
    assert (lapsed["state"], lapsed["stateReason"]) == ("releasing", "LeaseLapsed")
    renewed = plane.acme.post(f"/v1/reservations/{made['id']}/renew")
    assert (renewed.status_code, renewed.json()["code"]) == (409, "ILLEGAL_TRANSITION"), "it comes after the lapse"
    plane.report(node_id)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["state"] == "released"


def test_a_renewal_begins_a_whole_period_anew(plane: Plane, fence: Fence) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, leaseSeconds=60, durationSeconds=7200).json()
    before = activate(plane, made, fence)["leaseUntil"]
    renewed = plane.acme.ok("POST", f"/v1/reservations/{made['id']}/renew", {})
    assert renewed["leaseUntil"] > before
    assert renewed["leaseUntil"] == plane.events(made["id"])[-1].at + MINUTE
    assert pass_time(plane, made, 59_000, fence)["state"] == "active"


def test_after_an_outage_of_the_controller_nobody_lapses_before_a_whole_period(plane: Plane, fence: Fence) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, leaseSeconds=60, durationSeconds=86_400).json()
    activate(plane, made, fence)
    back_at = plane.store.now() + HOUR
    assert pass_time(plane, made, HOUR + 50_000, fence, back_at)["state"] == "active"
    assert pass_time(plane, made, HOUR + MINUTE, fence, back_at)["stateReason"] == "LeaseLapsed"


def test_only_a_lease_can_be_renewed_and_only_while_it_is_active(plane: Plane, fence: Fence) -> None:
    pool_id, _ = plane.fleet(gpus=2)
    made = plane.acme.reserve(pool_id).json()
    early = plane.acme.post(f"/v1/reservations/{made['id']}/renew").json()
    assert (early["code"], early["state"]) == ("ILLEGAL_TRANSITION", "placed")
    activate(plane, made, fence)
    refused = plane.acme.post(f"/v1/reservations/{made['id']}/renew").json()
    assert refused["code"] == "CONFLICT"
    assert "leaseSeconds" in refused["detail"]
    for seconds in (29, 86_401):
        answer = plane.acme.reserve(pool_id, leaseSeconds=seconds)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "leaseSeconds")


def test_an_end_is_told_an_hour_before(plane: Plane, fence: Fence) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, durationSeconds=7200).json()
    assert activate(plane, made, fence)["endingAt"] is None
    assert pass_time(plane, made, 59 * MINUTE, fence)["endingAt"] is None
    told = pass_time(plane, made, HOUR, fence)
    assert (told["endingAt"], told["endingReason"], told["state"]) == (made["endsAt"], "Ended", "active")
    assert pass_time(plane, made, HOUR + MINUTE, fence)["version"] == told["version"], "it is told once"


def test_one_that_is_shorter_is_told_when_it_is_active(plane: Plane, fence: Fence) -> None:
    pool_id, _ = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id, durationSeconds=600).json()
    assert activate(plane, made, fence)["endingAt"] == made["endsAt"]
    activated, ending = plane.store.history(made["id"])[-2:]
    assert isinstance(activated.event, reservation.Activated)
    assert isinstance(ending.event, reservation.Ending)
    assert activated.part.append == ending.part.append, "in one append"
