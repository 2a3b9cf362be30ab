"""Capacity of one pool over time, in steps (domain.md §4)."""

from typing import Annotated, Final

from msgspec import Meta

from domain import errors
from domain.operation import Answer, KnownReading, Operation
from queries import capacity
from queries.capacity_counts import Points
from queries.reading import Reader

MOST: Final = 1_000
"""Points of one answer."""

_DAY_MS: Final = 24 * 3_600_000
_LONGEST_S: Final = 366 * 86_400


class Timeline(KnownReading, frozen=True, kw_only=True):
    """A point at `from` and at each `step` after it, as long as they lie before `until`."""

    pool_id: str
    from_: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms, default now")] | None = None
    until: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms, default a day after from")] | None = None
    step: Annotated[int, Meta(ge=1, le=_LONGEST_S, description="seconds")] = 3_600
    project_id: Annotated[str, Meta(description="what is left for claims of this project")] | None = None


def timeline(query: Timeline, read: Reader) -> Answer:
    first = read.now if query.from_ is None else query.from_
    until = first + _DAY_MS if query.until is None else query.until
    if first < read.now - capacity.PAST_MS:
        raise errors.Invalid("from", capacity.LONG_AGO)
    if until <= first:
        raise errors.Invalid("until", "lies at or before from")
    step = query.step * 1000
    count = -(-(until - first) // step)
    if count > MOST:
        least = -(-(until - first) // (MOST * 1000))
        if least > _LONGEST_S:
            raise errors.Invalid("until", f"lies further ahead than {MOST} steps of {_LONGEST_S} seconds reach")
        raise errors.Invalid("step", f"makes {count} points, at most {MOST} are shown; take {least} seconds or more")
    rows = capacity.told(read, query.pool_id, query.project_id, Points(first, step, count))
    return Answer(body=rows, position=read.position)


OPERATIONS = (
    Operation(
        name="capacity.timeline",
        verb="GET",
        path="/v1/capacity/timeline",
        request=Timeline,
        response=capacity.Rows,
        on=("compute-pool/{poolId}",),
        handle=timeline,
        summary="Show what a pool holds and has left over time, in steps",
        example={"poolId": "pool_…", "step": 86_400},
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("at", "resource", "total", "allocatable", "allocated", "reserved", "available", "limit"),
    ),
)
