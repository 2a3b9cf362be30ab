"""What was booked when: the versions of an allocation's bookings, devices and scalars, as each event left them.

Rows of the append's tables change with others of their devices, so a batch reads those as well (decisions/0026).
"""

from collections.abc import Generator, Sequence
from typing import Any, Final, LiteralString

import msgspec

from domain import node, reservation
from domain.event import Recorded
from projections import books, history, versions
from projections.books import Books, Held, Span
from projections.documents import encode
from projections.projection import Async, Question, Rows, Steps, Write
from projections.versions import Versions

FACETS = (
    "reservation_id text",
    "node_id text",
    "pool_id text",
    "tenant_id text",
    "bound boolean",
    "ended boolean",
    "freed boolean",
    "matters_until bigint",
    "atoms text",
    "scalars text",
)
"""`atoms` are [from, until] by device, `scalars` [amount, from, until] by resource, in epoch ms; until null: open.

JSON kept as text: each batch writes and reads it back whole, and jsonb would be taken apart and put together for that.
"""

OF_NODE = ("scalars jsonb",)

TABLES = f"""
{history.tables_of("bookings", FACETS)}
CREATE INDEX bookings_history_by_pool ON bookings_history (pool_id, from_position);
CREATE INDEX bookings_history_open ON bookings_history (reservation_id)
    WHERE to_position IS NULL AND reservation_id IS NOT NULL;
CREATE INDEX bookings_history_matters ON bookings_history (pool_id, matters_until)
    WHERE to_position IS NULL AND pool_id IS NOT NULL;
CREATE INDEX bookings_history_near ON bookings_history (node_id, matters_until)
    WHERE to_position IS NULL AND node_id IS NOT NULL;
{history.tables_of("node_scalars", OF_NODE)}
"""
"""Each partial index leaves out rows that a search by another's column could ask for: planned while the table was
empty it would take any that may serve, and go through the whole of the wrong one ever after.
"""

_MINE: Final = versions.known("bookings", FACETS, "reservation_id = ANY(%s)")
_PLANS: Final = versions.known("bookings", FACETS, "id = ANY(%s)")
_NEAR: Final[LiteralString] = f"""
SELECT found.* FROM unnest(%s::text[], %s::bigint[]) AS near (on_node, since) CROSS JOIN LATERAL (
    {versions.known("bookings", FACETS, "node_id = near.on_node AND matters_until > near.since")}
) AS found
"""
"""A search of the index for each node: the server would otherwise hold each row against every node of the batch."""

_SCALARS: Final = versions.known("node_scalars", OF_NODE, "id = ANY(%s)")

DEVICES: Final[LiteralString] = f"""(
    SELECT atom.key AS device_id, h.id AS allocation_id, h.reservation_id, h.node_id, h.pool_id, h.tenant_id, h.bound,
           h.ended, h.freed, h.matters_until,
           int8range((atom.value ->> 0)::bigint, (atom.value ->> 1)::bigint) AS during
    FROM bookings_history AS h CROSS JOIN LATERAL jsonb_each(h.atoms::jsonb) AS atom WHERE {versions.CURRENT}
)"""
"""The rows of `bookings.DEVICES` as they were at `_as_of`."""

SCALARS: Final[LiteralString] = f"""(
    SELECT h.id AS allocation_id, one.key AS resource, h.reservation_id, h.node_id, h.matters_until,
           (one.value ->> 0)::bigint AS amount,
           int8range((one.value ->> 1)::bigint, (one.value ->> 2)::bigint) AS during
    FROM bookings_history AS h CROSS JOIN LATERAL jsonb_each(h.scalars::jsonb) AS one
    WHERE h.scalars <> '{{}}' AND h.pool_id IS NOT NULL AND {versions.CURRENT}
)"""
"""The rows of `bookings.SCALARS` as they were at `_as_of`."""


def apply(batch: Sequence[Recorded]) -> Steps:
    writes: list[Write] = []
    told = [one for one in batch if type(one.event) in books.TOLD]
    if told:
        known = yield from _read(told)
        for recorded in told:
            books.fold(known, recorded)
        writes += known.versions.writes("bookings", FACETS, _columns)
    return [*writes, *(yield from _scalars_of_nodes(batch))]


def _read(told: Sequence[Recorded]) -> Generator[Question, Rows, Books]:
    """The bookings that the batch is about, and those that they may move."""
    streams = {one.stream for one in told if one.stream.startswith("rsv_")}
    plans = [one.event.id for one in told if isinstance(one.event, node.PlanEnded)]
    known = Books()
    for id, since, *held in (yield _MINE, (list(streams),)):
        known.know(id, since, _held(*held))
    for id, since, *held in (yield _PLANS, (plans,)) if plans else ():
        known.know(id, since, _held(*held))
    begins: dict[str, int] = {}
    for _, one in known.versions.items():
        begins[one.node_id] = min(begins.get(one.node_id, books.FOR_EVER), one.starts_at)
    for recorded in told:
        for node_id, start in _booked_by(recorded):
            begins[node_id] = min(begins.get(node_id, books.FOR_EVER), start)
    moving = any(type(one.event) in books.MOVES_OTHERS for one in told)
    if begins and moving:
        for id, since, *held in (yield _NEAR, (list(begins), list(begins.values()))):
            if id not in known.versions:
                known.know(id, since, _held(*held))
    return known


def _booked_by(recorded: Recorded) -> list[tuple[str, int]]:
    match recorded.event:
        case reservation.Placed(allocations=allocations, starts_at=starts_at):
            return [(one.node_id, starts_at) for one in allocations]
        case reservation.MemberPlaced(allocation=one, starts_at=starts_at):
            return [(one.node_id, starts_at)]
        case node.MaintenancePlanned(plan=plan):
            return [(recorded.stream, plan.from_)]
        case _:
            return []


def _scalars_of_nodes(batch: Sequence[Recorded]) -> Steps:
    told = [(one, one.event.scalars) for one in batch if isinstance(one.event, node.DevicesChanged)]
    if not told:
        return ()
    known: Versions[dict[str, int]] = Versions()
    for id, since, scalars in (yield _SCALARS, (list({one.stream for one, _ in told}),)):
        known.know(id, since, _SOLD.decode(scalars))
    for one, scalars in told:
        known.put(one.stream, scalars, one.position)
    return known.writes("node_scalars", OF_NODE, lambda scalars: (encode(scalars).decode(),))


def _columns(held: Held) -> tuple[Any, ...]:
    return (
        held.reservation_id,
        held.node_id,
        held.pool_id,
        held.tenant_id,
        held.bound,
        held.ended,
        held.freed,
        held.matters_until,
        encode(held.atoms).decode(),
        encode(held.scalars).decode(),
    )


def _held(*row: Any) -> Held:
    reservation_id, node_id, pool_id, tenant_id, bound, ended, freed, _, atoms, scalars = row
    held = (_ATOMS.decode(atoms), _AMOUNTS.decode(scalars))
    return Held(reservation_id, node_id, pool_id, tenant_id, bound, ended, freed, *held)


_ATOMS: Final = msgspec.json.Decoder(dict[str, Span])
_AMOUNTS: Final = msgspec.json.Decoder(dict[str, tuple[int, int, int | None]])
_SOLD: Final = msgspec.json.Decoder(dict[str, int])


PROJECTION = Async("bookings_past", TABLES, apply)
