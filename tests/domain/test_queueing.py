"""Whoever waits is promised a start that nobody behind may delay."""

from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from test_placement import Compare, ask, node, pool

from domain import calendar, placement, queueing, selector
from domain.claim import Claim

MINUTE = 60_000
NOW = 1_000 * MINUTE

Rule = Callable[..., list[queueing.Verdict]]


class Job(Struct):
    """A claim, its window's length in ms, and where it stands in the order; `until` once it was placed."""

    id: str
    claim: Claim
    duration: int
    rank: tuple[int, int]
    starts_at: int | None = None
    guard: queueing.Guard | None = None
    planned: bool = False
    promised: int | None = None
    started: int | None = None
    until: int | None = None
    members: tuple[placement.Member, ...] = ()

    def waiter(self, now: int) -> queueing.Waiter:
        if self.starts_at is None:
            return queueing.Waiter(self.id, self.claim, (now, now + self.duration), True, self.planned, self.guard)
        window = (max(now, self.starts_at), self.starts_at + self.duration)
        return queueing.Waiter(self.id, self.claim, window, False, self.planned, self.guard)


class Cell:
    """A pool, its queue and a clock; `teardown` is how long a node keeps what has ended, in ms."""

    def __init__(self, made: calendar.Calendar, teardown: int = 0, rule: Rule = queueing.plan) -> None:
        self.pool = made
        self.rule = rule
        self.teardown = teardown
        self.now = NOW
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.ended: list[Job] = []

    def walk(self, seek: bool = True) -> list[queueing.Verdict]:
        self.waiting = [job for job in self.waiting if job.starts_at is None or job.starts_at + job.duration > self.now]
        self.waiting.sort(key=lambda job: job.rank)
        before = dict(self.pool.bookings)
        queue = [job.waiter(self.now) for job in self.waiting]
        verdicts = self.rule(self.pool, queue, self.now, Compare(), seek=seek)
        assert self.pool.bookings == before, "it only looks"
        for job, verdict in zip(list(self.waiting), verdicts, strict=True):
            job.planned = True
            if verdict.placed is None:
                self._told(job, verdict)
            else:
                self._start(job, verdict.placed.members)
        return verdicts

    def _told(self, job: Job, verdict: queueing.Verdict) -> None:
        if verdict.guard is not None and job.promised is None:
            job.promised = verdict.guard.start
        kept = job.guard
        same = kept and verdict.guard and kept.members == verdict.guard.members
        if not (same and abs(kept.start - verdict.guard.start) <= queueing.SLACK_MS):  # type: ignore[union-attr]
            job.guard = verdict.guard

    def _start(self, job: Job, members: tuple[placement.Member, ...]) -> None:
        job.started, job.until = job.waiter(self.now).window
        job.members = members
        self._never_twice(job)
        for n, member in enumerate(members):
            self.pool.book(f"{job.id}/{n}", member.node_id, member.atoms, member.scalars, job.started, job.until)
        self.waiting.remove(job)
        self.running.append(job)

    def _never_twice(self, job: Job) -> None:
        assert len({member.node_id for member in job.members}) == job.claim.nodes
        for other in [*self.running, *self.ended]:
            kept = other in self.ended or (other.started < job.until and job.started < other.until)  # type: ignore[operator]
            if kept:
                assert not atoms(other.members) & atoms(job.members), f"{job.id} has what {other.id} has"

    def end(self, job: Job) -> None:
        """It stops, and its devices stay taken until the node has torn it down."""
        self.running.remove(job)
        for n, member in enumerate(job.members):
            self.pool.unbook(f"{job.id}/{n}")
            if self.teardown:
                held = (member.node_id, member.atoms, member.scalars)
                self.pool.book(f"{job.id}/{n}", *held, job.started or 0, None, self.now)
        if self.teardown:
            self.ended.append(job)
            job.until = self.now + self.teardown

    def torn_down(self, job: Job) -> None:
        self.ended.remove(job)
        for n, _ in enumerate(job.members):
            self.pool.unbook(f"{job.id}/{n}")

    def advance(self, until: int) -> None:
        """Let time pass: at each instant at which something ends or was promised, ends come first, then the walk."""
        while True:
            due = [job.until for job in [*self.running, *self.ended] if job.until is not None]
            due += [job.guard.start for job in self.waiting if job.guard is not None]
            self.now = min([instant for instant in due if instant > self.now] + [until])
            self.pool.forget_before(self.now)
            for job in [job for job in self.ended if job.until is not None and job.until <= self.now]:
                self.torn_down(job)
            for job in [job for job in self.running if job.until is not None and job.until <= self.now]:
                self.end(job)
            self.walk()
            if self.now == until:
                return


