"""Devices of the caller's own nodes (domain.md §10: they resolve only in the owner's tenant)."""

from domain import device, errors
from domain.operation import Answer, Listing, Operation, Page
from queries.reading import Reader, listed, tenants


class List(Listing, frozen=True, kw_only=True):
    pool_id: str | None = None
    node_id: str | None = None
    class_: device.Class | None = None
    bookable: bool | None = None


class Shown(device.Device, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A device and where it is."""

    node_id: str
    pool_id: str | None


def list_(query: List, read: Reader) -> Answer:
    sql = """
    SELECT 0::bigint, devices.node_id || '|' || devices.id AS place, devices.view
    FROM devices JOIN nodes ON nodes.id = devices.node_id
    WHERE (%s::text IS NULL OR nodes.tenant_id = %s) AND (%s::text IS NULL OR devices.pool_id = %s)
      AND (%s::text IS NULL OR devices.node_id = %s) AND (%s::text IS NULL OR devices.class = %s)
      AND (%s::boolean IS NULL OR devices.bookable = %s)
    """
    wanted = (tenants(query, read), query.pool_id, query.node_id, query.class_, query.bookable)
    return listed(read, query, sql, [value for value in wanted for _ in range(2)])


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
        refusals=(errors.AccessDenied, errors.ProjectionBehind),
        columns=("id", "class", "gpuModel", "bookable", "nodeId"),
    ),
)
