"""Where one booking stops and another begins, and the node's word for either comes late (domain.md §5)."""

from typing import Any

import pytest

from commands import agents
from domain.event import Fence
from given import Plane
from passing import MINUTE, pass_time, take_over


@pytest.fixture
def fence(plane: Plane) -> Fence:
    return take_over(plane)


def says(plane: Plane, node_id: str, *made: Any, generation: int | None = None) -> None:
    """The node says that it has these reservations prepared, and nothing else."""
    state = plane.store.load(node_id).state
    items: Any = {one["allocations"][0]["id"]: "prepared" for one in made}
    agents.report_status(plane.store, node_id, state.session, generation or state.generation, items)


def shown(plane: Plane, made: Any) -> tuple[str, str | None]:
    answer = plane.acme.ok("GET", f"/v1/reservations/{made['id']}")
    return answer["state"], answer["stateReason"]


def test_a_node_that_reports_success_after_the_cancel_gives_it_back_all_the_same(plane: Plane, fence: Fence) -> None:
    """O11: its word is of a generation that was; it undoes what it made, and the device is free."""
    pool_id, (node_id,) = plane.fleet(gpus=1)
    made = plane.acme.reserve(pool_id).json()
    assert pass_time(plane, made, 0, fence)["state"] == "binding"
    before = plane.store.load(node_id).state.generation
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
    assert plane.store.load(node_id).state.allocations == (), "the undo is its NodeSpec"
    says(plane, node_id, made, generation=before)
    says(plane, node_id, made)
    assert shown(plane, made) == ("releasing", "Cancelled")
    says(plane, node_id)
    assert shown(plane, made) == ("released", "Cancelled")
    assert plane.acme.reserve(pool_id, maxPendingSeconds=0).status_code == 201


def test_what_starts_on_a_device_that_is_used_still_waits_in_binding(plane: Plane, fence: Fence) -> None:
    """O15."""
    pool_id, (node_id,) = plane.fleet(gpus=1)
    first = plane.acme.reserve(pool_id, durationSeconds=60).json()
    second = plane.acme.reserve(pool_id, durationSeconds=3600, startsAt=first["endsAt"]).json()
    pass_time(plane, first, 0, fence)
    says(plane, node_id, first)
    assert pass_time(plane, first, MINUTE, fence)["state"] == "releasing"
    assert pass_time(plane, second, MINUTE, fence)["stateReason"] == "AtomNotReleased"
    says(plane, node_id, first, second)
    assert shown(plane, second) == ("binding", "AtomNotReleased")
    assert pass_time(plane, second, 2 * MINUTE, fence)["state"] == "binding", "time alone proves nothing"
    says(plane, node_id, second)
    assert (shown(plane, first)[0], shown(plane, second)) == ("released", ("active", None))


def test_it_fails_when_the_one_before_is_not_torn_down_in_time_and_proves_nothing_free(
    plane: Plane, fence: Fence
) -> None:
    """O15: both hold the device until the node has neither."""
    pool_id, (node_id,) = plane.fleet(gpus=1)
    first = plane.acme.reserve(pool_id, durationSeconds=60).json()
    second = plane.acme.reserve(pool_id, durationSeconds=3600, startsAt=first["endsAt"]).json()
    pass_time(plane, first, 0, fence)
    says(plane, node_id, first)
    pass_time(plane, first, MINUTE, fence)
    pass_time(plane, second, MINUTE, fence)
    failed = pass_time(plane, second, 6 * MINUTE, fence)
    assert (failed["state"], failed["stateReason"]) == ("failed", "BindTimeout")
    says(plane, node_id, first)
    assert plane.acme.reserve(pool_id, maxPendingSeconds=0).status_code == 409
    says(plane, node_id)
    assert plane.rows("SELECT 1 FROM device_bookings WHERE NOT freed") == []


def test_nothing_new_comes_to_a_node_that_drains_or_a_pool_that_is_retired(plane: Plane) -> None:
    """O14: though every device of it is free."""
    pool_id, (node_id,) = plane.fleet()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/drain", {"reason": "old"})
    refused = plane.acme.reserve(pool_id, maxPendingSeconds=0)
    assert (refused.status_code, refused.json()["code"]) == (409, "DOUBLE_BOOKED")
    plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})
    plane.root.ok("DELETE", f"/v1/pools/{pool_id}")
    assert plane.acme.reserve(pool_id).status_code == 404, "it is offered no more"
    refused = plane.root.reserve(pool_id)
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT"), refused.text
    assert plane.rows("SELECT 1 FROM device_bookings") == []
