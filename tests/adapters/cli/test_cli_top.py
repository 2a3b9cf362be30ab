"""`top` before the real plane: live on a terminal, plain elsewhere, and the terminal is as it was on every way out."""

import json
import shlex
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import seats
from canned import serving
from served import answering, piped, told

from adapters.http import sse
from given import Plane


@pytest.fixture
def address(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(sse, "SECONDS", 60.0)
    with answering(plane) as found:
        yield found


def test_an_operator_sees_what_happens_as_it_happens(plane: Plane, address: str) -> None:
    pool_id, (node_id, _) = plane.fleet(nodes=2, gpus=8, quota=64)
    plane.settle()
    with seats.seated("top", env=told(address, plane.root)) as seat:
        seat.sees("the whole fleet", "live", "h100 gpu", "2 adopted; 2 schedulable", "nobody waits")
        assert "\x1b[32m·" in seat.written, "what is available is green"
        plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan 3"})
        seat.sees("1 schedulable, 1 not: Cordoned 1", "(fan 3)", "node.cordoned")
        made = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 8}], nodes=2).json()
        assert made["state"] == "pending"
        seat.sees("1 waiting", "2 x gpu=8", "NoCapacity")
        plane.acme.ok("POST", f"/v1/reservations/{made['id']}/cancel", {})
        seat.sees("nobody waits")
        seat.press("\t")
        seat.sees("tab pool: h100")
        seat.press("p")
        seat.sees("PAUSED")
        plane.root.ok("POST", f"/v1/nodes/{node_id}/uncordon", {})
        seat.press("\x1b[B")
        assert "Cordoned 1" in seat.sees("s queue by: start"), "the picture stands still"
        seat.press("p")
        seat.sees("2 adopted; 2 schedulable")
        seat.turn(60, 10)
        seat.until(lambda: len(seat.screen.split("\n")) == 10, "it is as large as before")
        seat.sees("q quit")
        seat.press("q")
        assert seat.leaves() == 0
        assert seat.attributes == seat.before


def test_a_tenant_sees_its_own_and_asks_for_nothing_that_is_refused(plane: Plane, address: str) -> None:
    pool_id, _ = plane.fleet(quota=4)
    plane.acme.reserve(pool_id)
    plane.globex.reserve(pool_id)
    head = plane.settle()
    with seats.seated("top", env=told(address, plane.acme) | {"NO_COLOR": "1"}) as seat:
        shown = seat.sees("one tenant", "h100 gpu", "nobody waits", "reservation.placed")
        assert "globex" not in shown
        assert "\x1b[32m" not in seat.written, "NO_COLOR"
        seat.press("q")
        assert seat.leaves() == 0
    assert plane.refusals(head) == []


def test_a_tenant_sees_its_place_in_the_queue_and_why_it_waits(plane: Plane, address: str) -> None:
    pool_id, _ = plane.fleet(quota=64)
    whole = [{"class": "gpu", "count": 8}]
    for who in (plane.acme, plane.globex, plane.acme):
        if who is plane.globex:
            plane.offer(pool_id, "globex")
        who.reserve(pool_id, devices=whole)
    plane.acme.reserve(pool_id, devices=whole, spot=True)
    plane.settle()
    shown = json.loads(piped("top", "--json", env=told(address, plane.acme)).stdout)["queue"]
    assert [row["queuePosition"] for row in shown] == [2, 3]
    plain = piped("top", env=told(address, plane.acme)).stdout
    assert "PLACE  AGE" in plain
    assert shown[0]["stateDetail"] in plain
    fleet = piped("top", env=told(address, plane.root)).stdout
    assert "3 waiting" in fleet
    assert "PLACE" not in fleet, "a place is told to its tenant alone"


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_is_as_it_was_whatever_ends_it(plane: Plane, address: str, how: int, status: int) -> None:
    with seats.seated("top", env=told(address, plane.root)) as seat:
        seat.sees("CAPACITY", "q quit")
        assert seat.attributes != seat.before
        if how == signal.SIGINT:
            seat.press("\x03")
        else:
            seat.process.send_signal(how)
        assert seat.leaves() == status
        assert seat.attributes == seat.before
        assert seat.written.endswith("\x1b[?25h\x1b[?1049l"), "its own screen is gone, the cursor is back"


