"""Bookings: the table in which the database itself refuses to book an atom twice (domain.md §5).

A row without a reservation is planned maintenance. What takes no device, an allocation of scalars alone or a plan on a
node without any, has one row all the same, whose device is its own id (`books.devices`): whoever asks what is booked
on a node, or held, or proved free, asks these rows.
"""

from collections.abc import Iterator, Sequence
from typing import Final, LiteralString

from domain import node, reservation
from domain.event import Recorded
from projections import books, cleaning
from projections.projection import Inline, Phase, Statement

_UNTIL: LiteralString = "coalesce(upper(during), 9223372036854775807)"
_MATTERS_UNTIL: LiteralString = f"CASE WHEN freed THEN {_UNTIL} ELSE 9223372036854775807 END"

TABLES = f"""
CREATE TABLE device_bookings (
    device_id text NOT NULL,
    allocation_id text NOT NULL,
    reservation_id text,
    node_id text NOT NULL,
    pool_id text NOT NULL,
    tenant_id text NOT NULL,
    bound boolean NOT NULL,
    ended boolean NOT NULL DEFAULT false,
    freed boolean NOT NULL DEFAULT false,
    during int8range NOT NULL CHECK (NOT isempty(during)),
    PRIMARY KEY (allocation_id, device_id),
    CONSTRAINT device_bookings_never_overlap
        EXCLUDE USING gist (hashtextextended(device_id, 0) WITH =, during WITH &&) DEFERRABLE INITIALLY IMMEDIATE
) WITH (fillfactor = 60);
CREATE INDEX device_bookings_reservation ON device_bookings (reservation_id);
CREATE INDEX device_bookings_device ON device_bookings (device_id, lower(during));
CREATE INDEX device_bookings_unproved ON device_bookings (device_id, lower(during)) WHERE ended AND NOT freed;
CREATE INDEX device_bookings_node ON device_bookings (node_id);
CREATE INDEX device_bookings_plans ON device_bookings (node_id) WHERE reservation_id IS NULL;
CREATE INDEX device_bookings_pool ON device_bookings (pool_id, ({_MATTERS_UNTIL}));
CREATE TABLE node_scalars (
    node_id text NOT NULL,
    resource text NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (node_id, resource)
);
CREATE TABLE scalar_bookings (
    allocation_id text NOT NULL,
    resource text NOT NULL,
    reservation_id text NOT NULL,
    node_id text NOT NULL,
    amount bigint NOT NULL,
    during int8range NOT NULL CHECK (NOT isempty(during)),
    PRIMARY KEY (allocation_id, resource)
);
CREATE INDEX scalar_bookings_node ON scalar_bookings (node_id, resource);
CREATE INDEX scalar_bookings_reservation ON scalar_bookings (reservation_id);
CREATE INDEX scalar_bookings_until ON scalar_bookings (({_UNTIL}));
"""

DEVICES: Final[LiteralString] = f"(SELECT *, {_MATTERS_UNTIL} AS matters_until FROM device_bookings)"
SCALARS: Final[LiteralString] = f"(SELECT *, {_UNTIL} AS matters_until FROM scalar_bookings)"
"""The rows, each with an instant behind which it means nothing, as `bookings_past` has it: for ever until proved free.

Most rows are of the past: who asks of a time passes them over by the index on that instant.
"""


def overlapping(first: LiteralString, end: LiteralString) -> LiteralString:
    """Those rows `b` of either that overlap `[first, end)`.

    As `during &&` the exclusion's index would offer to find them, and be read from end to end.
    """
    return (
        f"b.matters_until > {first} AND lower(b.during) < {end} AND (upper_inf(b.during) OR upper(b.during) > {first})"
    )


