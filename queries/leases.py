"""Coordination leases: who owns which job, under which epoch (domain.md §5)."""

from msgspec import Struct

from domain import clock, errors
from domain.operation import Answer, Known, Operation
from queries.reading import Reader


class List(Known, frozen=True, kw_only=True):
    """Leases are not in the log: there is no `asOf` of them."""


class Lease(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`beats` grows while the holder lives; with `steppedAt` (epoch ms) its wall-clock deadlines are held."""

    name: str
    epoch: int
    beats: int
    holder: str | None = None
    stepped_at: int | None = None
    stepped_by_ms: int | None = None


class Rows(Struct, frozen=True):
    items: tuple[Lease, ...]


def list_(query: List, read: Reader) -> Answer:
    if query.as_of is not None:
        raise errors.Invalid("asOf", "leases are not in the log: only the present is known of them")
    sql = "SELECT name, holder, epoch, beats FROM coordination_leases ORDER BY name"
    rows = []
    for name, holder, epoch, beats in read.connection.execute(sql, prepare=True).fetchall():
        stepped = read.load(clock.stream(name)).state.stepped
        at, by_ms = (stepped.at, stepped.by_ms) if stepped else (None, None)
        rows.append(
            Lease(name=name, holder=holder or None, epoch=epoch, beats=beats, stepped_at=at, stepped_by_ms=by_ms)
        )
    return Answer(body=Rows(tuple(rows)), position=read.position)


OPERATIONS = (
    Operation(
        name="leases.list",
        verb="GET",
        path="/v1/leases",
        request=List,
        response=Rows,
        on=("compute-fleet/global",),
        handle=list_,
        summary="List coordination leases, their holders and epochs",
        refusals=(errors.AccessDenied, errors.ProjectionBehind),
        columns=("name", "holder", "epoch", "beats", "steppedAt"),
    ),
)
