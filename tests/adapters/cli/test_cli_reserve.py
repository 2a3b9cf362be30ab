"""`reserve` before the real plane: it asks on a terminal, and never elsewhere."""

import json
from collections.abc import Iterator

import pytest
import seats
from served import answering, piped, told

from given import Plane


@pytest.fixture
def address(plane: Plane) -> Iterator[str]:
    with answering(plane) as found:
        yield found


def test_without_a_terminal_all_that_is_missing_is_named_at_once(plane: Plane, address: str) -> None:
    for words, missing in (
        ((), "--pool, --devices, --for, --yes"),
        (("--pool", "h100", "--yes"), "--devices, --for"),
        (("--pool", "h100", "--devices", "gpu=1", "--for", "1h"), "--yes"),
    ):
        ran = piped("reserve", *words, env=told(address, plane.acme))
        assert (ran.returncode, ran.stdout) == (2, "")
        assert f"missing {missing}: where there is no terminal nothing is asked" in ran.stderr


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (("--for", "8"), "'8' is no span of time; write 90m, 8h, 2d or 1d12h"),
        (("--for", "30s"), "a reservation is for a minute at least"),
        (("--devices", "gpu"), "'gpu' is neither class=count[,selector] nor JSON"),
        (("--at", "tomorrow"), "'tomorrow' is no instant"),
        (("--scalars", "ram=1"), "'ram=1' is not vcpu=COUNT or memoryMiB=COUNT"),
    ],
)
def test_what_cannot_be_read_is_wrong_usage(said: tuple[str, ...], why: str) -> None:
    ran = piped("reserve", *said, env={"BETTER_COMPUTE_SERVER": "http://127.0.0.1:1"})
    assert ran.returncode == 2
    assert why in ran.stderr


def test_a_whole_claim_is_reserved_without_a_word(plane: Plane, address: str) -> None:
    pool_id, _ = plane.fleet(nodes=2)
    project = plane.project("research")
    words = ("--pool", "h100", "--devices", "gpu=2", "--nodes", "2", "--for", "1d12h", "--project", "research")
    ran = piped("reserve", *words, "--yes", "--json", "--idempotency-key", "k1", env=told(address, plane.acme))
    assert (ran.returncode, ran.stderr) == (0, "")
    made = json.loads(ran.stdout)
    assert (made["poolId"], made["projectId"], made["nodes"]) == (pool_id, project, 2)
    assert made["durationSeconds"] == 36 * 3600
    again = piped("reserve", *words, "--yes", "--json", "--idempotency-key", "k1", env=told(address, plane.acme))
    assert json.loads(again.stdout)["id"] == made["id"]


def test_a_name_that_could_be_several_is_refused_with_all_of_them(plane: Plane, address: str) -> None:
    pools = [plane.pool(plane.site()), plane.pool(plane.site("own", by=plane.acme, kind="custom"), by=plane.acme)]
    plane.offer(pools[0])
    words = ("--devices", "gpu=1", "--for", "1h", "--yes")
    ran = piped("reserve", "--pool", "h100", *words, env=told(address, plane.acme))
    assert ran.returncode == 2
    assert f"2 pools are named 'h100'; give the id of one: {', '.join(pools)}" in ran.stderr
    unknown = piped("reserve", "--pool", "h200", *words, env=told(address, plane.acme))
    assert unknown.returncode == 2
    assert "no pool 'h200' is visible to you; there are: h100" in unknown.stderr
    nothing = piped("reserve", "--pool", "h100", *words, env=told(address, plane.globex))
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "no pool is yours or offered to you" in nothing.stderr


def test_what_would_be_refused_is_not_asked_for_and_when_it_could_be_is_said(plane: Plane, address: str) -> None:
    pool_id, _ = plane.fleet(nodes=2, quota=8)
    held = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 8}]).json()
    plane.settle()
    words = ("reserve", "--pool", "h100", "--for", "1h", "--yes")
    ran = piped(*words, "--devices", "gpu=4", env=told(address, plane.acme))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "of 8 gpu the offering grants, 8 taken, 12 with it: 0 left" in ran.stderr
    end = ran.stderr.strip().rpartition("--at ")[2]
    plane.settle()
    assert [one["id"] for one in plane.acme.ok("GET", "/v1/reservations")["items"]] == [held["id"]]
    assert piped(*words, "--devices", "gpu=4", "--at", end, env=told(address, plane.acme)).returncode == 0
    never = piped(*words, "--devices", "gpu=9", env=told(address, plane.acme))
    assert never.stderr.endswith("nothing was reserved: it would be refused (QuotaExceeded)\n")
    refused = piped(*words, "--devices", "gpu=1", env=told(address, plane.auditor))
    assert refused.returncode == 1
    assert "compute:reservations:create of this claim is not allowed to you" in refused.stderr


