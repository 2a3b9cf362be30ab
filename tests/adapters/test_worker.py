"""The controllers' loop: who runs it, and that one reservation's trouble is its own."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from adapters import controller, worker
from adapters.calendars import Calendars
from adapters.cel import CelSelectors
from adapters.controller import Resting
from adapters.postgres.leases import LOOK_S, TTL_S
from adapters.postgres.pool import find_by_key
from adapters.postgres.runner import Runner
from adapters.worker import Worker
from commands.ports import Ports
from domain import clock, errors, node, reservation, tenant
from domain.event import Append, Fence
from facts import Facts, facts, new_id
from naive import feed
from projections import table

HOUR = 3_600_000


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class House:
    """A pool whose clock is the database's, with what a worker needs; read models follow when the test says so."""

    def __init__(self, given: Facts) -> None:
        self.given = given
        self.calendars = Calendars(lambda: 0, lambda position, seconds: True)
        self.runner = Runner(given.connections, table.ASYNC)
        self.runner.load()
        self.ports = Ports(given.store, None, self.calendars, CelSelectors(), new_id, str, None, None)  # type: ignore[arg-type]
        self.clock = Clock()
        self.pool_id = given.pool()
        self.node_id, self.atoms = given.node(self.pool_id, 4)
        given.append("tenant:acme", tenant.Recorded("acme", "active"))
        given.offer(self.pool_id, 100)
        self.position = 0

    def worker(self, holder: str) -> Worker:
        return Worker(self.ports, self.given.connections, self.calendars, holder, self.clock)

    def look(self) -> None:
        for name in self.runner.positions:
            assert self.runner.retry(name) is None
        self.position = feed(self.calendars, self.given, self.position)

    def due(self, atom: int, ago: int = 1000) -> str:
        """A placed reservation whose start has come."""
        start = int(time.time() * 1000) - ago
        return self.given.place(self.given.placed(self.pool_id, self.node_id, [self.atoms[atom]], start, start + HOUR))

    def status(self, reservation_id: str) -> str:
        return str(self.given.store.load(reservation_id).state.status)


@pytest.fixture
def house(database: str) -> Iterator[House]:
    with facts(database, size=4) as given:
        yield House(given)


class Trouble:
    """A store in which the log has a row that nobody can act on: its stream cannot be loaded, or not appended to."""

    def __init__(self, given: Facts, stream: str, fault: Exception) -> None:
        self._store, self._stream, self._fault = given.store, stream, fault

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def append(self, append: Append) -> int:
        if any(change.stream == self._stream for change in append.changes):
            raise self._fault
        return self._store.append(append)


def test_what_is_due_is_started_and_what_waits_is_placed(house: House) -> None:
    started, now = house.due(0), int(time.time() * 1000)
    waiting = house.given.queue(house.pool_id, None, 1, now, now + 2 * HOUR)
    house.look()
    house.worker("a").tick()
    assert house.status(started) == "binding"
    assert house.status(waiting) == "placed"


