"""Devices of the caller's own nodes (domain.md §10: they resolve only in the owner's tenant)."""

from typing import LiteralString

from domain import device, errors
from domain.operation import Answer, KnownListing, Operation, Page
from queries import past
from queries.reading import Ids, Reader, filters
from queries.sight import Through


class List(KnownListing, frozen=True, kw_only=True):
    pool_id: str | None = None
    node_id: Ids | None = None
    class_: device.Class | None = None
    bookable: bool | None = None


class Shown(device.Device, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A device and where it is."""

    node_id: str
    pool_id: str | None


MINE: LiteralString = """
(%(tenant)s::text IS NULL OR nodes.tenant_id = %(tenant)s)
AND (%(node_id)s::text[] IS NULL OR nodes.id = ANY(%(node_id)s))
"""
WANTED: LiteralString = """
(%(pool_id)s::text IS NULL OR devices.pool_id = %(pool_id)s)
AND (%(class_)s::text IS NULL OR devices.class = %(class_)s)
AND (%(bookable)s::boolean IS NULL OR devices.bookable = %(bookable)s)
"""
ROWS = past.Rows(
    f"""
    SELECT 0::bigint, devices.node_id || '|' || devices.id, 0::bigint, devices.view
    FROM devices JOIN nodes ON nodes.id = devices.node_id WHERE {MINE} AND {WANTED}
    """,
    f"""
    SELECT walked.id, devices.view
    FROM (SELECT DISTINCT h.id FROM nodes JOIN devices_history AS h ON h.node_id = nodes.id WHERE {MINE}) AS walked
    CROSS JOIN LATERAL {past.version_of("devices")} WHERE {WANTED}
    """,
)
"""A report replaces a node's devices, so those of the past are found in the history alone."""


SEEN = Through("compute-node", thing="split_part(listed.id, '|', 1)")
"""Whoever sees a node sees its devices."""


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), type=SEEN)


OPERATIONS = (
    Operation(
        name="devices.list",
        verb="GET",
        path="/v1/devices",
        request=List,
        response=Page[Shown],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List the devices of your nodes",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "class", "gpuModel", "bookable", "nodeId"),
    ),
)