def atoms(members: Iterable[placement.Member]) -> set[str]:
    return {atom for member in members for atom in member.atoms}


def job(id: str, *devices: int, minutes: int, rank: int, nodes: int = 1, priority: int = 0) -> Job:
    return Job(id, ask(*devices, nodes=nodes), minutes * MINUTE, (-priority, rank))


def test_a_small_claim_goes_past_a_gang_only_if_it_ends_before_the_gang_can_begin() -> None:
    cell = Cell(pool(node("a", 2), node("b", 2)))
    cell.waiting = [job("runs", 2, minutes=60, rank=0)]
    cell.walk()
    cell.waiting = [
        job("gang", 2, nodes=2, minutes=30, rank=1),
        job("long", 1, minutes=61, rank=2),
        job("short", 1, minutes=60, rank=3),
    ]
    gang, long, short = cell.walk()
    assert gang.guard is not None
    assert (gang.placed, gang.reason, gang.guard.start) == (None, "NoCapacity", NOW + 60 * MINUTE)
    assert gang.detail == "2 nodes asked, 1 fit: 1 node with 0 free"
    assert (long.placed, long.reason, long.ahead) == (None, "QueueAhead", 1)
    assert long.guard is not None
    assert long.guard.start == NOW + 90 * MINUTE
    assert short.placed is not None
    assert short.ahead == 2


def whoever_fits(
    made: calendar.Calendar, queue: Sequence[queueing.Waiter], now: int, selectors: selector.Selectors, *, seek: bool
) -> list[queueing.Verdict]:
    """The former rule: the order says only who is tried first."""
    verdicts = []
    keys = []
    for waiter in queue:
        found = placement.place(made, waiter.claim, waiter.window, waiter.id, selectors)
        placed = None if isinstance(found, placement.Refusal) else found
        for member in placed.members if placed else ():
            keys.append(f"{waiter.id}/{member.node_id}")
            made.book(keys[-1], member.node_id, member.atoms, member.scalars, *waiter.window)
        verdicts.append(queueing.Verdict(waiter.id, placed, 0, waiter.window))
    for key in keys:
        made.unbook(key)
    return verdicts


@pytest.mark.parametrize(("rule", "begins"), [(whoever_fits, False), (queueing.plan, True)])
def test_while_small_claims_keep_coming_a_gang_begins_by_this_rule_and_not_by_the_former(
    rule: Rule, begins: bool
) -> None:
    cell = Cell(pool(node("a", 1), node("b", 1)), rule=rule)
    cell.waiting = [job("first", 1, minutes=10, rank=0)]
    cell.walk()
    gang = job("gang", 1, nodes=2, minutes=10, rank=1)
    cell.waiting.append(gang)
    for n in range(12):
        cell.advance(cell.now + 5 * MINUTE)
        cell.waiting.append(job(f"small{n}", 1, minutes=10, rank=2 + n))
        cell.walk()
    assert (gang.started is not None) is begins


def test_what_is_being_torn_down_is_kept_for_the_gang_that_waits_for_it() -> None:
    cell = Cell(pool(node("a", 1), node("b", 1)), teardown=MINUTE)
    cell.waiting = [job("ends", 1, minutes=10, rank=0)]
    cell.walk()
    gang = job("gang", 1, nodes=2, minutes=10, rank=1)
    small = job("small", 1, minutes=10, rank=2)
    cell.waiting = [gang, small]
    cell.advance(NOW + 10 * MINUTE)
    assert (gang.started, small.started) == (None, None), "its node is about to say that the device is free"
    cell.advance(NOW + 11 * MINUTE)
    assert gang.started == NOW + 11 * MINUTE


def test_what_a_node_does_not_give_back_for_long_is_not_waited_for() -> None:
    cell = Cell(pool(node("a", 1), node("b", 1)))
    cell.pool.book("stuck", "a", ["a-g0"], {}, 0, None, NOW - queueing.GIVEN_BACK_MS - 1)
    cell.waiting = [job("gang", 1, nodes=2, minutes=10, rank=1), job("small", 1, minutes=10, rank=2)]
    gang, small = cell.walk()
    assert (gang.guard, gang.detail) == (None, "2 nodes asked, 1 fit: 1 node with 0 free")
    assert small.placed is not None


