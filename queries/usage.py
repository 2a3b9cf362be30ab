"""Usage: device-hours and GPU-hours out of what really ran (domain.md §5; decisions/0018)."""

from typing import Annotated, Any, Final, Literal, LiteralString

from msgspec import Meta, Struct

from domain import errors
from domain.operation import Answer, KnownListing, Operation, Page
from projections import usage
from queries import past
from queries.past import over
from queries.reading import Reader, filters

By = Literal["tenant", "project", "pool", "gpuModel"]
ALL: Final[tuple[By, ...]] = ("tenant", "project", "pool", "gpuModel")
COLUMNS: Final[dict[By, LiteralString]] = {
    "tenant": "tenant_id",
    "project": "project_id",
    "pool": "pool_id",
    "gpuModel": "gpu_model",
}
_FIELDS: Final[dict[By, LiteralString]] = {
    "tenant": "tenantId",
    "project": "projectId",
    "pool": "poolId",
    "gpuModel": "gpuModel",
}


class List(KnownListing, frozen=True, kw_only=True):
    """What ran within `[from, until)` in epoch ms; what still runs counts until now."""

    from_: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms, default the beginning")] | None = None
    until: Annotated[int, Meta(ge=0, le=2**53, description="epoch ms, default and at most now")] | None = None
    group_by: Annotated[tuple[By, ...], Meta(min_length=1, max_length=4)] = ALL
    project_id: str | None = None
    pool_id: str | None = None
    reservation_id: str | None = None


class Row(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Use of one resource; what it is not grouped by is absent, and so is `projectId` of what has none.

    `deviceHours` are devices, vCPUs or MiB times hours. `gpuHours` are the GPUs behind them: a slice or slot is one, a
    `node` all its GPUs, as in the attribute gpuCount. `from` and `until` are the first beginning and the last end, in
    epoch ms.
    """

    resource: str
    device_hours: float
    gpu_hours: float
    from_: int
    until: int
    tenant_id: str | None = None
    project_id: str | None = None
    pool_id: str | None = None
    gpu_model: str | None = None


def list_(query: List, read: Reader) -> Answer:
    until = read.now if query.until is None else min(query.until, read.now)
    if query.from_ is not None and query.until is not None and query.from_ >= query.until:
        raise errors.Invalid("until", "lies at or before from")
    if len(set(query.group_by)) < len(query.group_by):
        raise errors.Invalid("groupBy", "names one of them twice")
    wanted: dict[str, Any] = filters(query, read) | {"from_": query.from_ or 0, "until": until}
    return past.listed(read, query, _rows(query.group_by), wanted)


def _rows(group_by: tuple[By, ...]) -> past.Rows:
    """Whole milliseconds are summed, and divided last. A row's place is what it is grouped by."""
    names: LiteralString = "resource"
    shown: LiteralString = ""
    for by in ALL:
        if by in group_by:
            names += ", " + COLUMNS[by]
            shown += ", '" + _FIELDS[by] + "', " + COLUMNS[by]
    id: LiteralString = "jsonb_build_array(" + names + ")::text, "
    sums: LiteralString = (
        "convert_to(json_strip_nulls(json_build_object("
        "'resource', resource, 'deviceHours', (sum(amount * ms)::float8 / 3600000),"
        "'gpuHours', (sum(gpus * ms)::float8 / 3600000), 'from', min(starts_at), 'until', max(ends_at)"
        + shown
        + "))::text, 'UTF8')"
        + _RAN
        + "GROUP BY "
        + names
    )
    then: LiteralString = "SELECT " + id + over(sums, usage_spans=usage.SPANS)
    return past.Rows("SELECT 0::bigint, " + id + "0::bigint, " + sums, then)


_RAN: Final[LiteralString] = """
FROM (
    SELECT resource, tenant_id, project_id, pool_id, gpu_model, amount, gpus,
           span.starts_at, span.ends_at, (span.ends_at - span.starts_at)::numeric AS ms
    FROM (
        SELECT resource, tenant_id, project_id, pool_id, gpu_model, amount, gpus,
               greatest(starts_at, %(from_)s::bigint) AS starts_at,
               least(coalesce(ends_at, %(until)s::bigint), %(until)s::bigint) AS ends_at
        FROM usage_spans AS spans
        WHERE (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)
          AND (%(project_id)s::text IS NULL OR project_id = %(project_id)s)
          AND (%(pool_id)s::text IS NULL OR pool_id = %(pool_id)s)
          AND (%(reservation_id)s::text IS NULL OR reservation_id = %(reservation_id)s)
          AND starts_at < %(until)s AND (ends_at IS NULL OR ends_at > %(from_)s)
    ) AS span
    WHERE span.starts_at < span.ends_at
) AS ran
"""


OPERATIONS = (
    Operation(
        name="usage.list",
        verb="GET",
        path="/v1/usage",
        request=List,
        response=Page[Row],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="Show device-hours and GPU-hours of what ran, by tenant, project, pool and model",
        example={"from": 1_796_083_200_000, "until": 1_796_169_600_000},
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("tenantId", "projectId", "poolId", "gpuModel", "resource", "gpuHours", "from", "until"),
    ),
)
