"""Usage is what the log says ran: spans against a naive reading of random lives, cut into batches of any size."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.postgres.pool import Pool, pool
from adapters.postgres.runner import writes_of
from domain import claim, reservation
from domain.event import Event, Meta, Recorded
from facts import new_id, write
from projections import usage

HOUR = 3_600_000
LINES = (claim.DeviceLine("gpu", 2), claim.DeviceLine("gpu.mig", 3), claim.DeviceLine("gpu", 1))
Spans = dict[tuple[str, str], tuple[int, int, int, int | None]]


def allocation() -> reservation.Allocation:
    return reservation.Allocation(new_id("alloc"), "node_1", "n", (), ("a",), (), {"vcpu": 4}, 1)


def drafted(dice: random.Random, nodes: int) -> reservation.Drafted:
    asked = claim.Claim(LINES[: dice.randrange(1, 4)], nodes)
    gpus = claim.gpu_count(asked, 8)
    project = dice.choice((None, "prj_1"))
    return reservation.Drafted(
        dice.choice(("acme", "globex")), "alice", "pool_1", "p", asked, 3600, "hold", False, 60, gpus, "H100",
        "eu", "b", 0, project_id=project,
    )  # fmt: skip


def placed(start: int, members: Sequence[reservation.Allocation]) -> reservation.Placed:
    claimed = reservation.Claimed((), {}, start, start + 9 * HOUR)
    return reservation.Placed(
        "pool_1", "acme", start, start + 9 * HOUR, tuple(members), claimed, 0, False, 0, queued=False
    )


def life(dice: random.Random) -> Iterator[tuple[int, Event]]:
    """One reservation's events with the instants at which they were recorded; it may stop anywhere."""
    now = dice.randrange(5 * HOUR)
    members = [allocation() for _ in range(dice.randrange(1, 4))]
    yield now, drafted(dice, len(members))
    if dice.random() < 0.2:
        yield now, reservation.Cancelled("x", now)
        return
    yield now, placed(now, members)
    if dice.random() < 0.2:
        yield now, reservation.Queued("pool_1", 0, False, 0, "NodeLost", now + HOUR)
        members = [allocation() for _ in members]
        yield now, placed(now, members)
    yield now, reservation.BindingStarted({}, now, now + HOUR)
    if dice.random() < 0.1:
        yield now, reservation.Failed("PrepareTimeout", now, True)
        return
    for member in members:
        now += dice.randrange(HOUR)
        yield now, reservation.Prepared(member.id, 1)
    yield now, reservation.Activated(now)
    for _ in range(dice.randrange(4)):
        now += dice.randrange(HOUR)
        yield from lost(dice, members, now)
    now += dice.randrange(HOUR)
    if dice.random() < 0.7:
        yield now, dice.choice((reservation.ReleaseStarted("x", now, {}), reservation.Failed("NodeLost", now, True)))
        yield now, reservation.TornDown(members[0].id, "node_1", now + HOUR)


def lost(dice: random.Random, members: list[reservation.Allocation], now: int) -> Iterator[tuple[int, Event]]:
    gone = members.pop(dice.randrange(len(members)))
    yield now, reservation.MemberLost(gone.id, "node_1", "NodeLost", now)
    members.append(allocation())
    starts_at = now + dice.randrange(HOUR)
    yield now, reservation.MemberPlaced("pool_1", "acme", members[-1], starts_at, starts_at + HOUR, 2, now)
    if dice.random() < 0.7:
        yield now + HOUR // 2, reservation.Prepared(members[-1].id, 2)
        yield now + HOUR // 2, reservation.Prepared(members[-1].id, 2)
        yield now + HOUR // 2, reservation.Mended(now + HOUR // 2)


def naive(events: Sequence[Recorded]) -> Spans:
    """Each allocation by itself: the first event that gives it to its tenant, the first after it that takes it."""
    spans: Spans = {}
    for id in {recorded.stream for recorded in events}:
        mine = [recorded for recorded in events if recorded.stream == id]
        draft = mine[0].event
        assert isinstance(draft, reservation.Drafted)
        for member in {a for one in mine for a in allocations(one.event)}:
            began, ended = interval(mine, member)
            if began is not None:
                for class_ in {line.class_ for line in draft.claim.devices}:
                    amount = sum(line.count for line in draft.claim.devices if line.class_ == class_)
                    spans[member, class_] = (amount, amount, began, ended)
    return spans


