"""Gates: one row per pool and node that every append which books, frees or forbids there locks first.

A booking and a retirement, drain, move or re-partition cannot cross, and rivals for one device queue instead of
deadlocking (architecture.md §2).
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from domain import node, node_spec, offering, pool, reservation
from domain.event import Recorded
from projections.projection import Inline, Phase, Statement

TABLES = """
CREATE TABLE pool_gates (
    pool_id text PRIMARY KEY,
    accepts boolean NOT NULL,
    cut text NOT NULL,
    cleaning_ms bigint NOT NULL
);
CREATE TABLE node_gates (
    node_id text PRIMARY KEY,
    pool_id text,
    accepts boolean NOT NULL,
    layout bigint NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    maintenance boolean NOT NULL DEFAULT false,
    connected boolean NOT NULL DEFAULT false,
    cut text
);
CREATE INDEX node_gates_pool ON node_gates (pool_id);
"""

_SHARE, _EXCLUSIVE = 1, 2


def pool_gate(pool_id: str, *, exclusive: bool = False) -> Statement:
    if exclusive:
        sql = "SELECT 1 FROM pool_gates WHERE pool_id = %s FOR NO KEY UPDATE"
        return Statement(Phase.POOL_GATE, pool_id, sql, (pool_id,), True, _EXCLUSIVE)
    sql = "SELECT 1 FROM pool_gates WHERE pool_id = %s FOR SHARE"
    return Statement(Phase.POOL_GATE, pool_id, sql, (pool_id,), True, _SHARE)


_NODE_GATES = """
SELECT 1 FROM node_gates
WHERE node_id = ANY(ARRAY(
    SELECT unnest(%s::text[]) UNION SELECT node_id FROM device_bookings WHERE reservation_id = ANY(%s::text[])
))
ORDER BY node_id FOR NO KEY UPDATE
"""


def _node_gates(nodes: list[str], reservations: list[str]) -> Statement:
    params = (nodes, reservations)
    return Statement(Phase.NODE_GATE, "", _NODE_GATES, params, only_live=True, rank=_EXCLUSIVE, union=True)


def node_gate(node_id: str) -> Statement:
    return _node_gates([node_id], [])


def gates_of(reservation_id: str) -> Statement:
    """The gates of all nodes where the reservation has bookings; an append takes all its node gates in id order."""
    return _node_gates([], [reservation_id])


def _pool_accepts(pool_id: str) -> Statement:
    sql = """
    SELECT refuse('POOL_CLOSED', jsonb_build_object('poolId', %s::text))
    WHERE NOT EXISTS (SELECT 1 FROM pool_gates WHERE pool_id = %s AND accepts)
    """
    return Statement(Phase.GATE_CHECK, pool_id, sql, (pool_id, pool_id), True)


def _node_is_free(node_id: str, act: str, phase: Phase = Phase.GATE_CHECK) -> Statement:
    sql = """
    SELECT refuse('NODE_BOOKED', jsonb_build_object('act', %s::text, 'reservations', jsonb_agg(id)))
    FROM (
        SELECT DISTINCT reservation_id AS id FROM device_bookings
        WHERE node_id = %s AND reservation_id IS NOT NULL
          AND ((bound AND NOT freed) OR upper_inf(during) OR upper(during) > database_ms())
        ORDER BY 1 LIMIT 20
    ) AS booked
    HAVING count(*) > 0
    """
    return Statement(phase, node_id, sql, (act, node_id), True)


def _nothing_goes_on(node_id: str, act: str) -> Statement:
    """As `_node_is_free`, but what has ended may still be torn down: the act waits for that."""
    sql = """
    SELECT refuse('NODE_BOOKED', jsonb_build_object('act', %s::text, 'reservations', jsonb_agg(id)))
    FROM (
        SELECT DISTINCT reservation_id AS id FROM device_bookings
        WHERE node_id = %s AND reservation_id IS NOT NULL AND NOT freed AND NOT ended
          AND (bound OR upper_inf(during) OR upper(during) > database_ms())
        ORDER BY 1 LIMIT 20
    ) AS booked
    HAVING count(*) > 0
    """
    return Statement(Phase.TAKE_CHECK, node_id, sql, (act, node_id), True)


def _is_free_over(node_id: str, plan: node.Plan) -> Statement:
    sql = """
    SELECT refuse('NODE_BOOKED', jsonb_build_object('act', 'maintenance', 'reservations', jsonb_agg(id)))
    FROM (
        SELECT DISTINCT coalesce(reservation_id, allocation_id) AS id FROM device_bookings
        WHERE node_id = %s AND during && int8range(%s, %s) ORDER BY 1 LIMIT 20
    ) AS booked
    HAVING count(*) > 0
    """
    return Statement(Phase.GATE_CHECK, node_id, sql, (node_id, plan.from_, plan.until), True)


def _within_budget(node_id: str, event: node.DrainStarted) -> Iterator[Statement]:
    """Drains of a pool queue at its gate, so that each sees those before it (domain.md §3, Drain)."""
    if event.pool_id is None:
        return
    yield pool_gate(event.pool_id, exclusive=True)
    if event.forced:
        return
    sql = """
    SELECT refuse('DISRUPTION_BUDGET', jsonb_build_object(
        'nodes', to_jsonb((array_agg(node_id ORDER BY node_id) FILTER (WHERE disrupted))[1:20]),
        'most', greatest(1, floor(%s::float8 * (count(*) + 1)))
    ))
    FROM (
        SELECT node_id, draining OR maintenance OR NOT connected AS disrupted FROM node_gates
        WHERE pool_id = %s AND node_id <> %s
    ) AS others
    HAVING count(*) FILTER (WHERE disrupted) + 1 > greatest(1, floor(%s::float8 * (count(*) + 1)))
       AND NOT EXISTS (SELECT 1 FROM node_gates WHERE node_id = %s AND draining)
    """
    budget = str(event.budget)
    params = (budget, event.pool_id, node_id, budget, node_id)
    yield Statement(Phase.GATE_CHECK, node_id, sql, params, True)


def _mark(node_id: str, column: Literal["draining", "maintenance", "connected"], holds: bool) -> Iterator[Statement]:
    yield node_gate(node_id)
    sql = {
        "draining": "UPDATE node_gates SET draining = %s WHERE node_id = %s",
        "maintenance": "UPDATE node_gates SET maintenance = %s WHERE node_id = %s",
        "connected": "UPDATE node_gates SET connected = %s WHERE node_id = %s",
    }[column]
    yield Statement(Phase.CATALOG, node_id, sql, (holds, node_id))


def _takes_it(
    placed: reservation.Placed | reservation.MemberPlaced, taken: Sequence[reservation.Allocation]
) -> Statement:
    """As `_pool_accepts`, and every node is open, in this pool, and still cut up as the choice had it.

    Planned maintenance is of the whole node, also of what came to it since.
    """
    sql = """
    SELECT refuse('POOL_CLOSED', jsonb_build_object('poolId', %s::text))
    WHERE NOT EXISTS (SELECT 1 FROM pool_gates WHERE pool_id = %s AND accepts)
    UNION ALL
    SELECT refuse('NODE_CLOSED', jsonb_build_object('nodeId', wanted.node_id))
    FROM unnest(%s::text[], %s::bigint[]) AS wanted (node_id, layout)
    LEFT JOIN node_gates AS gate ON gate.node_id = wanted.node_id
    WHERE NOT coalesce(gate.accepts AND gate.pool_id = %s AND gate.layout = wanted.layout, false)
       OR EXISTS (
           SELECT 1 FROM device_bookings AS planned
           WHERE planned.node_id = wanted.node_id AND planned.reservation_id IS NULL
             AND planned.during && int8range(%s, %s)
       )
    """
    nodes = [a.node_id for a in taken]
    layouts = [a.layout for a in taken]
    window = (placed.starts_at, placed.ends_at)
    params = (placed.pool_id, placed.pool_id, nodes, layouts, placed.pool_id, *window)
    return Statement(Phase.GATE_CHECK, placed.pool_id, sql, params, True)


def _nothing_planned(stream: str, event: reservation.Extended) -> Statement:
    """Planned maintenance is of the whole node, whichever atoms the plan found there."""
    sql = """
    SELECT refuse('DOUBLE_BOOKED', jsonb_build_object('nodeId', planned.node_id, 'resource', 'room'))
    FROM device_bookings AS planned
    WHERE planned.reservation_id IS NULL AND planned.during && int8range(%s, %s)
      AND planned.node_id IN (SELECT node_id FROM device_bookings WHERE reservation_id = %s AND NOT ended)
    LIMIT 1
    """
    return Statement(Phase.GATE_CHECK, stream, sql, (event.former_ends_at, event.ends_at, stream), True)


def _retire_pool(pool_id: str) -> Iterator[Statement]:
    yield pool_gate(pool_id, exclusive=True)
    guard = """
    SELECT refuse('POOL_IN_USE', jsonb_build_object('nodes', jsonb_agg(node_id)))
    FROM (SELECT node_id FROM node_gates WHERE pool_id = %s ORDER BY 1 LIMIT 20) AS kept
    HAVING count(*) > 0
    """
    yield Statement(Phase.GATE_CHECK, pool_id, guard, (pool_id,), True)
    waiting = """
    SELECT refuse('POOL_IN_USE', jsonb_build_object('reservations', jsonb_agg(reservation_id)))
    FROM (SELECT reservation_id FROM pool_queue WHERE pool_id = %s ORDER BY 1 LIMIT 20) AS queued
    HAVING count(*) > 0
    """
    yield Statement(Phase.GATE_CHECK, pool_id, waiting, (pool_id,), True)
    closing = "UPDATE pool_gates SET accepts = false WHERE pool_id = %s"
    yield Statement(Phase.CATALOG, pool_id, closing, (pool_id,))


def _cut_pool(pool_id: str, cut: str) -> Iterator[Statement]:
    """A pool and its nodes are cut up alike: one that was assigned meanwhile makes the append decide again."""
    yield pool_gate(pool_id, exclusive=True)
    sql = "UPDATE pool_gates SET cut = %s WHERE pool_id = %s"
    yield Statement(Phase.CATALOG, pool_id, sql, (cut, pool_id))
    guard = """
    SELECT refuse('RACE', jsonb_build_object('nodes', jsonb_agg(node_id)))
    FROM node_gates WHERE pool_id = %s AND cut <> %s HAVING count(*) > 0
    """
    yield Statement(Phase.CATALOG, f"shape/{pool_id}", guard, (pool_id, cut), True)


def _cut_node(node_id: str, sharing: node_spec.Sharing) -> Iterator[Statement]:
    """As `_cut_pool`, for a node that comes into a pool while that is cut up anew."""
    yield node_gate(node_id)
    layout = tuple(sorted((piece.start, piece.profile) for piece in sharing.layout))
    sql = "UPDATE node_gates SET cut = %s WHERE node_id = %s"
    yield Statement(Phase.CATALOG, node_id, sql, (str((sharing.slots, layout)), node_id))
    guard = """
    SELECT refuse('RACE', jsonb_build_object('poolId', pool_id))
    FROM node_gates JOIN pool_gates USING (pool_id)
    WHERE node_id = %s AND node_gates.cut <> pool_gates.cut
    """
    yield Statement(Phase.CATALOG, f"shape/{node_id}", guard, (node_id,), True)


def _keeps_its_cut(node_id: str, layout: int) -> Statement:
    """A booking names the layout that it was made in: no newer one comes under it (domain.md §4, Slices)."""
    sql = """
    SELECT refuse('NODE_BOOKED', jsonb_build_object('act', 'a new partitioning', 'reservations', jsonb_agg(id)))
    FROM (
        SELECT DISTINCT reservation_id AS id FROM device_bookings JOIN node_gates USING (node_id)
        WHERE node_id = %s AND node_gates.layout < %s AND reservation_id IS NOT NULL
          AND ((bound AND NOT freed) OR upper_inf(during) OR upper(during) > database_ms())
        ORDER BY 1 LIMIT 20
    ) AS booked
    HAVING count(*) > 0
    """
    return Statement(Phase.TAKE_CHECK, node_id, sql, (node_id, layout), True)


def _of_pool(stream: str, event: pool.Events) -> Iterator[Statement]:
    match event:
        case pool.Created():
            sql = "INSERT INTO pool_gates (pool_id, accepts, cut, cleaning_ms) VALUES (%s, true, %s, %s)"
            gap_ms = event.policy.cleaning_seconds * 1000
            yield Statement(Phase.CATALOG, stream, sql, (stream, str(pool.cut(event.policy)), gap_ms))
        case pool.PolicyChanged(policy=policy):
            yield from _cut_pool(stream, str(pool.cut(policy)))
            sql = "UPDATE pool_gates SET cleaning_ms = %s WHERE pool_id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (policy.cleaning_seconds * 1000, stream))
        case pool.Retired():
            yield from _retire_pool(stream)
        case _:
            pass


def _of_node(stream: str, event: node.Events) -> Iterator[Statement]:
    match event:
        case node.Joined():
            sql = "INSERT INTO node_gates (node_id, accepts, layout) VALUES (%s, false, 0)"
            yield Statement(Phase.CATALOG, stream, sql, (stream,))
        case node.Assigned():
            if event.pool_id is not None:
                yield pool_gate(event.pool_id)
                yield _pool_accepts(event.pool_id)
            yield node_gate(stream)
            yield _node_is_free(stream, "assign", Phase.TAKE_CHECK)
            sql = "UPDATE node_gates SET pool_id = %s WHERE node_id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (event.pool_id, stream))
        case node.DevicesChanged():
            yield node_gate(stream)
            yield _keeps_its_cut(stream, event.layout)
            sql = "UPDATE node_gates SET layout = %s WHERE node_id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (event.layout, stream))
        case node.SpecShaped(sharing=sharing):
            yield from _cut_node(stream, sharing)
        case node.Moved(provision="retiring"):
            yield node_gate(stream)
            yield _node_is_free(stream, "retire", Phase.TAKE_CHECK)
        case node.Moved(provision="releasing"):
            yield node_gate(stream)
            yield _nothing_goes_on(stream, "release")
        case node.MaintenancePlanned(plan=plan):
            yield node_gate(stream)
            yield _is_free_over(stream, plan)
        case node.PlanEnded():
            yield node_gate(stream)
        case node.DrainStarted():
            yield from _within_budget(stream, event)
            yield from _mark(stream, "draining", True)
        case node.DrainEnded():
            yield from _mark(stream, "draining", False)
        case node.MaintenanceEntered():
            yield from _mark(stream, "maintenance", True)
        case node.MaintenanceLeft(still=still):
            yield from _mark(stream, "maintenance", still)
        case node.ConnectivityChanged(connectivity=connectivity):
            yield from _mark(stream, "connected", connectivity == "connected")
        case node.Fenced():
            yield node_gate(stream)
        case node.SchedulabilityChanged():
            yield node_gate(stream)
            sql = "UPDATE node_gates SET accepts = %s WHERE node_id = %s"
            yield Statement(Phase.CATALOG, stream, sql, (not event.reasons, stream))
        case _:
            pass


def _of_reservation(stream: str, event: reservation.Events) -> Iterator[Statement]:
    match event:
        case reservation.Queued():
            yield pool_gate(event.pool_id, exclusive=True)
            yield _pool_accepts(event.pool_id)
            yield gates_of(stream)
        case reservation.Placed():
            yield pool_gate(event.pool_id)
            for allocation in event.allocations:
                yield node_gate(allocation.node_id)
            yield _takes_it(event, event.allocations)
        case reservation.Extended() as event:
            yield gates_of(stream)
            if event.ends_at > event.former_ends_at:
                yield _nothing_planned(stream, event)
        case reservation.MemberPlaced(allocation=allocation):
            yield pool_gate(event.pool_id)
            yield node_gate(allocation.node_id)
            yield _takes_it(event, (allocation,))
        case reservation.TornDown() | reservation.MemberLost():
            yield node_gate(event.node_id)
        case (
            reservation.BindingStarted()
            | reservation.ReleaseStarted()
            | reservation.Failed()
            | reservation.Cancelled()
            | reservation.Expired()
        ):
            yield gates_of(stream)
        case _:
            pass


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream, event = recorded.stream, recorded.event
    if isinstance(event, offering.Offered):
        yield pool_gate(event.pool_id)
        yield _pool_accepts(event.pool_id)
    if stream.startswith("pool_"):
        yield from _of_pool(stream, event)  # type: ignore[arg-type]
    elif stream.startswith("node_"):
        yield from _of_node(stream, event)  # type: ignore[arg-type]
    elif stream.startswith("rsv_"):
        yield from _of_reservation(stream, event)  # type: ignore[arg-type]


PROJECTION = Inline("gates", TABLES, fold)