def test_on_a_terminal_it_asks_shows_and_reserves(plane: Plane, address: str) -> None:
    plane.fleet(quota=16)
    plane.settle()
    with seats.seated("reserve", columns=120, env=told(address, plane.acme)) as seat:
        at = seat.reads("Pool (number, name or id) [1]: ")
        assert "1  h100  H100   eu-north  gpu 8 of 16" in seat.written
        seat.press("h200\n")
        at = seat.reads("no pool 'h200' is visible to you", at)
        at = seat.reads("]: ", at)
        seat.press("\n")
        at = seat.reads("What (gpu=8, 2x gpu=8 on each of two nodes): ", at)
        seat.press("8\n")
        at = seat.reads("For how long (90m, 8h, 2d): ", at)
        seat.press("90\n")
        at = seat.reads("'90' is no span of time", at)
        at = seat.reads("For how long (90m, 8h, 2d): ", at)
        seat.press("90m\n")
        at = seat.reads("[now]: ", at)
        seat.press("\n")
        at = seat.reads("What now [y]: ", at)
        assert "gpu=8 of h100 for 1h30m, 12 GPU-hours" in seat.written
        assert "n0, or one like it" in seat.written
        assert "of 16 gpu the offering grants, 0 taken, 8 with it" in seat.written
        seat.press("\n")
        assert seat.leaves() == 0
        assert seat.attributes == seat.before
        plane.settle()
        reserved = plane.acme.ok("GET", "/v1/reservations")["items"][0]
        assert f"{reserved['id']} is " in seat.written
        assert f"better-compute reservations {'cancel' if 'is placed' in seat.written else 'release'}" in seat.written


def test_enter_where_nothing_goes_without_saying_is_told_what_to_say(plane: Plane, address: str) -> None:
    plane.fleet(quota=16)
    plane.pool(plane.site("own", by=plane.acme, kind="custom"), by=plane.acme)
    plane.settle()
    with seats.seated("reserve", columns=120, env=told(address, plane.acme)) as seat:
        at = 0
        for question, told_then, answer in (
            ("Pool (number, name or id): ", "say which pool, such as 1 for h100", "1"),
            ("What (gpu=8, 2x gpu=8 on each of two nodes): ", "say how many of what, such as gpu=1", "8"),
            ("For how long (90m, 8h, 2d): ", "say how long, such as 8h", "2h"),
        ):
            at = seat.reads(question, at)
            seat.press("\n")
            at = seat.reads(told_then, at)
            at = seat.reads(question, at)
            seat.press(f"{answer}\n")
        seat.reads("[now]: ", at)


def test_who_cannot_have_it_now_is_offered_when_and_may_change_it(plane: Plane, address: str) -> None:
    pool_id, _ = plane.fleet(quota=64)
    plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 8}])
    plane.settle()
    whole = ("reserve", "--pool", "h100", "--devices", "gpu=8", "--for", "1h")
    with seats.seated(*whole, "--at", "+10m", columns=120, env=told(address, plane.acme)) as seat:
        at = seat.reads("What now [e]: ")
        assert "it would wait (NoCapacity)" in seat.written
        seat.press("c\n")
        for answer in ("", "9", "", ""):
            at = seat.reads("]: ", at)
            seat.press(f"{answer}\n")
        at = seat.reads("What now [c]: ", at)
        assert "never, as the pool is: it would wait in vain" in seat.written
        seat.press("c\n")
        for answer in ("", "8", "", "+10m"):
            at = seat.reads("]: ", at)
            seat.press(f"{answer}\n")
        at = seat.reads("What now [e]: ", at)
        seat.press("e\n")
        at = seat.reads("What now [y]: ", at)
        seat.press("y\n")
        assert seat.leaves() == 0
        assert " is placed on n0" in seat.written


def test_no_is_no(plane: Plane, address: str) -> None:
    plane.fleet()
    head = plane.settle()
    whole = ("reserve", "--pool", "h100", "--devices", "gpu=8", "--for", "1h")
    for keys, status in (("n\n", 1), ("\x03", 130), ("\x04", 130)):
        with seats.seated(*whole, env=told(address, plane.acme)) as seat:
            seat.reads("What now [y]: ")
            seat.waits()
            seat.press(keys)
            assert seat.leaves() == status
            assert seat.attributes == seat.before
    assert plane.settle() == head