def _place(
    stream: str,
    event: reservation.Placed | reservation.MemberPlaced,
    taken: Sequence[reservation.Allocation],
    *,
    bound: bool,
) -> Iterator[Statement]:
    rows = [(device, a.id, a.node_id) for a in taken for device in books.devices(a.id, a.atoms)]
    atoms, allocations, nodes = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    sql = """
    INSERT INTO device_bookings
        (device_id, allocation_id, reservation_id, node_id, pool_id, tenant_id, bound, during)
    SELECT atom, allocation_id, %s, node_id, %s, %s, %s, int8range(%s, %s)
    FROM unnest(%s::text[], %s::text[], %s::text[]) AS wanted (atom, allocation_id, node_id)
    ORDER BY atom
    """
    during = (event.starts_at, event.ends_at)
    params = (stream, event.pool_id, event.tenant_id, bound, *during, atoms, allocations, nodes)
    yield Statement(Phase.TAKE, stream, sql, params)
    yield cleaning.keeps_gap(stream, event.pool_id, during, [a.id for a in taken])
    if bound:
        yield _given_back(stream, [a.id for a in taken])
    scalars = [(a.id, r, a.node_id, n) for a in taken for r, n in a.scalars.items() if n]
    if scalars:
        yield from _take_scalars(stream, during, scalars)


def _given_back(stream: str, allocations: list[str]) -> Statement:
    """What is bound at once waits for nobody: whoever had its atoms before has torn them down."""
    sql = """
    SELECT refuse('DOUBLE_BOOKED', jsonb_build_object('nodeId', mine.node_id, 'resource', 'room'))
    FROM device_bookings AS mine JOIN device_bookings AS earlier ON earlier.device_id = mine.device_id
    WHERE mine.allocation_id = ANY(%s) AND earlier.allocation_id <> mine.allocation_id
      AND earlier.bound AND NOT earlier.freed AND lower(earlier.during) < lower(mine.during)
    LIMIT 1
    """
    return Statement(Phase.TAKE_CHECK, stream, sql, (allocations,), True)


def _take_scalars(
    stream: str, during: tuple[int, int], scalars: list[tuple[str, str, str, int]]
) -> Iterator[Statement]:
    allocations, resources, nodes, amounts = (list(column) for column in zip(*scalars, strict=True))
    sql = """
    INSERT INTO scalar_bookings (allocation_id, resource, reservation_id, node_id, amount, during)
    SELECT allocation_id, resource, %s, node_id, amount, int8range(%s, %s)
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
        AS wanted (allocation_id, resource, node_id, amount)
    """
    yield Statement(Phase.TAKE, stream, sql, (stream, *during, allocations, resources, nodes, amounts))
    yield _scalars_fit(stream, during)


def _scalars_fit(stream: str, during: tuple[int, int]) -> Statement:
    """What is booked of each scalar, on the nodes where the reservation has any, never passes what the node has."""
    guard = """
    WITH held AS (SELECT DISTINCT node_id FROM scalar_bookings WHERE reservation_id = %s)
    SELECT refuse('DOUBLE_BOOKED', jsonb_build_object('nodeId', peak.node_id, 'resource', peak.resource))
    FROM (
        SELECT node_id, resource, sum(delta) OVER (
            PARTITION BY node_id, resource ORDER BY instant, delta ROWS UNBOUNDED PRECEDING
        ) AS used
        FROM (
            SELECT node_id, resource, greatest(lower(during), %s) AS instant, amount AS delta FROM scalar_bookings
            WHERE node_id IN (SELECT node_id FROM held) AND during && int8range(%s, %s)
            UNION ALL
            SELECT node_id, resource, upper(during), -amount FROM scalar_bookings
            WHERE node_id IN (SELECT node_id FROM held) AND during && int8range(%s, %s) AND NOT upper_inf(during)
        ) AS steps
    ) AS peak
    LEFT JOIN node_scalars AS capacity USING (node_id, resource)
    WHERE peak.used > coalesce(capacity.amount, 0)
    LIMIT 1
    """
    return Statement(Phase.TAKE_CHECK, stream, guard, (stream, during[0], *during, *during), True)


def _move_end(stream: str, event: reservation.Extended) -> Iterator[Statement]:
    """Its own rows move, so they are in nobody's way; the exclusion judges whether others are (O06, O07)."""
    longer = event.ends_at > event.former_ends_at
    phase = Phase.TAKE if longer else Phase.FREE
    sql = """
    UPDATE device_bookings SET during = int8range(lower(during), greatest(lower(during) + 1, %s))
    WHERE reservation_id = %s AND NOT ended
    """
    yield Statement(phase, stream, sql, (event.ends_at, stream))
    scalars = """
    UPDATE scalar_bookings SET during = int8range(lower(during), greatest(lower(during) + 1, %s))
    WHERE allocation_id = ANY(%s)
    """
    yield Statement(phase, stream, scalars, (event.ends_at, list(event.allocations)))
    if longer:
        added = (event.former_ends_at, event.ends_at)
        yield _scalars_fit(stream, added)
        yield cleaning.keeps_gap(stream, event.pool_id, added, event.allocations, anew=False)


