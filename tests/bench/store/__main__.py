"""`python -m tests.bench.store`: the event store and the projections, beside what PostgreSQL could do at most.

One durable server; cells take turns, round by round, so that a noisy minute reaches all of them. Figures are medians of
the rounds with the lowest and the highest in brackets, ratios are taken round by round.
"""

import argparse
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import psycopg

from adapters.postgres.pool import pool
from adapters.postgres.store import EventStore
from projections import reservations, table
from tests.bench import figures
from tests.bench.store import bookings, catching_up, crowd, databases, events, full, history, lag, limit, rebuilding
from tests.bench.store.crowd import Run, Work

STOCK, PLAIN, OURS = "the library's recorder", "plain psycopg", "ours"
STATEMENTS, PIPELINE, FUNCTION, PGBENCH = "statement by statement", "psycopg's pipeline", "function", "pgbench"
GATE, QUOTA = "ours, all on one node's gate", "ours, all on one quota"
LAG_EVENTS: Final = 500
AT_MOST: Final = 6_000
"""Appends a second for which numbers are dealt out: more than any cell can do."""

Cells = dict[str, list[Run]]


class Numbers:
    """Every number is given out once."""

    def __init__(self, first: int = 0) -> None:
        self._next = first

    def some(self, how_many: float) -> range:
        start = -(-self._next // bookings.NODES) * bookings.NODES
        self._next = start + int(how_many)
        return range(start, self._next)


def one_event(dsn: str, rounds: int, seconds: float) -> str:
    cells: Cells = defaultdict(list)
    numbers = Numbers()
    ways: dict[str, Callable[[str], AbstractContextManager[list[Work]]]] = {
        STOCK: events.stock,
        PLAIN: events.plain,
        OURS: events.ours,
    }
    for _ in range(rounds):
        for name, way in ways.items():
            with way(dsn) as works:
                cells[name].append(crowd.run(works, numbers.some(AT_MOST * 2 * seconds), seconds))
    rows = _rows(cells)
    rows += [(f"ratio of ours to {name}", _ratio(cells, OURS, name)) for name in (STOCK, PLAIN)]
    return figures.table("Append of one event, 8 threads, transactions a second", rows)


def full_append(dsn: str, rounds: int, seconds: float) -> str:
    cells: Cells = defaultdict(list)
    numbers = Numbers()
    with pool(dsn, 12, by_key=True) as connections, psycopg.connect(dsn, autocommit=True) as connection:
        store = databases.fleet(connections)
        limit.define(connection, full.steps())
        for _ in range(rounds):
            bookings.clear(connection)
            for name, cell in _full_cells(dsn, store, numbers, seconds).items():
                cells[name].append(cell())
    rows = _rows(cells)
    rows += [(f"ratio of ours to {name}", _ratio(cells, OURS, name)) for name in (PGBENCH, FUNCTION, PIPELINE)]
    return figures.table("Full append (gates, quota, 8 bookings, keys, catalog, 4 events), 8 at once", rows)


def _full_cells(dsn: str, store: EventStore, numbers: Numbers, seconds: float) -> dict[str, Callable[[], Run]]:
    def ours(share: float = 1, **where: int) -> Run:
        mine = numbers.some(share * AT_MOST * seconds)
        return crowd.run(full.ours(store, mine, **where), mine, seconds)

    def sent(send: full.Send) -> Run:
        mine = numbers.some(AT_MOST / 3 * seconds)
        with full.sent(dsn, mine, send) as works:
            return crowd.run(works, mine, seconds)

    def called() -> Run:
        mine = numbers.some(AT_MOST * seconds)
        with full.called(dsn) as works:
            return crowd.run(works, mine, seconds)

    def pgbench() -> Run:
        mine = numbers.some(AT_MOST * seconds)
        return limit.pgbench(dsn, mine.start, seconds, "SELECT full_append(:number)")

    return {
        OURS: ours,
        PGBENCH: pgbench,
        STATEMENTS: lambda: sent(limit.statement_by_statement),
        PIPELINE: lambda: sent(limit.pipelined),
        FUNCTION: called,
        GATE: lambda: ours(0.5, node=0),
        QUOTA: lambda: ours(0.5, scope=0),
    }


def projections(dsn: str, rounds: int, seconds: float, length: int) -> str:
    rates: dict[str, list[float]] = defaultdict(list)
    waits: list[float] = []
    with pool(dsn, 8, by_key=True) as connections, psycopg.connect(dsn, autocommit=True) as connection:
        store = databases.fleet(connections)
        read = history.write(connection, length)
        for _ in range(rounds):
            for name, way in (
                ("the library's runner, one read model", lambda: catching_up.stock(dsn, length // 2, seconds)),
                ("a loop by hand, one read model", lambda: catching_up.by_hand(dsn)),
                ("ours, one read model", lambda: catching_up.ours(connections, [reservations.PROJECTION])),
                (f"ours, all {len(table.ASYNC)}", lambda: catching_up.ours(connections, table.ASYNC)),
            ):
                catching_up.clear(connection)
                rates[name].append(way())
        numbers = range(read, read + 10**6)
        for _ in range(rounds):
            waits += lag.measure(store, connections, numbers, LAG_EVENTS, seconds)
            numbers = numbers[10_000:]
    stock, hand, one, _ = rates.values()
    rows = [(f"caught up by {name}, events a second", figures.spread(found)) for name, found in rates.items()]
    rows += [("ratio of ours to the library's runner", figures.ratio(one, stock))]
    rows += [("ratio of ours to the loop by hand", figures.ratio(one, hand))]
    rows += [
        (f"lag at {LAG_EVENTS} events a second, {name}, ms", f"{figures.percentile(waits, share):.1f}")
        for name, share in (("median", 0.5), ("p99", 0.99), ("most", 1.0))
    ]
    return figures.table("Projections", rows)


def long_log(dsn: Callable[[str], str], rounds: int, seconds: float, length: int) -> str:
    """Rebuilding from a long log, and what appends and loads cost on it beside a short one."""
    rows: list[tuple[str, str]] = []
    cells: Cells = defaultdict(list)
    logs: list[tuple[str, str, Numbers]] = []
    for name, events_ in ((f"{10**4:,}", 10**4), (f"{length:,}", length)):
        made = dsn(f"log_{events_}")
        with pool(made, 4) as connections, psycopg.connect(made, autocommit=True) as connection:
            databases.fleet(connections)
            written = history.write(connection, events_)
        found = rebuilding.each(made)
        if events_ == length:
            rows += [
                (f"rebuilt {one.name} from {length:,} events, events a second", f"{one.rate:,.0f}, {one.peak} MB")
                for one in found
            ]
        logs.append((name, made, Numbers(written)))
    for _ in range(rounds):
        for name, made, numbers in logs:
            for what, run in _on(made, numbers, seconds):
                cells[f"{what}, {name} events"].append(run)
    rows += _rows(cells)
    small, large = logs[0][0], logs[1][0]
    rows += [
        (
            f"{what}: ratio of the short log's rate to the long one's",
            _ratio(cells, *(f"{what}, {n} events" for n in (small, large))),
        )
        for what in ("one event", "full append", "load of a reservation", "load of a node")
    ]
    return figures.table(f"Growth: a log of {length:,} events", rows)


def _on(dsn: str, numbers: Numbers, seconds: float) -> Iterator[tuple[str, Run]]:
    singles = numbers.some(AT_MOST * 2 * seconds)
    with events.ours(dsn) as works:
        yield "one event", crowd.run(works, singles, seconds)
    with pool(dsn, 12, by_key=True) as connections, psycopg.connect(dsn) as connection:
        mine = numbers.some(AT_MOST * seconds)
        yield "full append", crowd.run(full.ours(databases.store(connections), mine), mine, seconds)
        for what, prefix in (("reservation", "rsv"), ("node", "node")):
            sql = "SELECT DISTINCT originator_id FROM stored_events WHERE originator_id LIKE %s"
            streams = sorted(id for (id,) in connection.execute(sql, (f"{prefix}\\_%",)).fetchall())
            yield f"load of a {what}", crowd.run([_loading(connections, streams)] * 2, range(10**6), seconds)


def _loading(connections: Any, streams: list[str]) -> Work:
    """Streams far from one another, each by a store that does not remember it."""

    def load(number: int) -> None:
        databases.store(connections).load(streams[number * 7919 % len(streams)])

    return load


def _rows(cells: Cells) -> list[tuple[str, str]]:
    rows = []
    for name, runs in cells.items():
        micros = [m / 1000 for run in runs for m in run.micros]
        cost = 1e6 * sum(run.cpu for run in runs) / sum(run.done for run in runs)
        tail = f"p50 {figures.percentile(micros, 0.5):.1f}, p99 {figures.percentile(micros, 0.99):.1f} ms"
        rows.append((name, f"{figures.spread([run.rate for run in runs])}; {tail}; client {cost:.0f} us each"))
    return rows


def _ratio(cells: Cells, above: str, below: str) -> str:
    return figures.ratio([run.rate for run in cells[above]], [run.rate for run in cells[below]])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.store", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each cell")
    parser.add_argument("--events", type=int, default=1_000_000, help="of the long log")
    parser.add_argument("--only", choices=("one", "full", "projections", "long"), help="one part of it")
    options = parser.parse_args()
    given = (options.rounds, options.seconds)
    print(f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}", flush=True)
    with databases.server() as dsn:
        parts: dict[str, Callable[[], str]] = {
            "one": lambda: one_event(databases.database(dsn, "one_event"), *given),
            "full": lambda: full_append(databases.database(dsn, "full_append"), *given),
            "projections": lambda: projections(databases.database(dsn, "projecting"), *given, 100_000),
            "long": lambda: long_log(lambda name: databases.database(dsn, name), *given, options.events),
        }
        for name, part in parts.items():
            if options.only in (None, name):
                print("\n" + part(), flush=True)


if __name__ == "__main__":
    main()
