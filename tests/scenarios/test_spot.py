"""Spot gives way: to any claim that is not spot, with notice, and without either tenant learning of the other."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from adapters.postgres.leases import Lease
from commands.controllers import scheduler
from domain import reservation
from given import Client, Plane

HOUR = 3_600_000


def fleet(plane: Plane, nodes: int = 1, gpus: int = 1, **policy: Any) -> tuple[str, list[str]]:
    """A pool offered to both tenants."""
    site_id = plane.site()
    pool_id = plane.pool(site_id, policy=policy)
    for tenant in ("acme", "globex"):
        plane.offer(pool_id, tenant, gpu=99)
    return pool_id, [plane.node(site_id, pool_id, f"n{n}", gpus) for n in range(nodes)]


def spot(plane: Plane, pool_id: str, **fields: Any) -> Any:
    """A spot reservation of globex that is placed."""
    made = plane.globex.reserve(pool_id, spot=True, **fields).json()
    assert made["state"] in ("placed", "binding")
    plane.settle()
    return made


def shown(client: Client, made: Any) -> Any:
    return client.ok("GET", f"/v1/reservations/{made['id']}")


def names(plane: Plane, made: Any) -> list[str]:
    return [type(event).__name__ for event in plane.events(made["id"])]


def booked(plane: Plane, made: Any) -> list[Any]:
    sql = "SELECT lower(during), upper(during) FROM device_bookings WHERE reservation_id = %s ORDER BY 1, 2"
    return plane.rows(sql, made["id"])


@contextmanager
def by_hand(plane: Plane) -> Iterator[Lease]:
    """The scheduler stands still, and the test walks."""
    plane.wired.worker.stop()
    lease = Lease(plane.wired.reads, "singleton:reservations", "test")
    assert lease.tick()
    yield lease


def test_spot_that_runs_ends_after_its_notice_and_the_other_begins_there(plane: Plane) -> None:
    pool_id, _ = fleet(plane)
    running = spot(plane, pool_id)
    plane.activate(plane.globex, running["id"])
    claim = plane.acme.reserve(pool_id).json()
    assert (claim["state"], claim["endsAt"] - claim["startsAt"]) == ("placed", HOUR)
    assert 59_000 <= claim["startsAt"] - claim["createdAt"] <= 60_000
    victim = shown(plane.globex, running)
    assert (victim["state"], victim["endsAt"], victim["endingReason"]) == ("active", claim["startsAt"], "Preempted")
    assert booked(plane, running) == [(running["startsAt"], claim["startsAt"])]
    assert booked(plane, claim) == [(claim["startsAt"], claim["endsAt"])]
    held = plane.rows("SELECT upper(during) FROM quota_claims WHERE reservation_id = %s", running["id"])
    assert set(held) == {(claim["startsAt"],)}, "its quota ends with its booking"


def test_its_budget_is_given_back_from_its_new_end_on(plane: Plane) -> None:
    pool_id, _ = fleet(plane, admission={"budgetCheck": "enforce"})
    plane.root.ok("PUT", "/v1/budgets/tenant/globex", {"gpuHours": 100})
    spot(plane, pool_id, durationSeconds=36_000)
    assert plane.globex.ok("GET", "/v1/budgets/tenant/globex")["committedGpuHours"] == 10
    assert plane.acme.reserve(pool_id).json()["state"] == "placed"
    assert plane.globex.ok("GET", "/v1/budgets/tenant/globex")["committedGpuHours"] < 0.02


def test_without_notice_it_is_torn_down_first_and_ends_as_preempted(plane: Plane) -> None:
    pool_id, (node_id,) = fleet(plane, spotNoticeSeconds=0)
    running = spot(plane, pool_id)
    plane.activate(plane.globex, running["id"])
    claim = plane.acme.reserve(pool_id).json()
    assert claim["state"] in ("placed", "binding")
    plane.until(plane.globex, running["id"], "releasing")
    plane.report(node_id)
    assert plane.until(plane.globex, running["id"], "released")["stateReason"] == "Preempted"
    plane.activate(plane.acme, claim["id"])


def test_neither_tenant_learns_of_the_other(plane: Plane) -> None:
    pool_id, _ = fleet(plane)
    running = spot(plane, pool_id)
    claim = plane.acme.reserve(pool_id).json()
    plane.settle()
    for client, own, foreign, tenant in (
        (plane.acme, claim, running, "globex"),
        (plane.globex, running, claim, "acme"),
    ):
        story = client.ok("GET", f"/v1/audit/streams/{own['id']}")
        told = json.dumps([story, shown(client, own)])
        assert foreign["id"] not in told
        assert tenant not in told
    (preempted,) = [one for one in plane.store.history(running["id"]) if isinstance(one.event, reservation.Preempted)]
    (placed,) = [one for one in plane.store.history(claim["id"]) if isinstance(one.event, reservation.Placed)]
    assert preempted.meta.admission == placed.meta.admission == claim["admissionId"], "the auditor sees why"
    assert preempted.part.append == placed.part.append


def test_spot_booked_ahead_waits_again(plane: Plane) -> None:
    pool_id, _ = fleet(plane)
    start = plane.store.now() + HOUR // 2
    later = spot(plane, pool_id, startsAt=start)
    claim = plane.acme.reserve(pool_id).json()
    assert claim["state"] == "placed"
    again = shown(plane.globex, later)
    assert (again["state"], again["startsAt"]) == ("pending", start)
    assert plane.events(later["id"])[3].reason == "Preempted"
    assert booked(plane, later) == []


def test_spot_preempts_nobody(plane: Plane) -> None:
    pool_id, _ = fleet(plane)
    running = spot(plane, pool_id)
    other = plane.acme.reserve(pool_id, spot=True).json()
    assert (other["state"], other["earliestStart"]) == ("pending", running["endsAt"])


def test_nobody_is_preempted_where_waiting_is_sooner(plane: Plane) -> None:
    pool_id, _ = fleet(plane, spotNoticeSeconds=7200)
    running = spot(plane, pool_id)
    claim = plane.acme.reserve(pool_id).json()
    assert (claim["state"], claim["earliestStart"]) == ("pending", running["endsAt"])
    assert "Preempted" not in names(plane, running)
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"spotNoticeSeconds": 60}})
    placed = plane.until(plane.acme, claim["id"], "placed")
    assert placed["startsAt"] < running["endsAt"], "the queue preempts as well"
    assert shown(plane.globex, running)["endingReason"] == "Preempted"


def test_a_gang_of_spot_gives_way_whole_and_no_other_than_is_needed(plane: Plane) -> None:
    pool_id, _ = fleet(plane, nodes=3)
    gang = spot(plane, pool_id, nodes=2)
    single = spot(plane, pool_id)
    claim = plane.acme.reserve(pool_id, nodes=3).json()
    assert claim["state"] == "placed"
    assert {shown(plane.globex, one)["endsAt"] for one in (gang, single)} == {claim["startsAt"]}
    assert len(booked(plane, claim)) == 3


def test_a_gap_for_cleaning_lies_between(plane: Plane) -> None:
    pool_id, _ = fleet(plane, cleaningSeconds=30)
    running = spot(plane, pool_id)
    claim = plane.acme.reserve(pool_id).json()
    assert claim["state"] == "placed"
    assert claim["startsAt"] - shown(plane.globex, running)["endsAt"] == 30_000


def test_of_two_who_want_the_same_spot_one_gets_it(plane: Plane) -> None:
    pool_id, _ = fleet(plane)
    running = spot(plane, pool_id)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda n: plane.acme.reserve(pool_id, f"rival-{n}").json(), range(4)))
    while plane.rows("SELECT count(*)::int FROM pool_queue") != [(3,)]:
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.02)
    assert sorted(shown(plane.acme, answer)["state"] for answer in answers) == ["pending"] * 3 + ["placed"]
    assert names(plane, running).count("Preempted") == 1


@pytest.mark.parametrize("meanwhile", ["release", "extend"])
def test_what_its_tenant_does_with_it_between_the_look_and_the_deed_is_not_overwritten(
    plane: Plane, meanwhile: str
) -> None:
    pool_id, (node_id,) = fleet(plane, spotNoticeSeconds=7200)
    running = spot(plane, pool_id)
    plane.activate(plane.globex, running["id"])
    claim = plane.acme.reserve(pool_id).json()
    assert claim["state"] == "pending"
    with by_hand(plane) as lease:
        assert lease.fence is not None
        plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"spotNoticeSeconds": 60}})
        plane.settle()
        steps = scheduler.walk(plane.wired.ports, pool_id, [claim["id"]], lease.fence)
        _, step = next(steps)
        body = {} if meanwhile == "release" else {"endsAt": running["endsAt"] + HOUR}
        plane.globex.ok("POST", f"/v1/reservations/{running['id']}/{meanwhile}", body, Idempotency_Key="k")
        placed = step()
        steps.close()
        if meanwhile == "release":
            assert not placed, "it is held until it is torn down"
            assert "Preempted" not in names(plane, running)
            plane.report(node_id)
            plane.settle()
            for _, again in scheduler.walk(plane.wired.ports, pool_id, [claim["id"]], lease.fence):
                assert again()
            assert plane.store.load(claim["id"]).state.status == "placed"
        else:
            assert placed
            assert booked(plane, running)[0][1] == booked(plane, claim)[0][0], "cut where the other begins"