FAULTS = [errors.NotFound("node", "node_x"), errors.Invalid("id", "no"), errors.Conflict("no"), KeyError("unforeseen")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_one_reservations_trouble_stops_no_other(house: House, fault: Exception) -> None:
    bad, good = house.due(0, ago=9000), house.due(1)
    now = int(time.time() * 1000)
    stuck, waiting = (house.given.queue(house.pool_id, None, 1, now, now + 2 * HOUR) for _ in range(2))
    house.look()
    for stream in (bad, stuck):
        troubled = Trouble(house.given, stream, fault)
        house.ports = Ports(troubled, None, house.calendars, CelSelectors(), new_id, str, None, None)  # type: ignore[arg-type]
        house.worker(f"holder of {stream}").tick()
        house.given.rows("DELETE FROM coordination_leases RETURNING 1")
    assert house.status(good) == "binding"
    assert house.status(waiting) == "placed"


def test_what_fails_unexpectedly_rests_longer_each_time_and_no_longer_than_the_limit() -> None:
    clock = Clock()
    resting = Resting(clock)
    pauses = []
    for _ in range(12):
        resting.failed("rsv_1")
        assert resting.ids() == ["rsv_1"]
        before = clock.now
        while resting.ids():
            clock.now += 0.05
        pauses.append(clock.now - before)
    assert pauses == sorted(pauses)
    shortest, longest = controller.REST_S
    assert pauses[0] == pytest.approx(shortest, abs=0.06)
    assert pauses[-1] == pytest.approx(longest, abs=0.06)
    resting.went_well("rsv_1")
    assert resting.ids() == []


def test_what_rests_leaves_its_place_among_the_due_to_others(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a batch of one, a reservation that fails would otherwise be the only one ever tried."""
    monkeypatch.setattr(worker, "AT_ONCE", 1)
    bad, good = house.due(0, ago=9000), house.due(1)
    house.look()
    troubled = Trouble(house.given, bad, KeyError("unforeseen"))
    house.ports = Ports(troubled, None, house.calendars, CelSelectors(), new_id, str, None, None)  # type: ignore[arg-type]
    running = house.worker("a")
    running.tick()
    running.tick()
    assert house.status(good) == "binding"


def test_one_pools_long_queue_leaves_room_for_the_others(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "AT_ONCE", 2)
    now = int(time.time() * 1000)
    for _ in range(4):
        house.given.queue(house.pool_id, None, 9, now, now + 2 * HOUR)
    other = house.given.pool()
    house.given.node(other)
    house.given.offer(other, 1)
    waiting = house.given.queue(other, None, 1, now, now + 2 * HOUR)
    house.look()
    house.worker("a").tick()
    assert house.status(waiting) == "placed"


def test_a_second_worker_stands_by_and_takes_over_when_the_first_falls_silent(house: House) -> None:
    first, second = house.worker("a"), house.worker("b")
    first.tick()
    second.tick()
    assert second.fence is None
    for _ in range(round(TTL_S / LOOK_S)):
        house.clock.now += LOOK_S
        second.tick()
    started = house.due(0)
    house.look()
    second.tick()
    assert house.status(started) == "binding"


def test_a_worker_that_slept_through_a_takeover_is_refused_and_stands_by(house: House) -> None:
    """SIGSTOP: it wakes believing that it holds the lease; the fence in its first write says otherwise."""
    first = house.worker("a")
    first.tick()
    house.given.rows("UPDATE coordination_leases SET holder = 'b', epoch = epoch + 1 RETURNING 1")
    started = house.due(0)
    house.look()
    first.tick()
    assert house.status(started) == "placed"
    assert first.fence is None


def test_a_worker_hands_its_lease_back_when_it_stops(house: House, tmp_path: Path) -> None:
    first, second = house.worker("a"), house.worker("b")
    first.tick()
    second.tick()
    first.start()
    first.stop()
    house.clock.now += LOOK_S
    second.tick()
    assert second.fence is not None


def test_ends_come_before_starts(house: House) -> None:
    """O02: both due in one tick on one atom; the second becomes bound, never failed."""
    start = int(time.time() * 1000) - 2 * HOUR
    ended = house.given.place(
        house.given.placed(house.pool_id, house.node_id, house.atoms[:1], start, start + 2 * HOUR - 5000)
    )
    house.given.bind(ended, start)
    house.given.append(ended, reservation.Activated(start))
    following = house.due(0, ago=5000)
    house.look()
    house.worker("a").tick()
    assert (house.status(ended), house.status(following)) == ("releasing", "binding")


def test_whoever_rests_in_the_queue_keeps_the_place_that_it_was_promised(house: House) -> None:
    now = int(time.time() * 1000)
    head = house.given.queue(house.pool_id, None, 4, now, now + 2 * HOUR)
    behind = house.given.queue(house.pool_id, None, 1, now, now + 2 * HOUR)
    house.look()
    troubled = Trouble(house.given, head, errors.Locked("a row is held"))
    house.ports = Ports(troubled, None, house.calendars, CelSelectors(), new_id, str, None, None)  # type: ignore[arg-type]
    one = house.worker("a")
    for _ in range(3):
        one.tick()
        house.look()
    assert (house.status(head), house.status(behind)) == ("pending", "pending")


class Jumping:
    """A store whose clock can be set off; all else is the log's own."""

    def __init__(self, given: Facts) -> None:
        self._store = given.store
        self.off_ms = 0

    def now(self) -> int:
        return self._store.now() + self.off_ms

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def test_a_clock_that_jumps_ends_nothing_until_an_operator_or_a_minute_says_so(house: House) -> None:
    """O34: the day that the clock jumped ahead has not passed."""
    started, store = house.due(0), Jumping(house.given)
    house.look()
    house.ports = Ports(store, None, house.calendars, CelSelectors(), new_id, str, None, None)  # type: ignore[arg-type]
    one = house.worker("a")
    one.tick()
    assert house.status(started) == "binding"
    store.off_ms = 24 * HOUR
    house.look()
    one.tick()
    one.tick()
    assert house.status(started) == "binding"
    now = store.now()
    house.given.append(clock.stream(worker.LEASE), clock.Trusted("operator", now))
    waiting = house.given.queue(house.pool_id, None, 1, now, now + 2 * HOUR)
    house.look()
    one.tick()
    assert house.status(waiting) == "placed"


def test_after_an_outage_of_hours_all_ends_come_before_any_start(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """O02: one at a time, the overdue ends go first, though the starts have been due for longer."""
    monkeypatch.setattr(worker, "AT_ONCE", 1)
    now = int(time.time() * 1000)
    late = house.given.place(
        house.given.placed(house.pool_id, house.node_id, [house.atoms[3]], now - 3 * HOUR, now + HOUR)
    )
    over = house.given.place(
        house.given.placed(house.pool_id, house.node_id, [house.atoms[2]], now - 3 * HOUR, now - HOUR)
    )
    running = []
    for atom in house.atoms[:2]:
        id = house.given.place(house.given.placed(house.pool_id, house.node_id, [atom], now - 5 * HOUR, now - 60_000))
        house.given.bind(id, now - 5 * HOUR)
        house.given.append(id, reservation.Activated(now - 5 * HOUR))
        running.append(id)
    alone = house.worker("a")
    seen = []
    for _ in range(4):
        house.look()
        alone.tick()
        seen.append([house.status(id) for id in (*running, over, late)])
    assert [sorted(states[:2]) for states in seen[:2]] == [["active", "releasing"], ["releasing", "releasing"]]
    assert [states[2:] for states in seen[:2]] == [["placed", "placed"]] * 2, "nothing starts while an end is due"
    assert seen[3] == ["releasing", "releasing", "expired", "binding"]
    expired, started = (house.given.store.load(id).state for id in (over, late))
    assert expired.reason == "WindowPassed"
    assert started.ends_at == now + HOUR, "a start that comes late keeps its end"


def test_nobody_loses_a_lease_to_an_outage_of_the_controller(house: House) -> None:
    now = int(time.time() * 1000)
    placed = house.given.placed(house.pool_id, house.node_id, house.atoms[:1], now - 2 * HOUR, now + 9 * HOUR)
    drafted = replace(house.given.drafted(house.pool_id), lease_seconds=60)
    leased = new_id("rsv")
    house.given.append(leased, drafted, reservation.Admitted("adm_1", placed.claimed, 0), placed, expected=0)
    house.given.bind(leased, now - 2 * HOUR)
    house.given.append(leased, reservation.Activated(now - 2 * HOUR))
    assert house.given.store.load(leased).state.lease_until < now
    house.look()
    running = house.worker("a")
    running.tick()
    house.look()
    running.tick()
    assert house.status(leased) == "active"


def lacking_gang(house: House, other: str, atoms: list[str], gpus: slice) -> str:
    """It had these GPUs on the house's node and on another, which is lost."""
    given, start = house.given, int(time.time() * 1000) - 1000
    parts = [
        given.placed(house.pool_id, node_id, of[gpus], start, start + HOUR)
        for node_id, of in ((house.node_id, house.atoms), (other, atoms))
    ]
    made = given.place(replace(parts[0], allocations=tuple(part.allocations[0] for part in parts)))
    given.bind(made, start)
    given.append(made, reservation.MemberLost(parts[1].allocations[0].id, other, "NodeLost", start + 1))
    return made


def nodes_of(house: House, reservation_id: str) -> list[str]:
    return [one.node_id for one in house.given.store.load(reservation_id).state.allocations]


def test_gangs_that_find_no_room_do_not_hide_one_that_does(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "AT_ONCE", 1)
    monkeypatch.setattr(worker, "IDLE_LOOK_TICKS", 1)
    other, atoms = house.given.node(house.pool_id, 4)
    large, small = (lacking_gang(house, other, atoms, gpus) for gpus in (slice(1, 4), slice(0, 1)))
    house.given.append(other, node.SchedulabilityChanged({"NotConnected": 1}))
    spare, _ = house.given.node(house.pool_id, 1)
    house.look()
    running = house.worker("a")
    for _ in range(2):
        running.tick()
        house.look()
    assert (nodes_of(house, large), nodes_of(house, small)) == ([house.node_id], [house.node_id, spare])


def test_a_gang_that_lacks_a_member_goes_before_what_waits(house: House) -> None:
    other, atoms = house.given.node(house.pool_id, 4)
    gang = lacking_gang(house, other, atoms, slice(0, 4))
    house.given.append(other, node.SchedulabilityChanged({"NotConnected": 1}))
    now = int(time.time() * 1000)
    waiting = house.given.queue(house.pool_id, None, 4, now, now + 2 * HOUR)
    spare, _ = house.given.node(house.pool_id, 4)
    house.look()
    house.worker("a").tick()
    assert (nodes_of(house, gang), house.status(waiting)) == ([house.node_id, spare], "pending")


def test_room_that_comes_between_is_shown_to_the_gang_first(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    other, atoms = house.given.node(house.pool_id, 4)
    gang = lacking_gang(house, other, atoms, slice(0, 4))
    house.given.append(other, node.SchedulabilityChanged({"NotConnected": 1}))
    now = int(time.time() * 1000)
    waiting = house.given.queue(house.pool_id, None, 4, now, now + 2 * HOUR)
    house.look()
    running = house.worker("a")
    looked = running._replace

    def and_then_room_comes(fence: Fence) -> None:
        looked(fence)
        if not spares:
            spares.append(house.given.node(house.pool_id, 4)[0])
            house.look()

    spares: list[str] = []
    monkeypatch.setattr(running, "_replace", and_then_room_comes)
    running.tick()
    assert house.status(waiting) == "pending"
    running.tick()
    assert (nodes_of(house, gang), house.status(waiting)) == ([house.node_id, *spares], "pending")


LATER = """
INSERT INTO reservations
    (id, tenant_id, pool_id, state_name, due_at, due_rank, lacking, created_at, since, version, state)
SELECT 'later' || n, 'acme', 'pool_1', 'placed', 8e12 + n, n % 2, 0, 1, 1, 1, '' FROM generate_series(1, 20000) AS n
"""


def looked_at(plan: dict[str, Any]) -> int:
    """How many rows the parts of a plan gave or threw away, all together."""
    own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if plan.get("Relation Name") else 0
    return int(own * plan["Actual Loops"]) + sum(looked_at(part) for part in plan.get("Plans", ()))


def test_what_is_due_is_found_without_looking_at_what_is_due_some_day(house: House) -> None:
    """Also by a plan that was made when nothing was due at all (decision 9)."""
    due = house.due(0)
    house.look()
    asked = {"resting": ["rsv_x"], "most": 200, "draft_ms": 900_000}
    with house.given.connections.connection() as connection:
        find_by_key(connection)
        connection.execute(worker._DUE, asked, prepare=True)
        connection.execute(LATER)
        row = connection.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + worker._DUE, asked).fetchone()
        found = connection.execute(worker._DUE, asked).fetchone()
    assert row is not None
    assert found is not None
    assert found[2] == [due]
    assert looked_at(row[0][0]["Plan"]) <= 4
