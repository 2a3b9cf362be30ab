"""Devices as lists show them and capacity counts them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg import Cursor

from domain import node
from domain.device import Device
from domain.event import Recorded
from projections.documents import encode
from projections.projection import Async

TABLES = """
CREATE TABLE devices (
    node_id text NOT NULL,
    id text NOT NULL,
    pool_id text,
    class text NOT NULL,
    bookable boolean NOT NULL,
    gpu_model text,
    view bytea NOT NULL,
    PRIMARY KEY (node_id, id)
);
CREATE INDEX devices_by_pool ON devices (pool_id, class) WHERE bookable;
"""

_CLEAR = "DELETE FROM devices WHERE node_id = ANY(%s)"
_FILL = """
INSERT INTO devices (node_id, id, pool_id, class, bookable, gpu_model, view) VALUES (%s, %s, %s, %s, %s, %s, %s)
"""


def _row(node_id: str, pool_id: str | None, device: Device) -> tuple[Any, ...]:
    shown = {"nodeId": node_id, "poolId": pool_id, **msgspec.to_builtins(device)}
    return (node_id, device.id, pool_id, device.class_, device.bookable, device.gpu_model, encode(shown))


def apply(cursor: Cursor[Any], batch: Sequence[Recorded]) -> None:
    """Only a node's last word in a batch counts; leaving its pool it offers nothing."""
    latest: dict[str, node.DevicesChanged | None] = {}
    for recorded in batch:
        match recorded.event:
            case node.DevicesChanged() as changed:
                latest[recorded.stream] = changed
            case node.Assigned(pool_id=None):
                latest[recorded.stream] = None
    if latest:
        cursor.execute(_CLEAR, (list(latest),))
        rows = [
            _row(node_id, changed.pool_id, device)
            for node_id, changed in latest.items()
            if changed is not None
            for device in changed.devices
        ]
        cursor.executemany(_FILL, rows)


PROJECTION = Async("devices", TABLES, apply)
