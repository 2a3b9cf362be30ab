"""From commit to visible: how long a read model needs to show what was appended at a steady rate."""

import time
from collections.abc import Sequence
from threading import Thread

from adapters.postgres.follower import Follower
from adapters.postgres.pool import Pool
from adapters.postgres.runner import Runner
from adapters.postgres.store import EventStore
from domain.event import Recorded
from projections import table
from tests.bench.store import bookings

EVENTS_AN_APPEND = 4


def measure(store: EventStore, following: Pool, numbers: range, rate: int, seconds: float) -> list[float]:
    """Milliseconds from the answer of each append until every read model had its events; `rate` in events a second."""
    committed: list[tuple[int, float]] = []
    shown: list[tuple[int, float]] = []
    running = Runner(following, table.ASYNC)

    def consume(batch: Sequence[Recorded]) -> None:
        running.apply(batch)
        shown.append((batch[-1].position, time.monotonic()))

    def write() -> None:
        pause = EVENTS_AN_APPEND / rate
        due = time.monotonic()
        for number in numbers[: int(rate * seconds / EVENTS_AN_APPEND)]:
            due += pause
            time.sleep(max(0.0, due - time.monotonic()))
            position = store.append(bookings.append(bookings.names(number)))
            committed.append((position, time.monotonic()))

    follower = Follower(following, [consume], running.load())
    follower.catch_up()
    follower.start()
    try:
        writer = Thread(target=write)
        writer.start()
        writer.join()
        assert follower.wait(committed[-1][0], 10), "the read models did not follow"
    finally:
        follower.stop()
    return _waited(committed, shown)


def _waited(committed: Sequence[tuple[int, float]], shown: Sequence[tuple[int, float]]) -> list[float]:
    waited, batches = [], iter(shown)
    reached, at = next(batches)
    for position, answered in committed:
        while reached < position:
            reached, at = next(batches)
        waited.append(1000 * max(0.0, at - answered))
    return waited
