"""Threads that all begin at once and do one thing again and again; what they did and how long each took."""

import time
from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from typing import Final, NamedTuple

THREADS: Final = 8

Work = Callable[[int], None]
"""One more of what is measured; its number counts up without end and is met once."""


class Run(NamedTuple):
    """`done` in `seconds`, by threads that took `cpu` seconds of processor time; `micros` is each one's latency."""

    done: int
    seconds: float
    cpu: float
    micros: list[int]

    @property
    def rate(self) -> float:
        return self.done / self.seconds


def run(works: Sequence[Work], numbers: range, seconds: float) -> Run:
    """Let each thread do its work for so long; the numbers of `numbers` are dealt out in turn."""
    start = Barrier(len(works) + 1)
    micros: list[list[int]] = [[] for _ in works]
    faults: list[BaseException] = []

    def loop(mine: int) -> None:
        work, taken, clock = works[mine], micros[mine], time.perf_counter_ns
        start.wait()
        end = clock() + int(seconds * 1e9)
        try:
            for number in numbers[mine :: len(works)]:
                began = clock()
                if began > end:
                    return
                work(number)
                taken.append((clock() - began) // 1000)
            raise RuntimeError(f"there were only {len(numbers)} to do in {seconds} s")
        except BaseException as fault:
            faults.append(fault)

    threads = [Thread(target=loop, args=(n,)) for n in range(len(works))]
    for thread in threads:
        thread.start()
    start.wait()
    began, cpu = time.monotonic(), time.process_time()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    if faults:
        raise faults[0]
    return Run(sum(map(len, micros)), took, time.process_time() - cpu, [m for one in micros for m in one])
