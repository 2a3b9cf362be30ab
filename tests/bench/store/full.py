"""The full append: the product's beside the same statements sent in other ways, and beside pgbench."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg

from adapters.postgres import envelope
from adapters.postgres.mapper import EventMapper
from adapters.postgres.pool import find_by_key
from adapters.postgres.recorder import INSERT, columns
from adapters.postgres.store import EventStore
from domain import registry
from projections import table
from projections.projection import plan
from tests.bench.store import bookings, crowd, limit
from tests.bench.store.crowd import Work

Send = Callable[[psycopg.Connection[Any], limit.Steps], None]


def steps() -> list[tuple[str, Sequence[Any]]]:
    """What the product sends for one append whose names are marked."""
    append = bookings.append(limit.MARKED)
    after = [registry.fold(change.stream, change.events) for change in append.changes]
    numbers = iter(range(100))
    sealed = envelope.seal(append, after, lambda prefix: f"{prefix}_{limit.TAG[:24]}{next(numbers):02d}")
    stored = [EventMapper().to_stored_event(recorded) for recorded in sealed]
    return [*((one.sql, one.params) for one in plan(table.INLINE, sealed)), (INSERT, columns(stored))]


def ours(store: EventStore, numbers: range, **where: int) -> list[Work]:
    """Through the store; what to append has been decided before."""
    decided = {number: bookings.append(bookings.names(number, **where)) for number in numbers}
    return [lambda number: store.append(decided[number])] * crowd.THREADS


@contextmanager
def sent(dsn: str, numbers: range, send: Send) -> Iterator[list[Work]]:
    """The same statements by a client that only fills them in."""
    marked = steps()
    filled = {number: limit.filled(marked, bookings.names(number)) for number in numbers}
    with _connections(dsn) as opened:
        yield [lambda number, on=one: send(on, filled[number]) for one in opened]  # type: ignore[misc]


@contextmanager
def called(dsn: str) -> Iterator[list[Work]]:
    """The server-side function, called by psycopg."""
    with _connections(dsn) as opened:
        yield [
            lambda number, on=one: on.execute("SELECT full_append(%s)", (number,), prepare=True)  # type: ignore[misc]
            for one in opened
        ]


@contextmanager
def _connections(dsn: str) -> Iterator[list[psycopg.Connection[Any]]]:
    with ExitStack() as stack:
        opened = [stack.enter_context(psycopg.connect(dsn, autocommit=True)) for _ in range(crowd.THREADS)]
        for connection in opened:
            find_by_key(connection)
        yield opened
