"""What was really used: how long each allocation's devices were a tenant's (domain.md §5; decisions/0018).

A span begins when the tenant can use the devices and ends when they stop being its own, whatever was booked. An open
one has no end yet. Until a reservation ended, what its spans are made of is kept beside them.
"""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import msgspec
from msgspec import Struct

from domain import claim, reservation
from domain.event import Recorded
from projections import history
from projections.documents import encode
from projections.projection import Async, Steps, Write

TABLES = """
CREATE TABLE usage_running (
    reservation_id text PRIMARY KEY,
    running bytea NOT NULL
);
CREATE TABLE usage_spans (
    allocation_id text NOT NULL,
    resource text NOT NULL,
    reservation_id text NOT NULL,
    tenant_id text NOT NULL,
    project_id text,
    pool_id text NOT NULL,
    gpu_model text NOT NULL,
    amount bigint NOT NULL,
    gpus bigint NOT NULL,
    starts_at bigint NOT NULL,
    ends_at bigint,
    begun_position bigint NOT NULL,
    ended_position bigint,
    PRIMARY KEY (allocation_id, resource)
);
CREATE INDEX usage_spans_by_tenant ON usage_spans (tenant_id, starts_at);
CREATE INDEX usage_spans_by_end ON usage_spans (ends_at);
"""

_TYPED = (
    "allocation_id text",
    "resource text",
    "reservation_id text",
    "tenant_id text",
    "project_id text",
    "pool_id text",
    "gpu_model text",
    "amount bigint",
    "gpus bigint",
    "starts_at bigint",
    "begun_position bigint",
)
_KNOWN = "SELECT reservation_id, running FROM usage_running WHERE reservation_id = ANY(%s)"
_CLEAR = "DELETE FROM usage_running WHERE reservation_id = ANY(%s::text[])"
_KEEP = "ON CONFLICT (reservation_id) DO UPDATE SET running = excluded.running"
_END = """
UPDATE usage_spans AS span SET ends_at = greatest(span.starts_at, stopped.at), ended_position = stopped.position
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS stopped (allocation_id, at, position)
WHERE span.allocation_id = stopped.allocation_id AND span.ended_position IS NULL
"""

_OVER = (
    reservation.Denied,
    reservation.Cancelled,
    reservation.Expired,
    reservation.ReleaseStarted,
    reservation.Failed,
)

SPANS: Final[LiteralString] = """(
    SELECT allocation_id, resource, reservation_id, tenant_id, project_id, pool_id, gpu_model, amount, gpus, starts_at,
           CASE WHEN ended_position <= %(_as_of)s THEN ends_at END AS ends_at
    FROM usage_spans WHERE begun_position <= %(_as_of)s
)"""
"""The spans as they were at `_as_of`."""


class Lot(Struct, frozen=True):
    """Devices of one class, or so much of a scalar, that each member has, and the GPUs that they stand for."""

    resource: str
    amount: int
    gpus: int


class Running(Struct, frozen=True):
    """A reservation that may still use something.

    `members` are its allocations by when they are its own from (epoch ms), None while its node is to prepare it.
    """

    tenant_id: str
    project_id: str | None
    gpu_model: str
    lots: tuple[Lot, ...]
    pool_id: str
    members: dict[str, int | None] = {}
    booked_from: dict[str, int] = {}
    active: bool = False


class _Spans:
    """Spans that a batch opens and ends."""

    def __init__(self) -> None:
        self.opened: list[tuple[Any, ...]] = []
        self.ended: list[tuple[str, int, int]] = []

    def open(self, by: Recorded, of: Running, allocation_id: str, at: int) -> None:
        whose = (of.tenant_id, of.project_id, of.pool_id, of.gpu_model)
        for lot in of.lots:
            row = (allocation_id, lot.resource, by.stream, *whose, lot.amount, lot.gpus, at, by.position)
            self.opened.append(row)

    def end(self, by: Recorded, of: Running, at: int) -> None:
        using = (allocation_id for allocation_id, since in of.members.items() if since is not None)
        self.ended += [(allocation_id, at, by.position) for allocation_id in using]


