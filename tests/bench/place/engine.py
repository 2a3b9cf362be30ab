"""The engine alone: what choosing a place costs in pools of several sizes, with as many bookings in each.

Times are of the processor: it waits for nothing, and who else uses the machine is no part of the question.
"""

import gc
import random
import time
from collections import defaultdict, deque
from typing import Final

from domain import calendar, claim, placement
from tests.bench import figures
from tests.bench.place import pools

SIZES: Final = (1_000, 10_000)
STEP_MS: Final = 5_000
"""Time that passes with each placement."""
KEPT: Final = 20
"""So many placements later one is cancelled, so that a pool is as full at the end as at the start."""
GOAL_MS: Final = 2.0
GOAL_RATIO: Final = 1.5


def gpus(count: int, nodes: int = 1) -> claim.Claim:
    return claim.Claim((claim.DeviceLine("gpu", count),), nodes)


ASKS: Final = {"one GPU": gpus(1), "a whole node": gpus(8), "16 whole nodes": gpus(8, 16)}
AHEAD: Final = (False, True)


class NoSelectors:
    def compile(self, text: str, field: str = "selector") -> placement.selector.Selector:
        raise AssertionError(text)


class Scene:
    """One pool at an instant that moves on; `placed` are those that were not cancelled yet."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.calendar = pools.booked(nodes, seed)
        self.dice = random.Random(seed)
        self.now = pools.NOW
        self.count = 0
        self.placed: deque[list[str]] = deque()

    def place(self, asked: claim.Claim, ahead: bool) -> tuple[float, float, bool]:
        """Seconds of choosing, seconds of all that a placement does to the calendar, and whether there was room."""
        self.now += STEP_MS
        self.count += 1
        start = self.now + (self.dice.randrange(pools.HORIZON_MS) if ahead else 0)
        until = start + self.dice.randrange(pools.HOUR_MS, 12 * pools.HOUR_MS)
        began = time.thread_time()
        found = placement.place(self.calendar, asked, (start, until), f"rsv_{self.count}", NoSelectors())
        chosen = time.thread_time()
        keys = self._book(found, start, until)
        self.calendar.forget_before(self.now)
        done = time.thread_time()
        self.placed.append(keys)
        if len(self.placed) > KEPT:
            for key in self.placed.popleft():
                self.calendar.unbook(key)
        return chosen - began, done - began, bool(keys)

    def _book(self, found: placement.Placement | placement.Refusal, start: int, until: int) -> list[str]:
        keys = []
        for member in found.members if isinstance(found, placement.Placement) else ():
            keys.append(f"new_{self.count}_{len(keys)}")
            self.calendar.book(keys[-1], member.node_id, member.atoms, member.scalars, start, until)
        return keys


Cell = tuple[str, bool, int]
"""What is asked, whether ahead, of how many nodes."""


class Figures:
    """By cell and round: p50 and p99 in ms of choosing alone and with booking, placements a second, share refused."""

    def __init__(self) -> None:
        self.choosing: dict[Cell, list[float]] = defaultdict(list)
        self.p50: dict[Cell, list[float]] = defaultdict(list)
        self.p99: dict[Cell, list[float]] = defaultdict(list)
        self.rate: dict[Cell, list[float]] = defaultdict(list)
        self.refused: dict[Cell, list[float]] = defaultdict(list)

    def add(self, cell: Cell, times: list[tuple[float, float, bool]]) -> None:
        whole = [spent * 1000 for _, spent, _ in times]
        self.choosing[cell].append(figures.percentile([chosen * 1000 for chosen, _, _ in times], 0.99))
        self.p50[cell].append(figures.percentile(whole, 0.5))
        self.p99[cell].append(figures.percentile(whole, 0.99))
        self.rate[cell].append(1000 * len(whole) / sum(whole))
        self.refused[cell].append(sum(not placed for _, _, placed in times) / len(times))

    def rows(self) -> list[tuple[str, str]]:
        found = []
        for name, ahead, size in self.p50:
            cell = name, ahead, size
            title = f"{name}, {'ahead' if ahead else 'now'}, {size} nodes"
            found += [
                (f"{title}: placements a second", figures.spread(self.rate[cell])),
                ("  p50, ms", figures.spread(self.p50[cell], 2)),
                (f"  p99, ms (goal {GOAL_MS:g})", figures.spread(self.p99[cell], 2)),
                ("  p99 of choosing alone, ms", figures.spread(self.choosing[cell], 2)),
            ]
            if any(self.refused[cell]):
                found.append(("  found no room, share", figures.spread(self.refused[cell], 2)))
        small, large = SIZES
        for name, ahead, size in self.p50:
            if size == large:
                costs = figures.ratio(self.rate[name, ahead, small], self.rate[name, ahead, large])
                title = f"{large} to {small} nodes, {name}, {'ahead' if ahead else 'now'}"
                found.append((f"{title} (goal {GOAL_RATIO:g})", costs))
        return found


def measure(rounds: int, seconds: float) -> str:
    """Cells take turns, so that a noisy minute reaches all of them; each has its seconds."""
    scenes = {size: Scene(size, seed=size) for size in SIZES}
    kept = Figures()
    for _ in range(rounds):
        for ahead in AHEAD:
            for name, asked in ASKS.items():
                for size, scene in scenes.items():
                    gc.collect()
                    kept.add((name, ahead, size), _for(seconds, scene, asked, ahead))
    return figures.table(f"The engine alone, {pools.BOOKINGS} bookings in 30 days", kept.rows())


def _for(seconds: float, scene: Scene, asked: claim.Claim, ahead: bool) -> list[tuple[float, float, bool]]:
    until, times = time.perf_counter() + seconds, []
    while time.perf_counter() < until:
        times.append(scene.place(asked, ahead))
    return times


def earliest(rounds: int) -> str:
    """How long it takes to say when a pool that is full has room again."""
    found: dict[str, list[float]] = defaultdict(list)
    for size in SIZES:
        made = pools.full(size, seed=size)
        for _ in range(rounds):
            for name, asked in ASKS.items():
                gc.collect()
                found[f"{name}, {size} nodes"].append(_ask(made, asked))
    rows = [(f"{title}, ms", figures.spread(times, 1)) for title, times in found.items()]
    return figures.table("Earliest start in a pool that is full for 30 days, but for holes of ten minutes", rows)


def _ask(made: calendar.Calendar, asked: claim.Claim) -> float:
    began = time.thread_time()
    start = placement.earliest_start(made, asked, pools.HOUR_MS, pools.NOW, None, NoSelectors())
    assert start is not None
    return (time.thread_time() - began) * 1000
