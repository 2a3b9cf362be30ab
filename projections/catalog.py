"""The IAM catalog: what resolves where, with the attributes that policies read; never stale (domain.md §10)."""

from collections.abc import Iterator
from typing import Any

import msgspec

from domain import (
    asking,
    extension,
    image,
    instance,
    instance_life,
    node,
    offering,
    pool,
    project,
    reservation,
    site,
    tenant,
)
from domain.event import Recorded
from projections.projection import Inline, Phase, Statement

TABLES = """
CREATE TABLE catalog (
    type text NOT NULL,
    id text NOT NULL,
    tenant_id text NOT NULL,
    parent_id text,
    attributes jsonb NOT NULL,
    PRIMARY KEY (type, id)
);
CREATE TABLE catalog_offers (
    offer_id text PRIMARY KEY,
    pool_id text NOT NULL,
    tenant_id text NOT NULL,
    include_descendants boolean NOT NULL,
    priority integer NOT NULL
);
CREATE INDEX catalog_offers_pool ON catalog_offers (pool_id, tenant_id);
CREATE INDEX catalog_offers_tenant ON catalog_offers (tenant_id);
CREATE TABLE catalog_tenants (
    id text PRIMARY KEY,
    parent text,
    status text NOT NULL
);
"""


def _put(type_: str, id: str, tenant_id: str, parent_id: str | None, **attributes: Any) -> Statement:
    sql = "INSERT INTO catalog (type, id, tenant_id, parent_id, attributes) VALUES (%s, %s, %s, %s, %s::jsonb)"
    known = {name: value for name, value in attributes.items() if value is not None}
    document = msgspec.json.encode(known).decode()
    return Statement(Phase.CATALOG, id, sql, (type_, id, tenant_id, parent_id, document))


def _set(type_: str, id: str, **attributes: Any) -> Statement:
    """Unknown values are absent, never null (domain.md §10)."""
    sql = """
    UPDATE catalog SET attributes = jsonb_strip_nulls(attributes || %s::jsonb) WHERE type = %s AND id = %s
    """
    document = msgspec.json.encode(attributes).decode()
    return Statement(Phase.CATALOG, id, sql, (document, type_, id))


def _of_node(stream: str, event: node.Events) -> Iterator[Statement]:
    match event:
        case node.Joined():
            yield _put(
                "compute-node",
                stream,
                event.owner_tenant_id,
                None,
                region=event.region,
                lifecycle="adopting",
                trust=event.trust,
                gpuCount=0,
            )
        case node.Enrolled():
            yield _set("compute-node", stream, lifecycle="enrolling")
        case node.Inventoried():
            yield _set("compute-node", stream, gpuModel=event.gpu_model, gpuCount=event.gpu_count)
        case node.Assigned():
            sql = "UPDATE catalog SET parent_id = %s WHERE type = 'compute-node' AND id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (event.pool_id, stream))
        case node.Moved():
            yield _set("compute-node", stream, lifecycle=event.provision)
        case _:
            pass


def _of_extension(stream: str, event: extension.Events) -> Iterator[Statement]:
    """An open draft is decided on as the reservation would be: it has that one's row, with the new total."""
    match event:
        case extension.Drafted(committed=True):
            sql = """
            INSERT INTO catalog (type, id, tenant_id, parent_id, attributes)
            SELECT type, %s, tenant_id, parent_id, attributes || %s::jsonb
            FROM catalog WHERE type = 'compute-reservation' AND id = %s
            """
            total = msgspec.json.encode({"durationHours": event.duration_hours}).decode()
            params = (stream, total, event.reservation_id)
            yield Statement(Phase.CATALOG, stream, sql, params)
        case extension.Drafted():
            pass
        case _:
            sql = "DELETE FROM catalog WHERE type = 'compute-reservation' AND id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (stream,))


def _of_offering(stream: str, event: offering.Events) -> Iterator[Statement]:
    match event:
        case offering.Offered():
            sql = """
            INSERT INTO catalog_offers (offer_id, pool_id, tenant_id, include_descendants, priority)
            VALUES (%s, %s, %s, %s, %s)
            """
            params = (stream, event.pool_id, event.tenant_id, event.include_descendants, event.priority)
            yield Statement(Phase.CATALOG, stream, sql, params)
        case offering.Changed():
            sql = "UPDATE catalog_offers SET include_descendants = %s, priority = %s WHERE offer_id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (event.include_descendants, event.priority, stream))
        case offering.Withdrawn():
            sql = "DELETE FROM catalog_offers WHERE offer_id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (stream,))


def _pool(stream: str, event: pool.Created) -> Statement:
    attributes = {
        "region": event.region,
        "class": event.class_,
        "gpuModel": event.gpu_model,
        "gpuMemoryGb": event.gpu_memory_gb,
        "sharing": event.sharing,
    }
    return _put("compute-pool", stream, event.owner_tenant_id, None, **attributes)


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream = recorded.stream
    match recorded.event:
        case tenant.Recorded() as event:
            sql = """
            INSERT INTO catalog_tenants (id, parent, status) VALUES (%s, %s, %s)
            ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, status = excluded.status
            """
            params = (event.tenant_id, event.parent, event.status)
            yield Statement(Phase.CATALOG, stream, sql, params)
        case site.Created() as event:
            region = event.iam_region
            attributes = {"region": region, "iamRegion": region, "kind": event.kind}
            yield _put("compute-site", stream, event.owner_tenant_id, None, **attributes)
        case project.Created() as event:
            yield _put("compute-project", stream, event.owner_tenant_id, None)
        case pool.Created() as event:
            yield _pool(stream, event)
        case pool.Retired():
            sql = "DELETE FROM catalog_offers WHERE pool_id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (stream,))
        case image.Registered() as event:
            yield _put(
                "compute-image", stream, event.owner_tenant_id, None, visibility=event.visibility, verified=False
            )
        case image.Verified():
            yield _set("compute-image", stream, verified=True)
        case offering.Offered() | offering.Changed() | offering.Withdrawn() as event:
            yield from _of_offering(stream, event)
        case reservation.Drafted() as event:
            decided = asking.attributes(event)
            yield _put("compute-reservation", stream, event.tenant_id, event.pool_id, **decided)
        case instance.Drafted() as event:
            decided = instance_life.attributes(event)
            yield _put("compute-instance", stream, event.tenant_id, event.pool_id, **decided)
        case extension.Drafted() | extension.Denied() | extension.Applied() | extension.Expired() as event:
            yield from _of_extension(stream, event)
        case reservation.Extended(claimed=claimed):
            hours = (claimed.until - claimed.from_) / 3_600_000
            yield _set("compute-reservation", stream, durationHours=hours)
        case event if stream.startswith("node_"):
            yield from _of_node(stream, event)  # type: ignore[arg-type]
        case _:
            pass


PROJECTION = Inline("catalog", TABLES, fold, shape="a node that joins is enrolling")
