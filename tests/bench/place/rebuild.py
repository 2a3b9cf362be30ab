"""Rebuilding a pool's calendar from the log, in a process of its own: `python -m tests.bench.place.rebuild FILE`.

The file has the events, one a line, as the log would give them: what they hold in memory is theirs alone. Seconds are
of the processor, and only what the calendars take; memory is what the kernel says the process has more than before.
"""

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.agent import machines
from adapters.calendars import Calendars
from adapters.ids import Mint
from domain import node, registry, reservation
from domain.device import Device
from domain.event import Event, Meta, Recorded, tag
from domain.inventory import NodeInventory
from tests.bench import figures
from tests.bench.place import pools

ROOT: Final = Path(__file__).parents[3]
POOL: Final = "pool_bench"
NODES: Final = 1_000
BATCH: Final = 500
ENDED: Final = 10_000
MIB: Final = 1 << 20
META: Final = Meta("bench")
AFTER: Final = pools.NOW + 2 * pools.HORIZON_MS


def measure(rounds: int) -> str:
    found: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as place:
        events = Path(place) / "events.jsonl"
        write(events)
        for _ in range(rounds):
            argv = [sys.executable, "-m", __spec__.name, str(events)]
            told = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=180).stdout
            for name, value in json.loads(told).items():
                found[name].append(value)
    rows = [(name, figures.spread(values, 2 if name.endswith(", s") else 0)) for name, values in found.items()]
    return figures.table(f"Rebuilding a calendar from the log, {NODES} nodes, {pools.BOOKINGS} bookings", rows)


def write(file: Path) -> None:
    """The steps of a log: nodes that join, bookings of the future, and as many again that are long over."""
    mint = Mint()
    placed = list(bookings(mint))
    over = [(mint("rsv"), event) for _, event in placed[:ENDED]]
    steps: dict[str, Iterable[tuple[str, Event]]] = {
        f"{NODES} nodes": machines_join(mint),
        f"{pools.BOOKINGS} bookings": placed,
        f"{ENDED} of them ended": ends(placed[:ENDED]),
        f"{ENDED} more, each ended": chain.from_iterable([one, *ends([one])] for one in over),
    }
    with file.open("wb") as out:
        for name, events in steps.items():
            now = AFTER if "more" in name else pools.NOW
            for stream, event in events:
                out.write(msgspec.json.encode(Line(name, now, stream, tag(event), event)) + b"\n")


class Line(msgspec.Struct, array_like=True):
    """What is read of a line leaves the event as it was written."""

    step: str
    now: int
    stream: str
    topic: str
    event: Any


class Read(Line, array_like=True):
    event: msgspec.Raw


LINE: Final = msgspec.json.Decoder(Read)


class Feed:
    """Gives events to the calendars as the follower does, and counts the seconds that they take for them."""

    def __init__(self) -> None:
        self.calendars = Calendars(lambda: 0, lambda position, seconds: True)
        self.position = 0
        self.told: dict[str, float] = {}

    def take(self, step: str, lines: Iterable[bytes], before: float) -> None:
        spent = 0.0
        rest = iter(lines)
        while batch := [self._read(line) for line in islice(rest, BATCH)]:
            began = time.process_time()
            self.calendars.consume(batch)
            spent += time.process_time() - began
        self.told[f"{step}, s"] = spent
        self.told[f"  held after {step}, MiB"] = resident() - before

    def _read(self, line: bytes) -> Recorded:
        read = LINE.decode(line)
        self.position += 1
        event = msgspec.json.decode(read.event, type=registry.TYPES[read.topic])
        return Recorded(read.stream, 1, event, META, "", self.position, read.now)


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
    feed, before = Feed(), resident()
    with open(sys.argv[1], "rb") as lines:
        for step, of in groupby(lines, key=lambda line: LINE.decode(line).step):
            feed.take(step, of, before)
            if step == f"{pools.BOOKINGS} bookings":
                began = time.process_time()
                with feed.calendars.locked(POOL) as calendar:
                    calendar.census("gpu", pools.NOW)
                feed.told["  the first question asked, s"] = time.process_time() - began
                feed.told["  held after the first question, MiB"] = resident() - before
    json.dump(feed.told, sys.stdout)


if __name__ == "__main__":
    main()