def test_what_is_torn_down_is_not_booked_ahead_before_it_is_given_back() -> None:
    cell = Cell(pool(node("a", 1)))
    cell.pool.book("ends", "a", ["a-g0"], {}, 0, None, NOW)
    ahead = job("ahead", 1, minutes=10, rank=0)
    ahead.starts_at = NOW + 60 * MINUTE
    cell.waiting = [ahead]
    (verdict,) = cell.walk()
    assert verdict.placed is None
    assert verdict.guard is not None
    assert verdict.guard.start == ahead.starts_at
    cell.pool.unbook("ends")
    (verdict,) = cell.walk()
    assert verdict.placed is not None


@pytest.mark.parametrize("promised", [False, True])
def test_scalars_that_are_torn_down_are_nobodys_before_they_are_given_back(promised: bool) -> None:
    """Unlike a device's, what is left of them beside what has ended may be enough for the moment, and not later."""
    cell = Cell(pool(*(node(name, 0, scalars={"vcpu": 8}) for name in "ab")))
    cell.pool.book("full", "b", [], {"vcpu": 6}, 0, None)
    cell.pool.book("ends", "a", [], {"vcpu": 2}, 0, None, NOW)
    cell.pool.book("later", "a", [], {"vcpu": 4}, NOW + 10 * MINUTE, NOW + 20 * MINUTE)
    waits = Job("waits", ask(0, vcpu=3), 60 * MINUTE, (0, 0))
    if promised:
        waits.planned, member = True, placement.Member("a", (), {"vcpu": 3}, 0)
        waits.guard = queueing.Guard(NOW, NOW + 60 * MINUTE, (member,))
    cell.waiting = [waits]
    (verdict,) = cell.walk()
    assert verdict.placed is None
    cell.pool.unbook("full")
    (verdict,) = cell.walk()
    assert verdict.placed is not None
    assert [member.node_id for member in verdict.placed.members] == ["b"]


def test_what_can_never_fit_is_in_nobodys_way() -> None:
    cell = Cell(pool(node("a", 1)))
    cell.waiting = [*(job(f"huge{n}", 9, minutes=10, rank=n) for n in range(40)), job("small", 1, minutes=10, rank=99)]
    *huge, small = cell.walk()
    assert {(verdict.guard, verdict.reason, verdict.detail) for verdict in huge} == {
        (None, "NoCapacity", "no node fits: 1 node with 1 free")
    }
    assert (small.placed is not None, small.ahead) == (True, 40)


def test_a_newcomer_of_higher_priority_takes_the_place_that_another_was_promised() -> None:
    cell = Cell(pool(node("a", 1)))
    cell.waiting = [job("runs", 1, minutes=60, rank=0)]
    cell.walk()
    cell.waiting = [job("first", 1, minutes=60, rank=1)]
    cell.walk()
    cell.waiting.append(job("urgent", 1, minutes=30, rank=2, priority=1))
    urgent, first = cell.walk()
    assert urgent.guard is not None
    assert urgent.guard.start == NOW + 60 * MINUTE
    assert first.guard is not None
    assert first.guard.start == NOW + 90 * MINUTE


def test_what_ends_before_its_time_lets_nobody_take_what_another_was_promised() -> None:
    """Planned anew from nothing, the first would go to the second's place: it could have that sooner than its own."""
    cell = Cell(pool(node("a", 2), node("b", 2)))
    for name, atom, minutes in (("a0", "a-g0", 20), ("a1", "a-g1", 20), ("b0", "b-g0", 15), ("b1", "b-g1", 40)):
        cell.pool.book(name, atom[0], [atom], {}, NOW, NOW + minutes * MINUTE)
    first, second = job("first", 2, minutes=60, rank=1), job("second", 1, minutes=60, rank=2)
    cell.waiting = [first, second]
    cell.walk()
    assert (first.promised, second.promised) == (NOW + 20 * MINUTE, NOW + 15 * MINUTE)
    cell.now += 5 * MINUTE
    cell.pool.unbook("b1")
    cell.walk()
    cell.advance(NOW + 20 * MINUTE)
    assert (first.started, second.started) == (NOW + 20 * MINUTE, NOW + 5 * MINUTE)


