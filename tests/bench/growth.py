"""`python -m tests.bench.growth`: what the event table costs as the log grows, plain and in hash partitions.

Both layouts are databases of one durable server in a temporary directory, and take turns cell by cell. Autovacuum is
off, so that no cell meets it and what vacuuming costs is seen by itself. Nothing of the plane runs: it is the
statements of its recorder and reader that are measured.
"""

import argparse
import itertools
import os
import random
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final, LiteralString

import psycopg

from adapters.postgres import embedded, reader, recorder
from tests.bench import figures, growth_log
from tests.bench.__main__ import home, machine
from tests.bench.growth_log import LAYOUTS, LONG, PARTITIONED, PLAIN, SHORT, Log

WRITERS: Final = 8
BATCH: Final = 500
REPEATS: Final = 3
"""Of what is timed as a whole and can be done again at once."""
SAMPLE: Final = {SHORT: 2000, LONG: 100}
"""Streams that stay warm: some 60,000 pages of the heap, which shared_buffers of 256 MB does not hold."""
BYTES_AN_EVENT: Final = 800
SPARE_BYTES: Final = 5_000_000_000
GET_READY_S: Final = 0.05
MB: Final = 1e6
GENERIC: Final = "generic plan forced"
SIZES: Final = ("heap, MB", "index of the primary key, MB", "index of positions, MB", "all bytes an event")

Connection = psycopg.Connection[Any]
Step = Callable[[Connection], int]

_STREAM: LiteralString = """
SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
FROM stored_events
WHERE originator_id = %s AND originator_version > %s AND originator_version <= %s
ORDER BY originator_version
"""
_SIZES: LiteralString = """
WITH tables AS (
    SELECT oid FROM pg_class WHERE oid = 'stored_events'::regclass AND relkind = 'r'
    UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'stored_events'::regclass
)
SELECT
    (SELECT sum(pg_relation_size(oid)) FROM tables),
    sum(pg_relation_size(indexrelid)) FILTER (WHERE indisprimary),
    sum(pg_relation_size(indexrelid)) FILTER (WHERE NOT indisprimary)
FROM pg_index JOIN tables ON indrelid = oid
"""
_COPY: LiteralString = "COPY (SELECT * FROM stored_events) TO '/dev/null' (FORMAT binary)"


class Writer:
    """One connection that appends as a log grows: mostly short streams, begun and continued, and its own share of the
    long ones."""

    def __init__(self, dsn: str, log: Log, number: int, fresh: Iterator[int]) -> None:
        self.connection = growth_log.connect(dsn)
        self._fresh = fresh
        self._open: list[tuple[str, int]] = []
        self._nodes = [(growth_log.node(n), LONG) for n in range(number, log.nodes, WRITERS)]

    def run(self, many: int, begin: float, seconds: float) -> int:
        """Append `many` events a transaction from this instant on; return the events."""
        time.sleep(max(0.0, begin - time.monotonic()))
        done = 0
        while time.monotonic() < begin + seconds:
            streams, versions = zip(*(self._next() for _ in range(many)), strict=True)
            states = [growth_log.state() for _ in range(many)]
            given = ([*streams], [*versions], [growth_log.TOPIC] * many, states)
            done += len(self.connection.execute(recorder.INSERT, given, prepare=True).fetchall())
        return done

    def _next(self) -> tuple[str, int]:
        if self._nodes and random.random() < 0.1:
            return _advance(self._nodes, random.randrange(len(self._nodes)))
        if not self._open or random.random() < 1 / SHORT:
            self._open.append((growth_log.reservation(next(self._fresh)), 0))
        at = random.randrange(len(self._open))
        stream, version = _advance(self._open, at)
        if version == SHORT:
            del self._open[at]
        return stream, version


def _advance(streams: list[tuple[str, int]], at: int) -> tuple[str, int]:
    streams[at] = (streams[at][0], streams[at][1] + 1)
    return streams[at]


def loading(streams: list[str], length: int) -> Step:
    """Load one of the streams, whole."""

    def step(connection: Connection) -> int:
        _whole(connection, random.choice(streams), length)
        return 1

    return step


def _whole(connection: Connection, stream: str, length: int) -> None:
    rows = connection.execute(_STREAM, (stream, 0, length), prepare=True, binary=True).fetchall()
    if len(rows) != length:
        raise RuntimeError(f"{stream} has {len(rows)} events, not {length}")


def walking(start: int) -> Step:
    """Read the next batch after this position, and from there on; at the end of the log from the start again."""
    at = start

    def step(connection: Connection) -> int:
        nonlocal at
        rows = connection.execute(reader.AFTER, (at, BATCH), prepare=True, binary=True).fetchall()
        at = rows[-1][4] if rows else start
        return len(rows)

    return step


def polling(after: int) -> Step:
    """Ask again and again for what comes after one position."""

    def step(connection: Connection) -> int:
        connection.execute(reader.AFTER, (after, BATCH), prepare=True, binary=True).fetchall()
        return 1

    return step


