"""How many bookable devices of each class a node has: capacity adds these up and counts no devices (domain.md §4)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, LiteralString

from domain import node
from domain.event import Recorded
from projections import history, versions
from projections.projection import Async, Steps
from projections.versions import Versions

FACETS = ("node_id text", "pool_id text", "class text", "devices bigint")

TABLES = f"""
{history.tables_of("device_counts", FACETS)}
CREATE INDEX device_counts_history_open ON device_counts_history (node_id)
    WHERE to_position IS NULL AND node_id IS NOT NULL;
"""

NOW: Final[LiteralString] = "(SELECT h.* FROM device_counts_history AS h WHERE h.to_position IS NULL)"
THEN: Final[LiteralString] = f"(SELECT h.* FROM device_counts_history AS h WHERE {versions.CURRENT})"
"""The counts as they were at `_as_of`."""

_KNOWN: Final = versions.known("device_counts", FACETS, "node_id = ANY(%s)")

Counted = tuple[str, str, str, int]
"""Node, pool, class and how many."""


def apply(batch: Sequence[Recorded]) -> Steps:
    told = [(recorded, counts) for recorded in batch if (counts := _said(recorded)) is not None]
    if not told:
        return ()
    known: Versions[Counted] = Versions()
    classes: dict[str, set[str]] = {recorded.stream: set() for recorded, _ in told}
    for id, since, node_id, pool_id, class_, devices in (yield _KNOWN, (list(classes),)):
        known.know(id, since, (node_id, pool_id, class_, devices))
        classes[node_id].add(class_)
    for recorded, counts in told:
        node_id = recorded.stream
        classes[node_id] |= counts.keys()
        for class_ in sorted(classes[node_id]):
            known.put(f"{node_id}|{class_}", counts.get(class_), recorded.position)
    return known.writes("device_counts", FACETS, lambda counted: counted)


def _said(recorded: Recorded) -> Mapping[str, Counted] | None:
    """What the node offers after this event, if it is about that; without a pool it offers nothing."""
    match recorded.event:
        case node.DevicesChanged(pool_id=str(pool_id), devices=devices):
            counted = Counter(device.class_ for device in devices if device.bookable)
            return {class_: (recorded.stream, pool_id, class_, many) for class_, many in counted.items()}
        case node.DevicesChanged() | node.Assigned(pool_id=None):
            return {}
        case _:
            return None


PROJECTION = Async("device_counts", TABLES, apply)
