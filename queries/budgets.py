"""What a tenant or a project may spend, has spent, and has committed (domain.md §5)."""

from typing import Annotated

from msgspec import Meta, Struct, field

from domain import budget, errors, quota
from domain.operation import Answer, Known, Operation
from projections.budgets import ACCOUNTS
from projections.budgets_past import STOOD
from queries import quotas
from queries.reading import Reader, known


class Get(Known, frozen=True, kw_only=True):
    kind: quota.Kind
    id: Annotated[str, Meta(max_length=128)]


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """GPU-hours. `gpuHours` and `leftGpuHours` null: no budget. Committed is what live claims may take in all."""

    kind: quota.Kind
    id: str
    gpu_hours: float | None
    from_: int | None = field(name="from")
    until: int | None
    set_at: int | None
    spent_gpu_hours: float
    committed_gpu_hours: float
    left_gpu_hours: float | None


def get(query: Get, read: Reader) -> Answer:
    quotas.may_read(query.kind, query.id, read)
    loaded = known(read, budget.stream(query.kind, query.id))
    gpu_ms, from_, until, spent, committed = _stands(read, quota.scope(query.kind, query.id), loaded.state)
    body = View(
        kind=query.kind,
        id=query.id,
        gpu_hours=_hours(gpu_ms),
        from_=from_,
        until=until,
        set_at=loaded.state.set_at or None,
        spent_gpu_hours=spent / budget.HOUR_MS,
        committed_gpu_hours=committed / budget.HOUR_MS,
        left_gpu_hours=None if gpu_ms is None else _hours(gpu_ms - spent - committed),
    )
    return Answer(body=body, position=read.position, version=loaded.version, of_the_moment=True)


def _stands(read: Reader, scope: str, state: budget.State) -> tuple[int | None, int | None, int | None, int, int]:
    """Budget, period, spent and committed, in GPU-milliseconds and epoch ms."""
    if read.as_of is None:
        row = read.connection.execute(ACCOUNTS, ([scope],), prepare=True).fetchone()
        return row[2:] if row else (None, None, None, 0, 0)
    period = {"scope": scope, "from": state.from_, "until": state.until, "_as_of": read.as_of}
    row = read.connection.execute(STOOD, period).fetchone()
    assert row is not None
    return state.gpu_ms, state.from_, state.until, *row


def _hours(gpu_ms: int | None) -> float | None:
    return None if gpu_ms is None else gpu_ms / budget.HOUR_MS


OPERATIONS = (
    Operation(
        name="budgets.get",
        verb="GET",
        path="/v1/budgets/{kind}/{id}",
        request=Get,
        response=View,
        on=("compute-fleet/global", "compute-tenant/{acting}"),
        decided_inside=True,
        handle=get,
        summary="Show a budget: what is spent, committed and left",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