def rate(step: Step, connection: Connection, seconds: float) -> float:
    began = now = time.monotonic()
    done = 0
    while now < began + seconds:
        done += step(connection)
        now = time.monotonic()
    return done / (now - began)


class Growth:
    """One log in both layouts; `cells` keeps by layout what was measured, under the name of the table's row."""

    def __init__(self, dsns: dict[str, str], log: Log, seconds: float, rounds: int) -> None:
        self.dsns = dsns
        self.log = log
        self.seconds = seconds
        self.rounds = rounds
        self.cells: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.spent: dict[str, float] = {}
        chosen = random.Random(log.events)
        shorts = chosen.sample(range(log.reservations), min(SAMPLE[SHORT], log.reservations))
        longs = chosen.sample(range(log.nodes), min(SAMPLE[LONG], log.nodes))
        self.warm = {SHORT: [*map(growth_log.reservation, shorts)], LONG: [*map(growth_log.node, longs)]}

    def measure(self) -> None:
        for phase in (self.fill, self.care, self.read, self.append, self.care_again):
            began = time.monotonic()
            phase()
            self.spent[phase.__name__] = time.monotonic() - began
            print(f"{self.log.events} events, {phase.__name__}: {self.spent[phase.__name__]:.0f} s", file=sys.stderr)

    def fill(self) -> None:
        with ThreadPoolExecutor(len(LAYOUTS)) as threads:
            took = threads.map(lambda layout: growth_log.fill(self.dsns[layout], self.log), LAYOUTS)
            for layout, seconds in zip(LAYOUTS, took, strict=True):
                self.cells["filled inside the server, both at once, events/s"][layout] = [self.log.events / seconds]

    def care(self) -> None:
        with self.connections() as connections:
            for layout, connection in connections.items():
                connection.execute("CHECKPOINT")
                self.time("VACUUM (FREEZE) after filling, s", layout, "VACUUM (FREEZE) stored_events")
                self.time("COPY all to /dev/null, binary, s", layout, _COPY)
                for row, size in zip(SIZES, _sizes(connection, self.log.events), strict=True):
                    self.cells[row][layout] = [size]
            for _, layout in itertools.product(range(REPEATS), LAYOUTS):
                self.time("VACUUM again, with nothing to do, s", layout, "VACUUM stored_events")
                self.time("ANALYZE, s", layout, "ANALYZE stored_events")

    def care_again(self) -> None:
        for layout in LAYOUTS:
            self.time("VACUUM after the appends, s", layout, "VACUUM stored_events")
            self.time("REINDEX, s", layout, "REINDEX TABLE stored_events")
            with growth_log.connect(self.dsns[layout]) as connection:
                dense = _sizes(connection, self.log.events)
                self.cells["both indexes after REINDEX, with the appends, MB"][layout] = [dense[1] + dense[2]]

    def time(self, row: str, layout: str, statement: LiteralString) -> None:
        """Seconds of a statement and, of a vacuum that writes, its WAL."""
        with growth_log.connect(self.dsns[layout]) as connection:
            before, began = _wal(connection), time.monotonic()
            connection.execute(statement)
            self.cells[row][layout].append(time.monotonic() - began)
            if "FREEZE" in statement:
                self.cells["  its WAL, MB"][layout].append((_wal(connection) - before) / MB)

    def read(self) -> None:
        """A first round warms up and does not count."""
        with self.connections() as connections:
            for connection in connections.values():
                for length, streams in self.warm.items():
                    for stream in streams:
                        _whole(connection, stream, length)
            for number in range(self.rounds + 1):
                for name, make in self.reading().items():
                    mode = "force_generic_plan" if name.endswith(GENERIC) else "auto"
                    for layout in _turns(number):
                        connections[layout].execute(f"SET plan_cache_mode = {mode}".encode())
                        found = rate(make(), connections[layout], self.seconds)
                        if number:
                            self.cells[name][layout].append(found)

    def reading(self) -> dict[str, Callable[[], Step]]:
        """What to read, each made anew for every cell."""
        warm, last = self.warm, self.log.events
        return {
            "load 5 events, warm, loads/s": lambda: loading(warm[SHORT], SHORT),
            f"load 5 events, warm, loads/s, {GENERIC}": lambda: loading(warm[SHORT], SHORT),
            "load 5 events, of any age, loads/s": self.loading_any,
            "load 500 events, warm, loads/s": lambda: loading(warm[LONG], LONG),
            "read in order from the start, events/s": lambda: walking(0),
            "read in order from the middle, events/s": lambda: walking(last // 2),
            "read the last 500, reads/s": lambda: polling(last - BATCH),
            "read with nothing new, reads/s": lambda: polling(last),
            f"read with nothing new, reads/s, {GENERIC}": lambda: polling(last),
        }

    def loading_any(self) -> Step:
        def step(connection: Connection) -> int:
            _whole(connection, growth_log.reservation(random.randrange(self.log.reservations)), SHORT)
            return 1

        return step

    def append(self) -> None:
        """A first round warms up and does not count; what it writes stays, so that a small log grows by its cells."""
        fresh = itertools.count(self.log.reservations)
        with ExitStack() as stack, self.connections() as connections, ThreadPoolExecutor(WRITERS) as threads:
            writers = {
                layout: [Writer(dsn, self.log, n, fresh) for n in range(WRITERS)] for layout, dsn in self.dsns.items()
            }
            for writer in itertools.chain(*writers.values()):
                stack.enter_context(writer.connection)
            connections[PLAIN].execute("CHECKPOINT")
            for number, many in itertools.product(range(self.rounds + 1), (1, 10)):
                for layout in _turns(number):
                    before, begin = _wal(connections[layout]), time.monotonic() + GET_READY_S
                    took = threads.map(lambda w, *job: w.run(*job), writers[layout], *_jobs(many, begin, self.seconds))
                    done = sum(took)
                    if number:
                        row = f"append {many} a transaction, {WRITERS} threads, events/s"
                        self.cells[row][layout].append(done / self.seconds)
                        wal = (_wal(connections[layout]) - before) / done
                        self.cells[f"  WAL bytes an event, {many} a transaction"][layout].append(wal)

    @contextmanager
    def connections(self) -> Iterator[dict[str, Connection]]:
        with ExitStack() as stack:
            yield {layout: stack.enter_context(growth_log.connect(dsn)) for layout, dsn in self.dsns.items()}


def _sizes(connection: Connection, events: int) -> list[float]:
    heap, key, position = map(int, connection.execute(_SIZES).fetchall()[0])
    return [heap / MB, key / MB, position / MB, (heap + key + position) / events]


def _wal(connection: Connection) -> int:
    """Bytes of WAL that the server has written so far."""
    return int(connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchall()[0][0])


def _jobs(*job: float) -> list[list[Any]]:
    return [[part] * WRITERS for part in job]


def _turns(number: int) -> tuple[str, ...]:
    return LAYOUTS if number % 2 else LAYOUTS[::-1]


def report(measured: list[Growth]) -> str:
    """One table: under each measure its figures at every size, in both layouts, and their ratio."""
    rows = [("", f"{PLAIN:<26}{PARTITIONED:<26}{PARTITIONED} / {PLAIN}")]
    for name in dict.fromkeys(itertools.chain.from_iterable(growth.cells for growth in measured)):
        rows.append((name, ""))
        for growth in measured:
            of = growth.cells[name]
            shown = "".join(f"{_shown(of[layout]):<26}" for layout in LAYOUTS)
            rows.append((f"{growth.log.events:>16,} events", f"{shown}{_ratio(of[PARTITIONED], of[PLAIN])}"))
    title = f"The event table, {PLAIN} and in {PARTITIONED}"
    return figures.table(title, [(name, value.rstrip()) for name, value in rows])


def _shown(values: list[float]) -> str:
    largest = max(values, default=0.0)
    digits = 0 if largest >= 100 else 1 if largest >= 10 else 3
    return f"{values[0]:.{digits}f}" if len(values) == 1 else figures.spread(values, digits)


def _ratio(above: list[float], below: list[float]) -> str:
    if len(above) == 1 and len(below) == 1:
        return f"{above[0] / below[0]:.2f}" if below[0] else "none"
    return figures.ratio(above, below) if len(above) == len(below) else "none"


def sizes(text: str) -> list[int]:
    found = [int(size) for size in text.split(",")]
    if any(size <= 0 or size % growth_log.STEP for size in found):
        raise argparse.ArgumentTypeError(f"a size is a multiple of {growth_log.STEP}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__)
    parser.add_argument("--sizes", type=sizes, default="10000,1000000,20000000", help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each cell of a round; default 1.5")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    measured: list[Growth] = []
    with home() as place:
        needed = max(options.sizes) * BYTES_AN_EVENT * len(LAYOUTS) + SPARE_BYTES
        if shutil.disk_usage(place).free < needed:
            parser.error(f"{place} needs {needed / 1e9:.0f} GB free")
        try:
            with embedded.running(place / "data") as dsn:
                print(machine(dsn), end="", flush=True)
                print(f"memory {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.1f} GB\n", flush=True)
                run(dsn, options, measured)
        finally:
            print(report(measured), flush=True)
    print(f"median (lowest-highest) of {options.rounds} rounds of {options.seconds:g} s a cell;", end=" ")
    print(f"all took {time.monotonic() - began:.0f} s")
    for growth in measured:
        spent = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in growth.spent.items())
        print(f"{growth.log.events:,} events: {spent}")


def run(server: str, options: argparse.Namespace, measured: list[Growth]) -> None:
    """Size by size, each with databases of its own, dropped before the next."""
    with growth_log.connect(server) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")
    for events in options.sizes:
        dsns = {layout: growth_log.create(server, layout) for layout in LAYOUTS}
        measured.append(Growth(dsns, Log(events), options.seconds, options.rounds))
        measured[-1].measure()
        for layout in LAYOUTS:
            growth_log.drop(server, layout)


if __name__ == "__main__":
    main()
