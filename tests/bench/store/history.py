"""A log of any length, written at once: nodes, and reservations through their whole life, as the commands append them.

Nobody could wait for a million events through the appends; the rows are those that the appends would have written, so
that every projection, inline ones too, can be made from them. An hour of the fleet: each node is booked, bound, active,
released and torn down, and each of these steps is taken on every node before the next, as streams lie in a real log.
"""

from collections.abc import Iterator
from typing import Any, Final

import psycopg

from adapters.ids import Mint
from adapters.postgres import envelope
from adapters.postgres.mapper import EventMapper, decode
from domain import node, node_spec, registry, reservation
from domain.event import Append, Change, Event, Meta
from tests.bench.store import bookings

_COPY: Final = "COPY stored_events (originator_id, originator_version, topic, state, recorded_at) FROM STDIN"
_WORKER: Final = Meta("controller:bench")
A_LIFE: Final = 13
"""Events of one reservation, those of its admission and its node included."""

States = dict[str, tuple[int, Any]]


def write(connection: psycopg.Connection[Any], events: int, first: int = 0) -> int:
    """Append so many events of reservations, rounded up to whole hours, to a fleet that is there; return how many.

    `first` is the number of the first reservation; the log must hold every one before it.
    """
    hours = -(-events // (A_LIFE * bookings.NODES))
    mint, mapper = Mint(), EventMapper()
    states = _nodes(connection)
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        written = 0
        for hour in range(first // bookings.NODES, first // bookings.NODES + hours):
            for append in _hour(hour, states):
                after = [_after(change, states) for change in append.changes]
                for recorded in envelope.seal(append, after, mint):
                    row = mapper.to_stored_event(recorded)
                    at = bookings.T0 + hour * bookings.HOUR_MS + written % bookings.HOUR_MS
                    copy.write_row((row.originator_id, row.originator_version, row.topic, row.state, at))
                    written += 1
    connection.execute("SELECT setval('stored_events_position', max(notification_id)) FROM stored_events")
    connection.execute("VACUUM ANALYZE stored_events")
    return written


def _nodes(connection: psycopg.Connection[Any]) -> States:
    """Where every node stands, read from the log."""
    sql = """
    SELECT originator_id, originator_version, topic, state, notification_id, recorded_at
    FROM stored_events WHERE originator_id LIKE 'node\\_%' ORDER BY originator_id, originator_version
    """
    states: States = {}
    for row in connection.execute(sql).fetchall():
        recorded = decode(*row)
        before = states.get(recorded.stream, (0, None))[1]
        states[recorded.stream] = (recorded.version, registry.fold(recorded.stream, [recorded.event], before))
    return states


def _after(change: Change, states: States) -> Any:
    """Reservations of a past hour are forgotten: memory does not grow with the log."""
    _, before = states.get(change.stream, (0, None))
    state = registry.fold(change.stream, change.events, before)
    over = isinstance(change.events[-1], reservation.Released) or change.stream.startswith("adm_")
    if over:
        states.pop(change.stream, None)
    else:
        states[change.stream] = (change.expected + len(change.events), state)
    return state


def _hour(hour: int, states: States) -> Iterator[Append]:
    numbers = range(hour * bookings.NODES, (hour + 1) * bookings.NODES)
    for number in numbers:
        yield bookings.append(bookings.names(number))
    for step in (_bind, _activate, _release, _tear_down):
        for number in numbers:
            yield step(bookings.names(number), states)


def _bind(of: bookings.Names, states: States) -> Append:
    spec: node.State = states[f"node_{of.node}"][1]
    added = node_spec.Allocation(f"alloc_{of.tag}", f"rsv_{of.tag}", tuple(f"nvidia.com/gpu={n}" for n in range(8)))
    generation = spec.generation + 1
    started = reservation.BindingStarted({f"node_{of.node}": generation}, of.start, of.start + 300_000)
    return _append(of, states, (started,), (node.SpecChanged(generation, added=(added,)),))


def _activate(of: bookings.Names, states: States) -> Append:
    spec: node.State = states[f"node_{of.node}"][1]
    prepared = reservation.Prepared(f"alloc_{of.tag}", spec.generation)
    observed = node.SpecObserved(spec.generation)
    return _append(of, states, (prepared, reservation.Activated(of.start + 1)), (observed,))


def _release(of: bookings.Names, states: States) -> Append:
    spec: node.State = states[f"node_{of.node}"][1]
    generation = spec.generation + 1
    ending = reservation.ReleaseStarted("Ended", of.end - 2, {f"node_{of.node}": generation})
    removal = node.SpecChanged(generation, removed=(f"alloc_{of.tag}",))
    return _append(of, states, (ending,), (removal,))


def _tear_down(of: bookings.Names, states: States) -> Append:
    torn = reservation.TornDown(f"alloc_{of.tag}", f"node_{of.node}", of.end - 1)
    return _append(of, states, (torn, reservation.Released("Ended", of.end - 1)), ())


def _append(of: bookings.Names, states: States, mine: tuple[Event, ...], on_node: tuple[Event, ...]) -> Append:
    changes = [Change(f"rsv_{of.tag}", states[f"rsv_{of.tag}"][0], mine)]
    if on_node:
        changes.append(Change(f"node_{of.node}", states[f"node_{of.node}"][0], on_node))
    return Append(tuple(changes), _WORKER)