def apply(batch: Sequence[Recorded]) -> Steps:
    told = [recorded for recorded in batch if recorded.stream.startswith("rsv_")]
    if not told:
        return ()
    streams = list({recorded.stream for recorded in told})
    known = {id: msgspec.json.decode(running, type=Running) for id, running in (yield _KNOWN, (streams,))}
    running: dict[str, Running | None] = dict(known)
    spans = _Spans()
    for recorded in told:
        running[recorded.stream] = _after(running.get(recorded.stream), recorded, spans)
    kept = [(id, encode(of)) for id, of in running.items() if of is not None and of != known.get(id)]
    over = [id for id, of in running.items() if of is None and id in known]
    writes: list[Write] = []
    if kept:
        writes.append(history.insert("usage_running", ("reservation_id text", "running bytea"), kept, _KEEP))
    if over:
        writes.append((_CLEAR, (over,)))
    if spans.opened:
        writes.append(history.insert("usage_spans", _TYPED, spans.opened))
    if spans.ended:
        writes.append((_END, history.columns(spans.ended, 3)))
    return writes


def _after(of: Running | None, recorded: Recorded, spans: _Spans) -> Running | None:
    """What is running after an event; None once nothing can be used any more."""
    event = recorded.event
    if isinstance(event, reservation.Drafted):
        return Running(event.tenant_id, event.project_id, event.gpu_model, lots(event), event.pool_id)
    if of is None:
        return None
    if isinstance(event, _OVER):
        if isinstance(event, reservation.ReleaseStarted | reservation.Failed):
            spans.end(recorded, of, event.at)
        return None
    return _moved(of, recorded, spans)


def _moved(of: Running, recorded: Recorded, spans: _Spans) -> Running:
    match recorded.event:
        case reservation.Placed(allocations=allocations):
            return msgspec.structs.replace(of, members=dict.fromkeys((a.id for a in allocations), None))
        case reservation.Activated(at=at):
            for member in of.members:
                spans.open(recorded, of, member, at)
            return msgspec.structs.replace(of, members=dict.fromkeys(of.members, at), active=True)
        case reservation.MemberLost(allocation_id=lost, at=at):
            if of.members.get(lost) is not None:
                spans.ended.append((lost, at, recorded.position))
            return msgspec.structs.replace(of, members={m: since for m, since in of.members.items() if m != lost})
        case reservation.MemberPlaced(allocation=new, starts_at=starts_at):
            members = of.members | {new.id: None}
            return msgspec.structs.replace(of, members=members, booked_from=of.booked_from | {new.id: starts_at})
        case reservation.Prepared(allocation_id=member) if of.active and of.members.get(member, 0) is None:
            at = max(recorded.recorded_at, of.booked_from.get(member, 0))
            spans.open(recorded, of, member, at)
            return msgspec.structs.replace(of, members=of.members | {member: at})
        case _:
            return of


def lots(draft: reservation.Drafted) -> tuple[Lot, ...]:
    """Per class and scalar what each member has. A `node` stands for the GPUs that the draft's gpuCount gives it."""
    asked = draft.claim
    counts: dict[str, int] = {}
    for line in asked.devices:
        counts[line.class_] = counts.get(line.class_, 0) + line.count
    gpus = {class_: count for class_, count in counts.items() if class_ in claim.GPU_CLASSES}
    gpus["node"] = draft.gpu_count // asked.nodes - sum(gpus.values())
    amounts: dict[str, int] = counts | dict(asked.scalars.items())
    return tuple(Lot(of, amount, gpus.get(of, 0)) for of, amount in sorted(amounts.items()) if amount)


_SHAPE = msgspec.json.encode(msgspec.json.schema(Running), order="sorted").decode() + ", with scalars"
PROJECTION = Async("usage", TABLES, apply, _SHAPE)