def _end_early(stream: str, ends_at: int) -> Iterator[Statement]:
    """What is preempted makes room in the same append."""
    sql = """
    UPDATE device_bookings SET during = int8range(lower(during), greatest(lower(during) + 1, %s))
    WHERE reservation_id = %s AND NOT ended AND upper(during) > %s
    """
    yield Statement(Phase.FREE, stream, sql, (ends_at, stream, ends_at))
    scalars = """
    UPDATE scalar_bookings SET during = int8range(lower(during), greatest(lower(during) + 1, %s))
    WHERE reservation_id = %s AND upper(during) > %s
    """
    yield Statement(Phase.FREE, stream, scalars, (ends_at, stream, ends_at))


def _hold_until_torn_down(stream: str, lost: str | None = None) -> Iterator[Statement]:
    """An atom is free only when proved free: its booking runs to the device's next one, else for ever.

    Of one allocation that is `lost`, else of all; those that were lost before hold their atoms already.
    """
    sql = """
    UPDATE device_bookings AS held
    SET ended = true, during = int8range(lower(held.during), (
        SELECT min(lower(following.during)) FROM device_bookings AS following
        WHERE following.device_id = held.device_id AND lower(following.during) > lower(held.during)
    ))
    WHERE held.reservation_id = %s AND NOT held.freed AND NOT held.ended
      AND held.allocation_id = coalesce(%s::text, held.allocation_id)
    """
    yield Statement(Phase.FREE, stream, sql, (stream, lost))
    scalars = """
    UPDATE scalar_bookings SET during = int8range(lower(during), NULL)
    WHERE reservation_id = %s AND allocation_id IN (
        SELECT allocation_id FROM device_bookings WHERE reservation_id = %s AND ended AND NOT freed
    )
    """
    yield Statement(Phase.FREE, stream, scalars, (stream, stream))


def _tear_down(stream: str, allocation_id: str, at: int) -> Iterator[Statement]:
    """What ended before and is not proved free goes on holding an atom from here: it was never given back."""
    devices = """
    UPDATE device_bookings
    SET freed = true, during = int8range(lower(during), greatest(lower(during) + 1, least(upper(during), %s)))
    WHERE allocation_id = %s
    """
    yield Statement(Phase.FREE, stream, devices, (at, allocation_id))
    resuming = """
    WITH resumed AS (
        SELECT gone.device_id, held.allocation_id, upper(gone.during) AS since, (
            SELECT min(lower(following.during)) FROM device_bookings AS following
            WHERE following.device_id = gone.device_id AND lower(following.during) > lower(gone.during)
        ) AS until
        FROM device_bookings AS gone CROSS JOIN LATERAL (
            SELECT earlier.allocation_id FROM device_bookings AS earlier
            WHERE earlier.device_id = gone.device_id AND earlier.allocation_id <> gone.allocation_id
              AND earlier.ended AND NOT earlier.freed AND lower(earlier.during) < upper(gone.during)
            ORDER BY lower(earlier.during) DESC LIMIT 1
        ) AS held
        WHERE gone.allocation_id = %s
    )
    UPDATE device_bookings AS held SET during = int8range(resumed.since, resumed.until)
    FROM resumed
    WHERE held.device_id = resumed.device_id AND held.allocation_id = resumed.allocation_id
      AND (resumed.until IS NULL OR resumed.until > resumed.since)
    """
    yield Statement(Phase.FREE, stream, resuming, (allocation_id,))
    scalars = """
    UPDATE scalar_bookings
    SET during = int8range(lower(during), greatest(lower(during) + 1, least(upper(during), %s)))
    WHERE allocation_id = %s
    """
    yield Statement(Phase.FREE, stream, scalars, (at, allocation_id))


