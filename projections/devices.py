"""Devices as lists show them and capacity counts them."""

from collections.abc import Sequence, Set
from typing import Any, Final

import msgspec

from domain import node
from domain.device import Device
from domain.event import Event, Recorded
from projections import history
from projections.documents import encode
from projections.projection import Async, Steps

FACETS = ("node_id text", "pool_id text", "class text", "bookable boolean", "view bytea")
"""Here the view is kept with each version: a device has no stream that it could be folded from."""

TABLES = f"""
CREATE TABLE devices (
    node_id text NOT NULL,
    id text NOT NULL,
    pool_id text,
    class text NOT NULL,
    bookable boolean NOT NULL,
    gpu_model text,
    view bytea NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (node_id, id) INCLUDE (class, bookable)
);
CREATE INDEX devices_by_pool ON devices (pool_id, class) WHERE bookable;
{history.tables_of("devices", FACETS)}
CREATE INDEX devices_history_by_node ON devices_history (node_id, id);
"""

_TYPED = (*FACETS[:1], "id text", *FACETS[1:], "gpu_model text", "since bigint")
_KNOWN = "SELECT node_id, id, since, pool_id, class, bookable, view FROM devices WHERE node_id = ANY(%s)"
_CLEAR = "DELETE FROM devices WHERE node_id = ANY(%s::text[])"
_TOLD: Final[Set[type[Event]]] = {node.DevicesChanged, node.Assigned}

Facets = tuple[str, str | None, str, bool, bytes]


class _Held(msgspec.Struct):
    """A device's row: its facets, its model, and the position from which it has been so."""

    facets: Facets
    gpu_model: str | None
    since: int


def key(node_id: str, device_id: str) -> str:
    """What a device is called in its history and in a list's cursor: its id alone is unique on its node only."""
    return f"{node_id}|{device_id}"


def apply(batch: Sequence[Recorded]) -> Steps:
    """A node's report replaces its devices; leaving its pool it offers nothing."""
    about = [recorded for recorded in batch if type(recorded.event) in _TOLD]
    told = [(recorded, found) for recorded in about if (found := _said(recorded)) is not None]
    if not told:
        return ()
    held: dict[str, dict[str, _Held]] = {recorded.stream: {} for recorded, _ in told}
    for node_id, id, since, *rest in (yield _KNOWN, (list(held),)):
        held[node_id][id] = _Held((node_id, *rest), None, since)
    versions = _Versions()
    for recorded, devices in told:
        before, position = held[recorded.stream], recorded.position
        after = {id: _taken(before.get(id), facets, model, position) for id, (facets, model) in devices.items()}
        versions.replace(recorded.stream, before, after, position)
        held[recorded.stream] = after
    rows = [
        (node_id, id, *one.facets[1:], one.gpu_model, one.since)
        for node_id, devices_of in held.items()
        for id, one in devices_of.items()
    ]
    return [
        (_CLEAR, (list(held),)),
        history.insert("devices", _TYPED, rows),
        history.close("devices", versions.ended),
        history.rows("devices", FACETS, versions.opened.values()),
    ]


class _Versions:
    """Versions that a batch opened, by device and position, and those of earlier batches that it ended."""

    def __init__(self) -> None:
        self.opened: dict[tuple[str, int], list[Any]] = {}
        self.ended: list[tuple[str, int, int]] = []

    def replace(self, node_id: str, before: dict[str, _Held], after: dict[str, _Held], position: int) -> None:
        for id, one in before.items():
            if id in after and after[id].since == one.since:
                continue
            opened = self.opened.get((key(node_id, id), one.since))
            if opened is None:
                self.ended.append((key(node_id, id), one.since, position))
            else:
                opened[2] = position
        for id, one in after.items():
            if one.since == position:
                self.opened[key(node_id, id), position] = [key(node_id, id), position, None, *one.facets]


def _taken(before: _Held | None, facets: Facets, gpu_model: str | None, position: int) -> _Held:
    """The row after a report: the same version while it says the same."""
    since = before.since if before is not None and before.facets == facets else position
    return _Held(facets, gpu_model, since)


def _said(recorded: Recorded) -> dict[str, tuple[Facets, str | None]] | None:
    """The devices of the node after this event, if it is about them."""
    match recorded.event:
        case node.DevicesChanged() as changed:
            return {d.id: (_facets(recorded.stream, changed.pool_id, d), d.gpu_model) for d in changed.devices}
        case node.Assigned(pool_id=None):
            return {}
        case _:
            return None


def _facets(node_id: str, pool_id: str | None, device: Device) -> Facets:
    shown = {"nodeId": node_id, "poolId": pool_id, **msgspec.to_builtins(device)}
    return node_id, pool_id, device.class_, device.bookable, encode(shown)


PROJECTION = Async("devices", TABLES, apply)
