"""Rebuilding a pool's calendar from the log, in a process of its own: `python -m tests.bench.place.rebuild`.

Events are encoded and decoded one by one, so that they share no more memory than those read from the log.
"""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from adapters.agent import machines
from adapters.calendars import Calendars
from adapters.ids import Mint
from domain import node, reservation
from domain.device import Device
from domain.event import Event, Meta, Recorded
from domain.inventory import NodeInventory
from tests.bench import figures
from tests.bench.place import pools

ROOT: Final = Path(__file__).parents[3]
POOL: Final = "pool_bench"
NODES: Final = 1_000
BATCH: Final = 500
MIB: Final = 1 << 20
META: Final = Meta("bench")
AFTER: Final = pools.NOW + 2 * pools.HORIZON_MS


def measure(rounds: int) -> str:
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        argv = [sys.executable, "-m", __spec__.name]
        told = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=180).stdout
        for name, value in json.loads(told).items():
            found.setdefault(name, []).append(value)
    rows = [(name, figures.spread(values, 1)) for name, values in found.items()]
    return figures.table(f"Rebuilding a calendar from the log, {NODES} nodes, {pools.BOOKINGS} bookings", rows)


class Feed:
    """Gives events to the calendars as the follower does, and counts the seconds that they take for them."""

    def __init__(self) -> None:
        self.calendars = Calendars(lambda: 0, lambda position, seconds: True)
        self.position = 0
        self.seconds = 0.0

    def take(self, events: Iterable[tuple[str, Event]], now: int) -> None:
        batch: list[Recorded] = []
        for stream, event in events:
            self.position += 1
            batch.append(Recorded(stream, 1, _read_back(event), META, "", self.position, now))
            if len(batch) == BATCH:
                self._consume(batch)
                batch = []
        if batch:
            self._consume(batch)

    def _consume(self, batch: list[Recorded]) -> None:
        began = time.perf_counter()
        self.calendars.consume(batch)
        self.seconds += time.perf_counter() - began


def _read_back(event: Event) -> Event:
    return msgspec.json.decode(msgspec.json.encode(event), type=type(event))


def machines_join(mint: Mint) -> Iterator[tuple[str, Event]]:
    for number in range(NODES):
        id = f"node_{number:05}"
        found = msgspec.convert(machines.inventory_for("H100", 8, number, seed="bench"), NodeInventory)
        devices = tuple(Device(f"{id}/g{i}", "gpu", True, gpu_model="H100", numa_node=i // 4) for i in range(8))
        yield id, node.Joined(f"n{number}", "site", "root", "eu", "host", "platform", "key", mint("jt"), {}, 1)
        yield id, node.Assigned("host", POOL, "root")
        yield id, node.Inventoried(found, f"hash {number}", None, False, (), "H100", 8, 1, (), pools.NOW)
        yield id, node.DevicesChanged(POOL, 1, devices, {"vcpu": 256})
        yield id, node.SchedulabilityChanged({})


Placed = list[tuple[str, reservation.Placed]]


def bookings(mint: Mint) -> Iterator[tuple[str, reservation.Placed]]:
    drawn = pools.booked(NODES, seed=NODES)
    for held in list(drawn.bookings.values()):
        allocation = reservation.Allocation(
            mint("alloc"), held.node_id, f"n{held.node_id}", ("10.0.0.1",), held.atoms, held.atoms, {"vcpu": 1}, 1
        )
        claimed = reservation.Claimed(("tenant",), {"gpu": len(held.atoms)}, held.start, held.until)
        yield (
            mint("rsv"),
            reservation.Placed(
                POOL, "acme", held.start, held.until, (allocation,), claimed, 0, False, pools.NOW, False
            ),
        )


def ends(placed: Placed) -> Iterator[tuple[str, Event]]:
    for reservation_id, event in placed:
        yield reservation_id, reservation.ReleaseStarted("Ended", event.ends_at, {})
        for allocation in event.allocations:
            yield reservation_id, reservation.TornDown(allocation.id, allocation.node_id, event.ends_at)


def resident() -> float:
    """MiB that this process holds, by the kernel."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / MIB


def main() -> None:
    mint = Mint()
    placed = list(bookings(mint))
    before, feed = resident(), Feed()
    told: dict[str, float] = {}

    def step(name: str, events: Iterable[tuple[str, Event]], now: int) -> None:
        spent = feed.seconds
        feed.take(events, now)
        told[f"{name}, s"] = feed.seconds - spent
        told[f"  held after {name}, MiB"] = resident() - before

    step(f"{NODES} nodes", machines_join(mint), pools.NOW)
    step(f"{pools.BOOKINGS} bookings", placed, pools.NOW)
    step("their ends", ends(placed), AFTER)
    again = [(mint("rsv"), event) for _, event in placed]
    step(f"{pools.BOOKINGS} that are long over", _alternating(again), AFTER)
    json.dump(told, sys.stdout)


def _alternating(placed: Placed) -> Iterator[tuple[str, Event]]:
    """Each placed and ended before the next, as a log of the past has them."""
    for one in placed:
        yield one
        yield from ends([one])


if __name__ == "__main__":
    main()