def test_a_booking_ahead_of_time_goes_around_what_others_were_promised() -> None:
    cell = Cell(pool(node("a", 1)))
    cell.waiting = [job("runs", 1, minutes=60, rank=0)]
    cell.walk()
    later = job("later", 1, minutes=60, rank=2)
    later.starts_at = NOW + 90 * MINUTE
    cell.waiting = [job("first", 1, minutes=60, rank=1), later]
    first, ahead = cell.walk()
    assert first.guard is not None
    assert first.guard.start == NOW + 60 * MINUTE
    assert (ahead.placed, ahead.reason) == (None, "QueueAhead")
    assert ahead.guard is not None, "a start that comes late keeps its end"
    assert (ahead.guard.start, ahead.guard.until) == (NOW + 120 * MINUTE, NOW + 150 * MINUTE)


def test_only_so_many_are_promised_a_start() -> None:
    cell = Cell(pool(node("a", 1)))
    cell.waiting = [job("runs", 1, minutes=60, rank=0)]
    cell.walk()
    cell.waiting = [job(f"waits{n}", 1, minutes=60, rank=n) for n in range(20)]
    verdicts = cell.walk()
    assert [verdict.guard is not None for verdict in verdicts] == [True] * queueing.GUARDS + [False] * 4
    assert [verdict.looked for verdict in verdicts[queueing.GUARDS :]] == [False] * 4


STEP = st.tuples(
    st.sampled_from(["come", "urgent", "ahead", "pass", "release"]),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 60),
    st.integers(0, 30),
)


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    gap=st.sampled_from([0, 0, 3 * MINUTE]),
    steps=st.lists(STEP, max_size=25),
    seek=st.booleans(),
)
def test_no_claim_starts_later_than_it_was_first_promised(
    sizes: list[int], gap: int, steps: list[tuple[str, int, int, int, int]], seek: bool
) -> None:
    """While nothing comes ahead of it: whatever else comes, runs, ends before its time or is booked ahead."""
    cell = Cell(pool(*(node(f"n{n}", gpus) for n, gpus in enumerate(sizes)), gap_ms=gap))
    everybody: list[Job] = []
    for rank, (what, devices, nodes, minutes, wait) in enumerate(steps):
        if what in ("come", "urgent", "ahead"):
            made = job(f"j{rank}", devices, nodes=nodes, minutes=minutes, rank=rank, priority=what == "urgent")
            if what == "ahead":
                made.starts_at = cell.now + wait * MINUTE
            everybody.append(made)
            cell.waiting.append(made)
            for other in cell.waiting:
                if other.rank > made.rank:
                    other.promised = None
        elif what == "release" and cell.running:
            cell.end(cell.running[devices % len(cell.running)])
        cell.walk(seek)
        cell.advance(cell.now + wait * MINUTE)
    cell.advance(cell.now + 10_000 * MINUTE)
    for each in everybody:
        if each.promised is not None and each.starts_at is None:
            assert each.started is not None
            assert each.started <= each.promised
        elif each.promised is not None:
            assert each.started is not None


@settings(max_examples=50, deadline=None)
@given(
    nodes=st.integers(1, 4),
    gpus=st.integers(1, 4),
    teardown=st.sampled_from([0, 1_000, 30_000]),
    stream=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 90)), min_size=1, max_size=30),
)
def test_a_gang_of_the_whole_pool_begins_although_small_claims_keep_coming(
    nodes: int, gpus: int, teardown: int, stream: list[tuple[int, int]]
) -> None:
    cell = Cell(pool(*(node(f"n{n}", gpus) for n in range(nodes))), teardown)
    gang = job("gang", gpus, nodes=nodes, minutes=60, rank=1)
    cell.waiting = [job("first", 1, minutes=stream[0][1], rank=0)]
    cell.walk()
    cell.waiting.append(gang)
    for n in range(200):
        count, minutes = stream[n % len(stream)]
        cell.waiting.append(job(f"small{n}", min(count, gpus), minutes=minutes, rank=2 + n))
        cell.advance(cell.now + 2 * MINUTE)
        if gang.started is not None:
            break
    assert gang.started is not None
    assert gang.started <= NOW + (stream[0][1] + 1) * MINUTE + teardown
