"""`--wait` asks again until there is an end to tell."""

import json
from typing import Any

import pytest
from canned import PROBLEM, run, serving

from adapters.cli import waiting


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
