"""What has to hold after every kill, found by reading the log and the tables, not by asking the plane.

Each check yields what is wrong in words; nothing to say is a pass.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, LiteralString

import msgspec
import psycopg

from adapters import audit_key
from adapters.postgres import evidence_check, rebuild
from domain import admission, registry, reservation, reservation_fold, reservation_view
from domain.event import Recorded
from projections import table
from tests.bench.plane import Plane
from tests.torture.journal import Acknowledged, digest

CAUGHT_UP_S: Final = 30.0
SHOWN_S: Final = 5.0
_POLL_S: Final = 0.02
_SHOWN: Final = 5

_HEAP: LiteralString = """
SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off
"""
"""An index that a crash has broken must not be asked whether all is well."""
_GAPS: LiteralString = """
SELECT originator_id, count(*), count(DISTINCT originator_version), min(originator_version), max(originator_version)
FROM stored_events GROUP BY originator_id
HAVING min(originator_version) <> 1 OR max(originator_version) <> count(*)
    OR count(DISTINCT originator_version) <> count(*)
"""
_TWICE: LiteralString = "SELECT notification_id FROM stored_events GROUP BY notification_id HAVING count(*) > 1"
_COUNT: LiteralString = "SELECT count(*) FROM stored_events"
_OVERLAPS: LiteralString = """
SELECT one.device_id, one.allocation_id, one.during, other.allocation_id, other.during
FROM device_bookings AS one JOIN device_bookings AS other USING (device_id)
WHERE one.allocation_id < other.allocation_id AND one.during && other.during
"""
_POSITIONS: LiteralString = """
SELECT name, position, failure, (SELECT coalesce(max(notification_id), 0) FROM stored_events)
FROM projection_positions WHERE name = ANY(%s)
"""


class Log:
    """The whole log of one moment: by position, by stream and version, by append."""

    def __init__(self, events: Sequence[Recorded]) -> None:
        self.events = events
        self.at = {(recorded.stream, recorded.version): recorded for recorded in events}
        self.appends: dict[str, list[Recorded]] = defaultdict(list)
        for recorded in events:
            self.appends[recorded.part.append].append(recorded)

    def actors(self) -> Counter[str]:
        """How many events each kind of actor brought about: identity, controller, agent."""
        return Counter(recorded.meta.actor.partition(":")[0] for recorded in self.events)

    def made_by(self, requests: Sequence[str]) -> int:
        """How many of these requests made an append, whatever their clients were told."""
        made = {recorded.meta.correlation for recorded in self.events}
        return len(made.intersection(requests))


def caught_up(dsn: str) -> Iterator[str]:
    """Every asynchronous projection comes to the head that the log has now, and none is beyond the log."""
    names = [projection.name for projection in table.ASYNC]
    deadline = time.monotonic() + CAUGHT_UP_S
    with psycopg.connect(dsn, autocommit=True) as connection:
        wanted: int | None = None
        while True:
            rows = connection.execute(_POSITIONS, (names,)).fetchall()
            wanted = rows[0][3] if wanted is None else wanted
            behind = [row for row in rows if row[1] < wanted]
            if not behind or time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
    for name, position, failure, head in rows:
        if position > head:
            yield f"projection {name} is at position {position}, the log ends at {head}"
        if failure is not None:
            yield f"projection {name} stopped at {position}: {failure}"
        elif position < wanted:
            yield f"projection {name} is at position {position} after {CAUGHT_UP_S:.0f} s, the log was at {wanted}"


def history(dsn: str, given: Sequence[Acknowledged], keys: Mapping[str, str]) -> tuple[Log, list[str]]:
    """The log of one moment, and everything that is wrong with it and with the bookings of that moment."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        log = Log([recorded for batch in rebuild.events(connection) for recorded in batch])
        connection.execute(_HEAP)
        wrong = [*versions(connection, len(log.events)), *bookings(connection)]
        connection.execute("ROLLBACK")
    wrong += [*appends(log), *acknowledged(log, given), *answers(log, given), *idempotency(log, given, keys)]
    return log, wrong


def differences(dsn: str) -> tuple[rebuild.Verdict, list[str]]:
    """What `better-compute audit diff` finds."""
    verdict = rebuild.compare(dsn, table.ALL)
    wrong = [
        f"audit diff: {found.projection}.{found.table}: {found.only_live} rows only live, {found.only_log} only from "
        f"the log, as {found.examples}"
        for found in verdict.differences
    ]
    return verdict, wrong


def evidence(dsn: str) -> list[str]:
    """What `better-compute audit verify` finds in what was taken in so far."""
    told: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        evidence_check.Verifier(connection, told.append, [], audit_key.verify).run()
    return [f"audit verify: {fault}" for fault in told]


def versions(connection: psycopg.Connection[Any], read: int) -> Iterator[str]:
    """Versions of a stream are 1 to n, positions are unique, and the index by position leads to every row."""
    for stream, count, distinct, first, last in connection.execute(_GAPS).fetchall():
        yield f"{stream} has {count} events of {distinct} versions, {first} to {last}"
    for (position,) in connection.execute(_TWICE).fetchall():
        yield f"position {position} was given to several events"
    for (count,) in connection.execute(_COUNT).fetchall():
        if count != read:
            yield f"the log has {count} events, in position order {read} were read"