def _never_began(stream: str) -> Iterator[Statement]:
    """The bookings go; what ended before them and is not proved free holds the atoms on."""
    sql = """
    WITH gone AS (DELETE FROM device_bookings WHERE reservation_id = %s RETURNING device_id)
    UPDATE device_bookings AS held
    SET during = int8range(lower(held.during), (
        SELECT min(lower(following.during)) FROM device_bookings AS following
        WHERE following.device_id = held.device_id AND lower(following.during) > lower(held.during)
          AND following.reservation_id IS DISTINCT FROM %s
    ))
    WHERE held.device_id IN (SELECT device_id FROM gone) AND held.reservation_id <> %s
      AND held.ended AND NOT held.freed
    """
    yield Statement(Phase.FREE, stream, sql, (stream, stream, stream))
    scalars = "DELETE FROM scalar_bookings WHERE reservation_id = %s"
    yield Statement(Phase.FREE, stream, scalars, (stream,))


def _plan(stream: str, event: node.MaintenancePlanned) -> Statement:
    sql = """
    INSERT INTO device_bookings (device_id, allocation_id, node_id, pool_id, tenant_id, bound, during)
    SELECT atom, %s, %s, %s, %s, false, int8range(%s, %s) FROM unnest(%s::text[]) AS given (atom) ORDER BY atom
    """
    plan = event.plan
    place = (plan.id, stream, event.pool_id, event.owner_tenant_id)
    devices = list(books.devices(plan.id, plan.atoms))
    return Statement(Phase.TAKE, stream, sql, (*place, plan.from_, plan.until, devices))


def _end_plan(stream: str, plan_id: str, at: int) -> Iterator[Statement]:
    """One that has not begun leaves no trace; either way what is not proved free holds its atoms on."""
    sql = """
    WITH gone AS (DELETE FROM device_bookings WHERE allocation_id = %s AND lower(during) >= %s RETURNING device_id)
    UPDATE device_bookings AS held
    SET during = int8range(lower(held.during), (
        SELECT min(lower(following.during)) FROM device_bookings AS following
        WHERE following.device_id = held.device_id AND lower(following.during) > lower(held.during)
          AND following.allocation_id <> %s
    ))
    WHERE held.device_id IN (SELECT device_id FROM gone) AND held.allocation_id <> %s
      AND held.ended AND NOT held.freed
    """
    yield Statement(Phase.FREE, stream, sql, (plan_id, at, plan_id, plan_id))
    yield from _tear_down(stream, plan_id, at)


def _scalars_of(stream: str, event: node.DevicesChanged) -> Iterator[Statement]:
    sql = "DELETE FROM node_scalars WHERE node_id = %s"
    yield Statement(Phase.CATALOG, stream, sql, (stream,))
    filling = """
    INSERT INTO node_scalars (node_id, resource, amount)
    SELECT %s, resource, amount FROM unnest(%s::text[], %s::bigint[]) AS given (resource, amount)
    """
    given = (stream, list(event.scalars), list(event.scalars.values()))
    yield Statement(Phase.CATALOG, stream, filling, given)


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream = recorded.stream
    match recorded.event:
        case node.DevicesChanged() as event:
            yield from _scalars_of(stream, event)
        case node.MaintenancePlanned() as event if books.is_booked(event):
            yield _plan(stream, event)
        case node.PlanEnded(id=id, at=at):
            yield from _end_plan(stream, id, at)
        case reservation.Placed() as event:
            yield from _place(stream, event, event.allocations, bound=False)
        case reservation.Extended() as event:
            yield from _move_end(stream, event)
        case reservation.Preempted(ends_at=ends_at):
            yield from _end_early(stream, ends_at)
        case reservation.MemberPlaced() as event:
            yield from _place(stream, event, (event.allocation,), bound=True)
        case reservation.MemberLost(allocation_id=allocation_id):
            yield from _hold_until_torn_down(stream, allocation_id)
        case reservation.BindingStarted():
            sql = "UPDATE device_bookings SET bound = true WHERE reservation_id = %s"
            yield Statement(Phase.FREE, stream, sql, (stream,))
        case reservation.ReleaseStarted() | reservation.Failed(began=True):
            yield from _hold_until_torn_down(stream)
        case reservation.TornDown(allocation_id=allocation_id, at=at):
            yield from _tear_down(stream, allocation_id, at)
        case reservation.Queued() | reservation.Failed() | reservation.Cancelled() | reservation.Expired():
            yield from _never_began(stream)
        case _:
            pass


PROJECTION = Inline("bookings", TABLES, fold)
