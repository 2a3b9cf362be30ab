"""`--wait` asks again until there is an end to tell."""

import json
from typing import Any

import pytest
from canned import PROBLEM, run, serving

from adapters.cli import waiting
from adapters.registry import OPERATIONS


@pytest.fixture
def server():
    with serving() as running:
        yield running


def reservation(state: str, reason: str | None = None) -> dict[str, Any]:
    return {"id": "res_1", "state": state} | ({"stateReason": reason} if reason else {})


@pytest.fixture
def _hasty(monkeypatch):
    monkeypatch.setattr(waiting, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.mark.usefixtures("_hasty")
def test_wait_tells_each_change_until_the_reservation_is_active(server):
    server.says(reservation("pending", "NoCapacity"), status=201).says(PROBLEM, status=503)
    server.says(reservation("pending", "NoCapacity")).says(reservation("placed")).says(reservation("active"))
    ran = run("reservations create --pool-id p --devices gpu=1 --duration-seconds 60 --wait --json", server)
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, reservation("active"))
    assert ran.stderr == "res_1: pending (NoCapacity)\nres_1: placed\nres_1: active\n"
    assert {asked.path for asked in server.asked[1:]} == {"/v1/reservations/res_1"}


def test_wait_for_what_ended_otherwise_is_no_success(server):
    server.says(reservation("expired"))
    ran = run("reservations get res_1 --wait", server)
    assert (ran.exit_code, ran.stdout) == (1, "id     res_1\nstate  expired\n")
    assert ran.stderr == "res_1: expired\nthe wait ended in expired\n"


@pytest.mark.usefixtures("_hasty")
def test_wait_is_bounded(server):
    server.says(reservation("pending"))
    ran = run("reservations get res_1 --wait --timeout 0.01", server)
    assert (ran.exit_code, ran.stderr) == (3, "res_1: pending\nstill pending after 0.01 s\n")


@pytest.mark.usefixtures("_hasty")
def test_a_wait_in_vain_says_that_the_server_failed(server):
    server.says(reservation("pending")).says(PROBLEM, status=503)
    ran = run("reservations get res_1 --wait --timeout 0.05", server)
    assert ran.exit_code == 3
    assert ran.stderr.startswith("res_1: pending\nstill pending after 0.05 s; the last time asked: ")
    assert PROBLEM["detail"] in ran.stderr


@pytest.mark.usefixtures("_hasty")
def test_wait_ends_when_the_server_refuses(server):
    server.says(reservation("pending")).says(PROBLEM, status=404)
    assert run("reservations get res_1 --wait", server).exit_code == 1


@pytest.mark.usefixtures("_hasty")
def test_what_a_node_is_told_is_waited_for_as_well(server):
    told = [{"id": "cmd_1", "status": status, "reason": None} for status in ("queued", "delivered")]
    server.says(told[0], status=201).says(told[1]).says({"id": "cmd_1", "status": "failed", "reason": "NoSuchGpu"})
    ran = run("commands issue node_1 --reason x --wait --timeout 5", server)
    assert ran.exit_code == 1
    assert ran.stderr.splitlines() == [
        "cmd_1: queued",
        "cmd_1: delivered",
        "cmd_1: failed (NoSuchGpu)",
        "the wait ended in failed",
    ]


@pytest.mark.usefixtures("_hasty")
def test_a_drain_is_waited_for_until_nothing_is_booked_there(server):
    drain = {"reason": "fan", "since": 1, "drainedAt": None}
    begun, done = ({"id": "node_1", "drain": drain | {"drainedAt": at}} for at in (None, 2))
    left = [{"items": [{"state": state} for state in states]} for states in (["active", "placed", "released"], [])]
    server.says(begun).says(left[0]).says(begun).says(left[1]).says(done).says(left[1])
    ran = run("nodes drain node_1 --reason fan --wait", server)
    assert (ran.exit_code, ran.stderr) == (
        0,
        "node_1: draining, 1 active, 1 placed\nnode_1: draining\nnode_1: drained\n",
    )
    assert server.asked[1].path == "/v1/allocations?nodeId=node_1&scope=fleet&order=desc&limit=1000"


@pytest.mark.usefixtures("_hasty")
def test_a_drain_that_is_called_off_was_waited_for_in_vain(server):
    server.says({"id": "node_1", "drain": None}).says({"items": []})
    ran = run("nodes drain node_1 --reason fan --wait", server)
    assert (ran.exit_code, ran.stderr) == (1, "node_1: not draining\nthe wait ended in not draining\n")


@pytest.mark.usefixtures("_hasty")
def test_an_eviction_is_waited_for_until_the_pools_owner_sees_its_devices_free(server):
    evicted = {"reservationId": "rsv_1", "state": "releasing", "stateReason": "Evicted", "version": 7}
    left = [{"items": [{"state": "releasing"}] * count} for count in (2, 1, 0)]
    server.says(evicted).says(left[0]).says(left[1]).says(left[2])
    ran = run("pools evict pool_1 --reservation-id rsv_1 --reason fire --wait --json", server)
    assert ran.stderr.splitlines() == [
        "rsv_1: releasing (Evicted)",
        "rsv_1: releasing (Evicted), on 2 nodes",
        "rsv_1: releasing (Evicted), on 1 node",
        "rsv_1: released (Evicted)",
    ]
    assert (ran.exit_code, json.loads(ran.stdout)) == (
        0,
        {"reservationId": "rsv_1", "state": "released", "stateReason": "Evicted"},
    )
    assert server.asked[-1].path == "/v1/allocations?reservationId=rsv_1&state=releasing&limit=1000"


def test_what_only_waited_is_evicted_at_once(server):
    server.says({"reservationId": "rsv_1", "state": "failed", "stateReason": "Evicted", "version": 3})
    ran = run("pools evict pool_1 --reservation-id rsv_1 --reason fire --wait", server)
    assert (ran.exit_code, ran.stderr, len(server.asked)) == (0, "rsv_1: failed (Evicted)\n", 1)
    assert "version" in ran.stdout


def test_what_is_waited_for_is_there_to_be_asked():
    assert {wait.get for wait in waiting.WAITS.values()} <= set(OPERATIONS)
    assert set(waiting.WAITS) <= set(OPERATIONS)
    assert {wait.left for wait in waiting.WAITS.values() if wait.left} <= set(OPERATIONS)