def bookings(connection: psycopg.Connection[Any]) -> Iterator[str]:
    """No two bookings of a device overlap, whatever the exclusion constraint says."""
    for device, one, during, other, and_during in connection.execute(_OVERLAPS).fetchmany(_SHOWN):
        yield f"device {device} is booked by {one} over {during} and by {other} over {and_during}"


def appends(log: Log) -> Iterator[str]:
    """Every append is there as a whole, each part once, its positions in the order of its parts."""
    for append, parts in log.appends.items():
        first, count = parts[0], parts[0].part.count
        whole = [recorded.part.index for recorded in parts] == list(range(count))
        if not whole or first.event_id != append or {recorded.part.count for recorded in parts} != {count}:
            found = [(recorded.position, recorded.part.index) for recorded in parts]
            yield f"append {append} is of {count} events; of it there are these positions and parts: {found}"


def acknowledged(log: Log, given: Sequence[Acknowledged]) -> Iterator[str]:
    """What a client was told is in the log, at that version and position.

    X-Position is the last one of the append that the request made. A request that changed nothing, because it came
    again, gets the position of the event whose version it shows.
    """
    for told in given:
        recorded = log.at.get((told.stream, told.version))
        if recorded is None:
            yield f"acknowledged and lost: {told}"
            continue
        own = recorded.meta.correlation == told.request
        position = log.appends[recorded.part.append][-1].position if own else recorded.position
        if told.position != position:
            yield f"X-Position was {told.position}, in the log it is {position} (made by this request: {own}): {told}"
        if told.key and own == told.replayed:
            yield f"Idempotency-Replayed was {told.replayed}, and the request itself is in the log {own}: {told}"


def answers(log: Log, given: Sequence[Acknowledged]) -> Iterator[str]:
    """The body that somebody saw is, byte by byte, what the log gives for that version."""
    wanted: dict[str, dict[int, list[Acknowledged]]] = defaultdict(lambda: defaultdict(list))
    for told in given:
        wanted[told.stream][told.version].append(told)
    for stream, by_version in wanted.items():
        state: Any = registry.kind(stream).initial
        for version in range(1, max(by_version) + 1):
            recorded = log.at.get((stream, version))
            if recorded is None:
                yield f"{stream} was shown at version {max(by_version)}, in the log it has no version {version}"
                break
            state = reservation_fold.evolve(state, recorded.event)  # type: ignore[arg-type]
            for told in by_version.get(version, ()):
                if digest(msgspec.json.encode(reservation_view.view(stream, state, version))) != told.digest:
                    yield f"the answer was another than the log gives: {told}"


def shown(plane: Plane, id: str, token: str) -> Acknowledged:
    """What a serve shows of a reservation, as if it were an answer to a request of nobody; version 0 is nothing at all.

    A connection that PostgreSQL's end broke a moment ago costs its next user a 503, so that is asked again.
    """
    deadline = time.monotonic() + SHOWN_S
    while True:
        status, body = plane.ask("GET", f"/v1/reservations/{id}", token)
        if status != 503 or time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    version = body["version"] if status == 200 else 0
    if version:
        body["queuePosition"] = None  # of the moment, not of the log
    return Acknowledged("", "", id, version, 0, False, digest(msgspec.json.encode(body)))


def current(seen: Sequence[Acknowledged], given: Sequence[Acknowledged]) -> Iterator[str]:
    """What a serve shows is not older than what was acknowledged before, by whichever serve."""
    latest: Counter[str] = Counter()
    for told in given:
        latest[told.stream] = max(latest[told.stream], told.version)
    for one in seen:
        if one.version < latest[one.stream]:
            yield f"version {latest[one.stream]} was acknowledged, a serve shows version {one.version}: {one}"


def idempotency(log: Log, given: Sequence[Acknowledged], keys: Mapping[str, str]) -> Iterator[str]:
    """One Idempotency-Key, one reservation and one answer, however often it was sent, answered or not."""
    told_of: dict[str, set[tuple[str, int, bytes]]] = defaultdict(set)
    for told in given:
        if told.key:
            told_of[told.key].add((told.stream, told.version, told.digest))
    made: dict[str, set[str]] = defaultdict(set)
    replays: Counter[str] = Counter()
    for recorded in log.events:
        event = recorded.event
        if isinstance(event, reservation.Drafted) and (key := keys.get(recorded.meta.correlation or "")):
            made[key].add(recorded.stream)
        if isinstance(event, admission.Admitted) and event.replay is not None:
            replays[event.replay.key] += 1
    for key, told_each in told_of.items():
        if len(told_each) > 1:
            yield f"key {key} was answered in {len(told_each)} ways: {told_each}"
    for key, streams in made.items():
        if len(streams) > 1:
            yield f"key {key} made {len(streams)} reservations: {streams}"
    for replay, times in replays.items():
        if times > 1:
            yield f"the answer of key {replay} was recorded {times} times"
