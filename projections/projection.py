"""What a projection is: its tables, and a fold from events to row changes (architecture.md §3)."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from domain.event import Recorded


class Phase(IntEnum):
    """The order of an append's steps; two appends that lock in this order cannot deadlock (architecture.md §2)."""

    POOL_GATE = 1
    NODE_GATE = 2
    GATE_CHECK = 3
    QUOTA_LOCK = 4
    QUOTA_CHECK = 5
    QUOTA = 6
    BUDGET_CHECK = 7
    FREE = 8
    TAKE = 9
    TAKE_CHECK = 10
    KEY = 11
    CATALOG = 12


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


Question = tuple[str, Sequence[Any]]
"""What is asked of the projection's own tables, as they stand before a batch, and its parameters."""

Rows = list[tuple[Any, ...]]

Write = tuple[str, Sequence[Any]]
"""A statement that changes them, and its parameters, as pipeline.run takes them."""

Steps = Generator[Question, Rows, Iterable[Write]]
"""How a batch is taken in: what is asked one after the other, and in the end what is written."""


class Async(Struct, frozen=True):
    """Runs in a worker, in batches; `apply` asks for its own rows and gives the statements that bring them forward.

    `shape` describes what its rows hold beside columns: where it changes, the rows have to be made anew.
    """

    name: str
    tables: str
    apply: Callable[[Sequence[Recorded]], Steps]
    shape: str = ""


Projection = Inline | Async


def asking_nothing(writes: Callable[[Sequence[Recorded]], Iterable[Write]]) -> Callable[[Sequence[Recorded]], Steps]:
    """The `apply` of a projection that knows from the events alone what to write."""

    def apply(batch: Sequence[Recorded]) -> Steps:
        yield from ()
        return writes(batch)

    return apply


def written(batches: Sequence[Steps], ask: Callable[[Sequence[Question]], list[Rows]]) -> list[Write]:
    """What several projections write of a batch: they go side by side, and what they ask at a time is asked at once."""
    writes: dict[int, Iterable[Write]] = {}
    answers: list[tuple[int, Rows | None]] = [(index, None) for index in range(len(batches))]
    while answers:
        asked: list[tuple[int, Question]] = []
        for index, rows in answers:
            try:
                asked.append((index, next(batches[index]) if rows is None else batches[index].send(rows)))
            except StopIteration as end:
                writes[index] = end.value
        found = ask([question for _, question in asked]) if asked else []
        answers = [(index, rows) for (index, _), rows in zip(asked, found, strict=True)]
    return [write for index in range(len(batches)) for write in writes[index]]


def plan(
    projections: Iterable[Inline], events: Sequence[Recorded], beside: Iterable[Statement] = ()
) -> list[Statement]:
    """The statements of an append in the order of their phases, each lock once in its strongest mode.

    `beside` are those that follow from none of its events.
    """
    locks: dict[tuple[Phase, str], Statement] = {}
    ordered: list[Statement] = []
    for statement in chain((s for p in projections for event in events for s in p.fold(event)), beside):
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


def replay(projection: Inline, append: Sequence[Recorded]) -> list[Statement]:
    """The statements that repeat one append, in the order in which it ran them: a rebuild's share of its work."""
    statements = (s for event in append for s in projection.fold(event) if not s.only_live)
    return sorted(statements, key=lambda s: (s.phase, s.key))


class Appends:
    """Puts the events of the log together again as they were appended; concurrent appends may be interleaved."""

    def __init__(self, begun: Mapping[str, Sequence[Recorded]] = MappingProxyType({})) -> None:
        self._begun = {append: list(events) for append, events in begun.items()}

    def whole(self, batch: Sequence[Recorded]) -> list[list[Recorded]]:
        """The appends that the batch completes, each once, in the order of their last positions."""
        complete = []
        for recorded in batch:
            events = self._begun.setdefault(recorded.part.append, [])
            events.append(recorded)
            if len(events) == recorded.part.count:
                complete.append(self._begun.pop(recorded.part.append))
        return complete

    def copy(self) -> "Appends":
        return Appends(self._begun)
