"""The queue of a pool: who waits is told why and until when, and nobody behind delays that."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from adapters.postgres.leases import Lease
from commands.controllers import scheduler
from commands.ports import Race
from domain import reservation
from domain.event import Append, Change
from facts import META
from given import DEADLINE_S, Plane

HOUR = 3_600_000


def shown(plane: Plane, made: Any) -> Any:
    return plane.acme.ok("GET", f"/v1/reservations/{made['id']}")


def until_told(plane: Plane, made: Any) -> Any:
    """What is shown of a waiting claim once the scheduler has looked at it."""
    deadline = time.monotonic() + DEADLINE_S
    while plane.store.load(made["id"]).state.waits is None:
        assert time.monotonic() < deadline, "it is told nothing"
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.02)
    return shown(plane, made)


def names(plane: Plane, made: Any) -> list[str]:
    return [type(event).__name__ for event in plane.events(made["id"])]


@contextmanager
def by_hand(plane: Plane) -> Iterator[Lease]:
    """The scheduler stands still, and the test walks."""
    plane.wired.worker.stop()
    lease = Lease(plane.wired.reads, "singleton:reservations", "test")
    assert lease.tick()
    yield lease


def walk(plane: Plane, pool_id: str, lease: Lease) -> None:
    assert lease.fence is not None
    plane.settle()
    order = "SELECT reservation_id FROM pool_queue ORDER BY spot, priority DESC, since, reservation_id"
    for _, step in scheduler.walk(plane.wired.ports, pool_id, [id for (id,) in plane.rows(order)], lease.fence):
        step()
    plane.settle()


def soon(plane: Plane) -> int:
    """An instant before which what is booked is not bound, so that a cancel gives it back at once."""
    return plane.store.now() + 100_000


def gang_that_waits(plane: Plane) -> tuple[str, Any, Any]:
    """Of two nodes one is taken for an hour, and a gang waits for both."""
    pool_id, _ = plane.fleet(nodes=2, gpus=1, quota=99)
    running = plane.acme.reserve(pool_id).json()
    gang = plane.acme.reserve(pool_id, nodes=2).json()
    assert gang["state"] == "pending"
    return pool_id, running, gang


def test_a_gang_is_told_when_it_begins_and_only_what_ends_before_that_goes_past_it(plane: Plane) -> None:
    pool_id, running, gang = gang_that_waits(plane)
    told = until_told(plane, gang)
    assert (told["queuePosition"], told["stateReason"]) == (1, "NoCapacity")
    assert told["stateDetail"] == "2 nodes asked, 1 fit: 1 node with 0 free"
    assert told["earliestStart"] == running["endsAt"]
    longer = plane.acme.reserve(pool_id, durationSeconds=7200).json()
    assert (longer["state"], longer["stateReason"]) == ("pending", "QueueAhead")
    assert longer["earliestStart"] == running["endsAt"] + HOUR, "after the gang"
    second = until_told(plane, longer)
    assert (second["queuePosition"], second["stateReason"]) == (2, "QueueAhead")
    short = plane.acme.reserve(pool_id, durationSeconds=600).json()
    assert short["state"] == "placed", "decided at once, though others are ahead"
    assert names(plane, short) == ["Drafted", "Admitted", "Queued", "Placed", "Backfilled"]
    (passed,) = [event for event in plane.events(short["id"]) if isinstance(event, reservation.Backfilled)]
    assert passed.ahead == 2
    assert shown(plane, short)["queuePosition"] is None
    assert shown(plane, gang)["earliestStart"] == running["endsAt"]


def test_the_etag_of_what_waits_changes_with_its_place_and_still_names_the_version(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=1, gpus=1, quota=99)
    with by_hand(plane):
        plane.acme.reserve(pool_id)
        first, second = (plane.acme.reserve(pool_id).json() for _ in range(2))
        path = f"/v1/reservations/{second['id']}"
        before = plane.acme.get(path)
        etag = before.headers["etag"]
        assert plane.acme.get(path, If_None_Match=etag).status_code == 304
        plane.acme.ok("POST", f"/v1/reservations/{first['id']}/cancel", {})
        after = plane.acme.get(path, If_None_Match=etag)
        assert after.status_code == 200, "its place is another, whatever its version"
        assert (before.json()["queuePosition"], after.json()["queuePosition"]) == (2, 1)
        assert plane.acme.call("POST", f"{path}/cancel", {}, If_Match='"99"').status_code == 412
        current = plane.acme.get(path).headers["etag"]
        assert plane.acme.call("POST", f"{path}/cancel", {}, If_Match=current).status_code == 200


def test_in_a_full_pool_the_create_itself_promises_a_start_after_those_ahead(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=1, gpus=1, quota=99)
    running = plane.acme.reserve(pool_id).json()
    with by_hand(plane):
        first = plane.acme.reserve(pool_id).json()
        assert first["earliestStart"] == running["endsAt"]
        second = plane.acme.reserve(pool_id).json()
        assert (second["state"], second["stateReason"]) == ("pending", "NoCapacity")
        assert second["earliestStart"] == running["endsAt"] + HOUR


def test_what_was_promised_to_one_that_is_called_off_is_shown_no_more(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=1, gpus=1, quota=99)
    plane.acme.reserve(pool_id)
    waiting = plane.acme.reserve(pool_id).json()
    told = until_told(plane, waiting)
    assert told["earliestStart"] is not None
    assert told["stateDetail"] is not None
    gone = plane.acme.ok("POST", f"/v1/reservations/{waiting['id']}/cancel", {})
    assert (gone["state"], gone["earliestStart"], gone["stateDetail"]) == ("cancelled", None, None)


def test_the_sum_fits_and_no_node_does(plane: Plane) -> None:
    """O20: nothing is booked, and what fits node by node is placed."""
    pool_id, _ = plane.fleet(nodes=2, gpus=3, quota=99)
    four = plane.acme.reserve(pool_id, nodes=2, devices=[{"class": "gpu", "count": 4}]).json()
    assert until_told(plane, four)["stateDetail"] == "no node fits: 2 nodes with 3 free"
    assert plane.rows("SELECT 1 FROM device_bookings") == []
    three = plane.acme.reserve(pool_id, nodes=2, devices=[{"class": "gpu", "count": 3}]).json()
    assert three["state"] == "placed"


def test_of_twenty_at_once_for_one_device_one_gets_it_and_the_others_stand_in_line(plane: Plane) -> None:
    """O08: one row of bookings, and every other has a place of its own in the queue."""
    pool_id, _ = plane.fleet(gpus=1, quota=99)
    with ThreadPoolExecutor(20) as threads:
        made = list(threads.map(lambda n: plane.acme.reserve(pool_id, f"rival-{n}").json(), range(20)))
    while plane.rows("SELECT count(*)::int FROM pool_queue") != [(19,)]:
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.02)
    assert plane.rows("SELECT count(*)::int FROM device_bookings") == [(1,)]
    places = [place for each in made if (place := shown(plane, each)["queuePosition"])]
    assert sorted(places) == list(range(1, 20))


def test_who_waits_is_not_told_the_same_again(plane: Plane) -> None:
    pool_id, _, gang = gang_that_waits(plane)
    until_told(plane, gang)
    with by_hand(plane) as lease:
        for _ in range(3):
            made = plane.acme.reserve(pool_id, durationSeconds=600).json()
            walk(plane, pool_id, lease)
            plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
            walk(plane, pool_id, lease)
    assert names(plane, gang) == ["Drafted", "Admitted", "Queued", "Waits"]


def test_the_walk_records_whom_it_places_past_others(plane: Plane) -> None:
    """O19: within a pool, overtaking is explicit."""
    pool_id, _, gang = gang_that_waits(plane)
    until_told(plane, gang)
    taken = plane.acme.reserve(pool_id, durationSeconds=600, startsAt=soon(plane)).json()
    short = plane.acme.reserve(pool_id, durationSeconds=600).json()
    assert (taken["state"], short["state"]) == ("placed", "pending")
    plane.acme.ok("POST", f"/v1/reservations/{taken['id']}/cancel", {})
    plane.until(plane.acme, short["id"], "placed", "binding")
    (passed,) = [event for event in plane.events(short["id"]) if isinstance(event, reservation.Backfilled)]
    assert passed.ahead == 1
    assert shown(plane, gang)["state"] == "pending"


def test_one_that_can_never_fit_is_in_nobodys_way(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1, quota=99)
    never = plane.acme.reserve(pool_id, nodes=2).json()
    told = until_told(plane, never)
    assert (told["earliestStart"], told["stateDetail"]) == (None, "2 nodes asked, 1 fit")
    assert plane.acme.reserve(pool_id, durationSeconds=86_400).json()["state"] == "placed"


@pytest.mark.parametrize("gone", ["cancelled", "expired", "suspended"])
def test_who_gave_up_or_was_given_up_between_the_look_and_the_deed_gets_nothing(plane: Plane, gone: str) -> None:
    pool_id, _ = plane.fleet(gpus=1, quota=99)
    running = plane.acme.reserve(pool_id, startsAt=soon(plane)).json()
    waiting = plane.acme.reserve(pool_id, maxPendingSeconds=60).json()
    with by_hand(plane) as lease:
        assert lease.fence is not None
        plane.acme.ok("POST", f"/v1/reservations/{running['id']}/cancel", {})
        plane.settle()
        for id, step in scheduler.walk(plane.wired.ports, pool_id, [waiting["id"]], lease.fence):
            assert id == waiting["id"]
            loaded = plane.store.load(id)
            now = plane.store.now()
            event: reservation.Events = {
                "cancelled": reservation.Cancelled("Cancelled", now),
                "expired": reservation.Expired("NoCapacity", now),
                "suspended": reservation.Failed("TenantSuspended", now, False),
            }[gone]
            plane.store.append(Append((Change(id, loaded.version, (event,)),), META))
            assert not step()
        assert plane.rows("SELECT 1 FROM device_bookings WHERE reservation_id = %s", waiting["id"]) == []
        again = plane.acme.reserve(pool_id).json()
        assert again["state"] == "placed", "what had been chosen for it was given back"


def test_who_may_wait_no_longer_is_not_placed_even_before_anybody_says_that_it_expired(plane: Plane) -> None:
    pool_id, _ = plane.fleet(gpus=1, quota=99)
    running = plane.acme.reserve(pool_id, startsAt=soon(plane)).json()
    with by_hand(plane) as lease:
        waiting = plane.acme.reserve(pool_id, maxPendingSeconds=1).json()
        give_up_at = plane.store.load(waiting["id"]).state.give_up_at
        plane.acme.ok("POST", f"/v1/reservations/{running['id']}/cancel", {})
        while plane.store.now() <= give_up_at:
            plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
        walk(plane, pool_id, lease)
        assert plane.store.load(waiting["id"]).state.status == "pending"


def test_a_decision_on_a_queue_that_moved_is_taken_again(plane: Plane) -> None:
    """Two processes: what the one decided to place past those ahead is void once another came ahead."""
    pool_id, _, gang = gang_that_waits(plane)
    until_told(plane, gang)
    version = plane.store.queue(pool_id, (False, 0, 2**60), 9).version
    plane.acme.reserve(pool_id, durationSeconds=7200)
    stale = reservation.Backfilled(pool_id, 1, 1, version)
    loaded = plane.store.load(gang["id"])
    with pytest.raises(Race):
        plane.store.append(Append((Change(gang["id"], loaded.version, (stale,)),), META))
