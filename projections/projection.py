"""What a projection is: its tables, and a fold from events to row changes (architecture.md §3)."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from psycopg import Cursor

from domain.event import Recorded


class Phase(IntEnum):
    """The order of an append's steps; two appends that lock in this order cannot deadlock (architecture.md §2)."""

    POOL_GATE = 1
    NODE_GATE = 2
    GATE_CHECK = 3
    QUOTA_LOCK = 4
    QUOTA_CHECK = 5
    QUOTA = 6
    FREE = 7
    TAKE = 8
    TAKE_CHECK = 9
    KEY = 10
    CATALOG = 11


class Statement(Struct, frozen=True):
    """One SQL statement of an append. Statements of a phase run in `key` order, those of one key as they came.

    `only_live` marks locks and guards: they decide whether the append may happen, and a rebuild, which repeats what
    did happen, leaves them out. Of several locks on one key only that of the highest `rank` is taken. Locks with a
    `union`, whose parameters are lists, become one statement, so that it can take its rows in one order.
    """

    phase: Phase
    key: str
    sql: str
    params: tuple[Any, ...] = ()
    only_live: bool = False
    rank: int = 0
    union: bool = False


class Inline(Struct, frozen=True):
    """Runs inside the append; reads the event's own fields and rows it has locked, nothing else."""

    name: str
    tables: str
    fold: Callable[[Recorded], Iterable[Statement]]


class Async(Struct, frozen=True):
    """Runs in a worker, in batches; `apply` writes its rows with the cursor it is given and nothing else."""

    name: str
    tables: str
    apply: Callable[[Cursor[Any], Sequence[Recorded]], None]


Projection = Inline | Async


def plan(projections: Iterable[Inline], events: Sequence[Recorded]) -> list[Statement]:
    """The statements of an append in the order of their phases, each lock once in its strongest mode."""
    locks: dict[tuple[Phase, str], Statement] = {}
    ordered: list[Statement] = []
    for statement in (s for p in projections for event in events for s in p.fold(event)):
        if not statement.rank:
            ordered.append(statement)
            continue
        slot = (statement.phase, statement.sql if statement.union else statement.key)
        held = locks.get(slot)
        if held is not None and statement.union:
            locks[slot] = _united(held, statement)
        elif held is None or held.rank < statement.rank:
            locks[slot] = statement
    return sorted([*locks.values(), *ordered], key=lambda s: (s.phase, s.key))


def _united(one: Statement, other: Statement) -> Statement:
    both = zip(one.params, other.params, strict=True)
    return replace(one, params=tuple(sorted({*mine, *theirs}) for mine, theirs in both))


def replay(projection: Inline, events: Sequence[Recorded]) -> list[Statement]:
    """The statements that repeat what happened, event by event: a rebuild's share of the append's work."""
    statements: list[Statement] = []
    for event in events:
        of_event = (s for s in projection.fold(event) if not s.only_live)
        statements += sorted(of_event, key=lambda s: (s.phase, s.key))
    return statements