def allocations(event: Any) -> list[str]:
    match event:
        case reservation.Placed():
            return [a.id for a in event.allocations]
        case reservation.MemberPlaced():
            return [event.allocation.id]
        case _:
            return []


def interval(mine: Sequence[Recorded], member: str) -> tuple[int | None, int | None]:
    booked = next(n for n, one in enumerate(mine) if member in allocations(one.event))
    first = mine[booked].event
    began: int | None = None
    for one in mine[booked:]:
        match one.event:
            case reservation.Placed() if one.event is not first:
                return None, None
            case reservation.Activated(at=at) if isinstance(first, reservation.Placed):
                began = at
            case reservation.Prepared(allocation_id=id) if id == member and began is None:
                if isinstance(first, reservation.MemberPlaced):
                    began = max(one.recorded_at, first.starts_at)
            case reservation.MemberLost(allocation_id=id, at=at) if id == member:
                return began, None if began is None else max(began, at)
            case reservation.ReleaseStarted(at=at) | reservation.Failed(at=at):
                return began, None if began is None else max(began, at)
            case _:
                pass
    return began, None


def recorded(dice: random.Random, lives: int) -> list[Recorded]:
    """The lives as one log: each in its own order, otherwise mixed."""
    streams = {new_id("rsv"): list(life(dice)) for _ in range(lives)}
    made: list[Recorded] = []
    while streams:
        id = dice.choice(list(streams))
        at, event = streams[id].pop(0)
        made.append(Recorded(id, len(made), event, Meta("identity:acme/alice"), "e", len(made) + 1, at))
        if not streams[id]:
            del streams[id]
    return made


def kept(connections: Pool, log: Sequence[Recorded], dice: random.Random) -> Spans:
    with connections.connection() as connection, connection.transaction():
        connection.execute("DELETE FROM usage_spans")
        connection.execute("DELETE FROM usage_running")
        left = list(log)
        while left:
            cut = dice.randrange(1, 12)
            batch, left = left[:cut], left[cut:]
            if writes := writes_of(connection, [usage.apply(batch)]):
                write(connection, writes)
        rows = connection.execute(
            "SELECT allocation_id, resource, amount, gpus, starts_at, ends_at FROM usage_spans"
        ).fetchall()
    return {(id, resource): rest for id, resource, *rest in map(tuple, rows) for rest in [tuple(rest)]}  # type: ignore[misc]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), lives=st.integers(1, 12))
def test_spans_are_what_a_naive_reading_of_the_log_finds(migrated: str, seed: int, lives: int) -> None:
    dice = random.Random(seed)
    log = recorded(dice, lives)
    with pool(migrated, 1) as connections:
        assert kept(connections, log, dice) == naive(log)


def test_what_ended_leaves_nothing_beside_its_spans(migrated: str) -> None:
    dice = random.Random(1)
    log = recorded(dice, 40)
    final = (reservation.Cancelled, reservation.ReleaseStarted, reservation.Failed)
    over = {one.stream for one in log if isinstance(one.event, final)}
    with pool(migrated, 1) as connections:
        kept(connections, log, dice)
        with connections.connection() as connection:
            running = {id for (id,) in connection.execute("SELECT reservation_id FROM usage_running").fetchall()}
    assert running == {one.stream for one in log} - over


def test_a_node_counts_as_the_gpus_of_the_pools_largest() -> None:
    asked = claim.Claim((claim.DeviceLine("node", 1), claim.DeviceLine("nic.vf", 2)), 3)
    draft = reservation.Drafted(
        "acme", "alice", "pool_1", "p", asked, 3600, "node", False, 60, claim.gpu_count(asked, 8), "H100", "eu", "b", 0
    )
    assert usage.lots(draft) == (usage.Lot("nic.vf", 2, 0), usage.Lot("node", 1, 8))
