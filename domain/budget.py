"""A budget: the GPU-hours that a tenant or a project may spend, for good or within a period (domain.md §2, §5).

Amounts are GPU-milliseconds: a GPU, slice or slot for a millisecond. What a claim may take is committed while it
lives; when it ends, what it ran is spent.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct, field

from domain import quota, reservation_terms
from domain.event import Event

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000


class Set(Event, frozen=True, tag="budget.set.1"):
    """`gpu_ms` null takes the budget away. Without `from` or `until` (epoch ms) the period is open on that side."""

    kind: quota.Kind
    id: str
    tenant_id: str
    gpu_ms: int | None
    at: int
    from_: int | None = field(name="from", default=None)
    until: int | None = None


Events = Set


class State(Struct, frozen=True, rename="camel"):
    kind: quota.Kind = "tenant"
    id: str = ""
    tenant_id: str = ""
    gpu_ms: int | None = None
    from_: int | None = field(name="from", default=None)
    until: int | None = None
    set_at: int = 0


def evolve(state: State, event: Events) -> State:
    match event:
        case Set():
            return State(event.kind, event.id, event.tenant_id, event.gpu_ms, event.from_, event.until, event.at)
        case _:
            assert_never(event)


def stream(kind: quota.Kind, id: str) -> str:
    return f"budget:{quota.scope(kind, id)}"


class View(Struct, frozen=True, rename="camel"):
    """`gpuHours` null: no budget."""

    kind: quota.Kind
    id: str
    gpu_hours: float | None
    from_: int | None = field(name="from")
    until: int | None
    set_at: int
    version: int


def view(_stream: str, state: State, version: int) -> View:
    hours = None if state.gpu_ms is None else state.gpu_ms / HOUR_MS
    return View(state.kind, state.id, hours, state.from_, state.until, state.set_at, version)


class Account(Struct, frozen=True):
    """How a budget stands, in GPU-milliseconds; the period in epoch ms, open where it is None."""

    kind: quota.Kind
    gpu_ms: int
    spent: int
    committed: int
    from_: int | None = None
    until: int | None = None

    @property
    def left(self) -> int:
        return self.gpu_ms - self.spent - self.committed


class Exceeded(Struct, frozen=True):
    """A claim that takes more than is left; GPU-milliseconds. `endless`: neither it nor the period has an end."""

    kind: quota.Kind
    budget: int
    needed: int
    left: int
    endless: bool = False


def needed(account: Account, gpus: int, window: tuple[int, int]) -> int:
    """What so many GPUs over `[from, until)` (epoch ms) take of the budget: what lies in its period."""
    start = window[0] if account.from_ is None else max(window[0], account.from_)
    end = window[1] if account.until is None else min(window[1], account.until)
    return gpus * max(0, end - start)


def exceeded(accounts: Sequence[Account], gpus: int, window: tuple[int, int]) -> Exceeded | None:
    """The first budget that has not enough left. One that the claim takes nothing of stands in nobody's way.

    What has no end takes what there is until the budget's period ends, and of a budget without end it takes all.
    """
    for account in accounts:
        takes = needed(account, gpus, window)
        if takes > max(0, account.left):
            endless = account.until is None and reservation_terms.shown_end(window[1]) is None
            return Exceeded(account.kind, account.gpu_ms, takes, account.left, endless)
    return None