def test_the_shell_has_the_terminal_while_it_is_stopped(plane: Plane, address: str) -> None:
    script = f"set -m; {shlex.join((*seats.BINARY, 'top'))}; echo STOPPED; read line; fg"
    with seats.seated(shell=script, env=told(address, plane.root)) as seat:
        seat.sees("q quit")
        assert seat.attributes != seat.before
        seat.press("\x1a")
        at = seat.reads("STOPPED")
        assert seat.attributes == seat.before
        seat.press("\n")
        seat.reads("q quit", at)
        seat.press("q")
        assert seat.leaves() == 0
        assert seat.attributes == seat.before


def test_a_server_that_goes_and_comes_back_is_said_and_followed_again(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "SECONDS", 60.0)
    plane.fleet()
    with answering(plane) as address:
        running = seats.seated("top", columns=120, env=told(address, plane.root))
        seat = running.__enter__()
        seat.sees("live", "1 schedulable")
    try:
        seat.sees("no answer since", "Connection refused", "1 schedulable")
        with answering(plane, int(address.rpartition(":")[2])):
            seat.sees_no("no answer")
            seat.sees("live")
            seat.press("q")
            assert seat.leaves() == 0
    finally:
        running.__exit__(None, None, None)


def test_a_token_that_nobody_knows_ends_it(plane: Plane, address: str) -> None:
    with seats.seated("top", env=told(address, plane.nobody)) as seat:
        assert seat.leaves() == 1
        assert "UNAUTHENTICATED" in seat.written
        assert seat.attributes == seat.before


def test_without_a_terminal_it_is_printed_once(plane: Plane, address: str) -> None:
    plane.fleet()
    plane.settle()
    ran = piped("top", env=told(address, plane.root))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "NODES  1 adopted; 1 schedulable" in ran.stdout
    assert "n0 by platform/root: adopted, Adopted" in ran.stdout
    assert "\x1b" not in ran.stdout
    document = json.loads(piped("top", "--json", env=told(address, plane.auditor)).stdout)
    assert (document["scope"], document["nodes"]["total"], document["refused"]) == ("fleet", 1, [])
    assert {row["resource"] for row in document["capacity"]} >= {"gpu", "vcpu"}
    refused = piped("top", "--once", env=told(address, plane.nobody))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert piped("top", env=told("http://127.0.0.1:1", plane.root)).returncode == 3


def test_a_dumb_terminal_gets_the_plain_one(plane: Plane, address: str) -> None:
    with seats.seated("top", env=told(address, plane.root) | {"TERM": "dumb"}) as seat:
        assert seat.leaves() == 0
        assert "QUEUE  nobody waits" in seat.written
        assert "\x1b[?1049h" not in seat.written


def test_what_one_may_not_see_is_left_out_and_said_once() -> None:
    refusal: dict[str, Any] = {"status": 403, "code": "ACCESS_DENIED", "detail": "not allowed to you"}
    with serving() as server:
        server.says({"items": []}, X_Position="7").says(refusal, status=403)
        env = {"BETTER_COMPUTE_SERVER": server.address, "BETTER_COMPUTE_TOKEN": "t"}
        ran = piped("top", env=env)
        assert ran.returncode == 0
        left_out = "left out, as you may not see it: pools, queue, nodes, instances, events\n"
        assert ran.stdout.count(left_out) == 1
        assert "NODES" not in ran.stdout
        asked = [each.path for each in server.asked]
        assert asked[-1] == "/v1/events/stream?after=0"
        assert len(asked) == len(set(asked)) == 6, "nothing is asked for twice"
