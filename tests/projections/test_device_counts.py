"""Counts of devices are what a naive reading of the log finds, at each position and however its batches are cut."""

import random
from collections import Counter
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.postgres.pool import Pool, pool
from adapters.postgres.runner import writes_of
from domain import node
from domain.device import Device
from domain.event import Event, Meta, Recorded
from facts import write
from projections import device_counts

NODES = ("node_1", "node_2", "node_3")
Counts = dict[tuple[str, str, str], int]
"""By node, pool and class."""


def said(dice: random.Random) -> Event:
    if dice.random() < 0.2:
        return node.Assigned("unassigned", None, "acme")
    if dice.random() < 0.2:
        return node.SchedulabilityChanged({})
    classes = [dice.choice(("gpu", "gpu.mig", "disk")) for _ in range(dice.randrange(5))]
    devices = tuple(Device(f"d{n}", class_, dice.random() < 0.8) for n, class_ in enumerate(classes))
    return node.DevicesChanged(dice.choice((None, "pool_1", "pool_2")), 1, devices, {})


def naive(log: Sequence[Recorded]) -> Counts:
    found: dict[str, Counts] = {}
    for one in log:
        match one.event:
            case node.DevicesChanged(pool_id=pool_id, devices=devices):
                found[one.stream] = Counter(
                    (one.stream, pool_id, device.class_) for device in devices if device.bookable and pool_id
                )
            case node.Assigned():
                found[one.stream] = {}
    return {key: many for counts in found.values() for key, many in counts.items()}


def told(connections: Pool, rows: str, position: int = 0) -> Counts:
    sql = f"SELECT node_id, pool_id, class, devices FROM {rows} AS counted".encode()
    with connections.connection() as connection:
        return {tuple(key): many for *key, many in connection.execute(sql, {"_as_of": position})}  # type: ignore[misc]


def take_in(connections: Pool, log: Sequence[Recorded], dice: random.Random) -> None:
    with connections.connection() as connection, connection.transaction():
        connection.execute("DELETE FROM device_counts_history")
        left = list(log)
        while left:
            cut = dice.randrange(1, 12)
            batch, left = left[:cut], left[cut:]
            if writes := writes_of(connection, [device_counts.apply(batch)]):
                write(connection, writes)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), events=st.integers(1, 40))
def test_counts_are_what_a_naive_reading_of_the_log_finds(migrated: str, seed: int, events: int) -> None:
    dice = random.Random(seed)
    log = [Recorded(dice.choice(NODES), n, said(dice), Meta("controller:x"), "e", n + 1, n) for n in range(events)]
    with pool(migrated, 1) as connections:
        take_in(connections, log, dice)
        assert told(connections, device_counts.NOW) == naive(log)
        for position in range(events + 1):
            assert told(connections, device_counts.THEN, position) == naive(log[:position])
