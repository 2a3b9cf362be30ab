"""GPU-hours over time, in steps: what a chart of usage is drawn from (domain.md §5)."""

from typing import Annotated, Any, Final, Literal, LiteralString

from msgspec import Meta, Struct

from domain import errors
from domain.operation import Answer, KnownReading, Operation
from projections import usage as spans
from queries.past import over
from queries.reading import Reader
from queries.usage import COLUMNS, By

MOST_STEPS: Final = 400
MOST_SERIES: Final = 50
"""Of one answer, those with the most hours; what the others used is summed in `othersGpuHours`."""

_DAY_S: Final = 86_400
_DEFAULT_MS: Final = 30 * _DAY_S * 1000


class Timeline(KnownReading, frozen=True, kw_only=True):
    """Sums over `[from, from + step)`, and so on up to `until`; what still runs counts until now."""

    from_: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms, default 30 days before until")] | None = None
    until: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms, default and at most now")] | None = None
    step: Annotated[int, Meta(ge=60, le=366 * _DAY_S, description="seconds")] = _DAY_S
    by: By = "tenant"
    project_id: str | None = None
    pool_id: str | None = None
    scope: Annotated[Literal["tenant", "fleet"], Meta(description="fleet: every tenant's, for the platform")] = "tenant"


class Series(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """GPU-hours in each step of one tenant, project, pool or model; `name` is absent of what has none."""

    gpu_hours: tuple[float, ...]
    name: str | None = None


class Hours(Struct, frozen=True, kw_only=True, rename="camel"):
    """The steps begin at `from` + n × `step` (epoch ms, seconds); all series have one value for each."""

    from_: int
    until: int
    step: int
    by: By
    series: tuple[Series, ...]
    others_gpu_hours: tuple[float, ...]


def timeline(query: Timeline, read: Reader) -> Answer:
    until = read.now if query.until is None else min(query.until, read.now)
    first = max(0, until - _DEFAULT_MS) if query.from_ is None else query.from_
    if until <= first:
        raise errors.Invalid("until", "lies at or before from")
    step = query.step * 1000
    count = -(-(until - first) // step)
    if count > MOST_STEPS:
        least = -(-(until - first) // (MOST_STEPS * 1000))
        raise errors.Invalid("step", f"makes {count} steps, at most {MOST_STEPS} are shown; take {least} or more")
    wanted = {
        "tenant": None if query.scope == "fleet" else read.session.tenant_id,
        "project_id": query.project_id,
        "pool_id": query.pool_id,
        "from_": first,
        "until": until,
        "step": step,
        "_as_of": read.as_of,
    }
    found = read.connection.execute(_statement(query.by, past=read.as_of is not None), wanted).fetchall()
    series, others = _series(found, count)
    body = Hours(from_=first, until=until, step=query.step, by=query.by, series=series, others_gpu_hours=others)
    return Answer(body=body, position=read.position)


def _series(found: list[Any], count: int) -> tuple[tuple[Series, ...], tuple[float, ...]]:
    by_name: dict[str | None, list[float]] = {}
    for name, place, hours in found:
        by_name.setdefault(name, [0.0] * count)[place] = hours
    ordered = sorted(by_name.items(), key=lambda one: (-sum(one[1]), one[0] or ""))
    kept, left = ordered[:MOST_SERIES], ordered[MOST_SERIES:]
    others = tuple(sum(hours[place] for _, hours in left) for place in range(count)) if left else ()
    return tuple(Series(name=name, gpu_hours=tuple(hours)) for name, hours in kept), others


def _statement(by: By, *, past: bool) -> LiteralString:
    """Whole milliseconds are summed for each step that a span touches, and divided last."""
    column = COLUMNS[by]
    sql: LiteralString = (
        "SELECT "
        + column
        + """, place, (sum(gpus * (least(ends_at, %(from_)s + (place + 1) * %(step)s)
                     - greatest(starts_at, %(from_)s + place * %(step)s))::numeric) / 3600000)::float8
FROM (
    SELECT tenant_id, project_id, pool_id, gpu_model, gpus,
           greatest(starts_at, %(from_)s::bigint) AS starts_at,
           least(coalesce(ends_at, %(until)s::bigint), %(until)s::bigint) AS ends_at
    FROM usage_spans AS spans
    WHERE gpus > 0
      AND (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)
      AND (%(project_id)s::text IS NULL OR project_id = %(project_id)s)
      AND (%(pool_id)s::text IS NULL OR pool_id = %(pool_id)s)
      AND starts_at < %(until)s AND (ends_at IS NULL OR ends_at > %(from_)s)
) AS ran
CROSS JOIN LATERAL generate_series(
    (starts_at - %(from_)s) / %(step)s::bigint, (ends_at - 1 - %(from_)s) / %(step)s::bigint
) AS place
WHERE starts_at < ends_at
GROUP BY """
        + column
        + ", place"
    )
    return over(sql, usage_spans=spans.SPANS) if past else sql


OPERATIONS = (
    Operation(
        name="usage.timeline",
        verb="GET",
        path="/v1/usage/timeline",
        request=Timeline,
        response=Hours,
        on=("compute-tenant/{acting}",),
        handle=timeline,
        summary="Show GPU-hours over time, in steps, by tenant, project, pool or model",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
