"""A history in the making: two processes and a projector on one database, the model beside them, and the checks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Final, LiteralString

import psycopg

import attributes
import pasts
from adapters import worker
from adapters.postgres import rebuild
from adapters.postgres.pool import Pool, pool
from adapters.postgres.reader import Tail
from adapters.postgres.runner import Runner
from domain import clock as clocks
from domain.event import Fence
from histories import invariants, launched
from histories.clock import Clock, ours
from histories.fleet import Fleet, Terms, session
from histories.model import Model
from histories.process import ROOT, Ids, Process, read
from naive import busy_in_calendar, used_in_calendar
from projections import table

_BOOKINGS: Final[LiteralString] = """
SELECT device_id, allocation_id, bound, CASE WHEN freed THEN 'freed' WHEN ended THEN 'ended' ELSE 'live' END,
       lower(during), upper(during)
FROM device_bookings
"""
_SCALARS: Final[LiteralString] = """
SELECT allocation_id, resource, amount, lower(during), upper(during) FROM scalar_bookings
"""
_CLAIMS: Final[LiteralString] = """
SELECT reservation_id, scope, resource, amount, lower(during), upper(during) FROM quota_claims
"""
_QUEUE: Final[LiteralString] = """
SELECT reservation_id FROM pool_queue ORDER BY spot, priority DESC, since, reservation_id
"""
_CATALOG: Final[LiteralString] = "SELECT id, type, tenant_id, parent_id, attributes FROM catalog"
LOOK_MS: Final = 600
"""Longer than a controller leaves alone what had nothing to do."""
TRUST_MS: Final = 61_000
"""For so long the clocks must agree before deadlines go on."""
TTL_LOOKS: Final = 9
CAPACITY_EVERY: Final = 3
"""Its twenty questions take longer than all other checks together."""
_LAST: Final[LiteralString] = "SELECT last_value FROM stored_events_position"


class History:
    """`processes` share the database and nothing else; the read models are brought on by `project`."""

    def __init__(self, dsn: str, writes: Pool, reads: Pool, terms: Terms) -> None:
        self._dsn, self._writes, self._reads = dsn, writes, reads
        self.clock = Clock(reads)
        self.new_id = Ids()
        self._origin = int(self.rows(_LAST)[0][0])
        self.processes = [self._process(), self._process()]
        self._runner = Runner(reads, table.ASYNC, self._origin)
        self._runner.load()
        self._projected, self._seen = Tail(self._origin), Tail(self._origin)
        self._checked, self._looks = (0, 0, 0), 0
        self._held: dict[int, pasts.Rows] = {}
        self.model = Model()
        self.gap_ms = terms.cleaning_s * 1000
        self.fleet = Fleet(self.processes[0], self.new_id, terms)

    def rows(self, sql: LiteralString) -> list[tuple[Any, ...]]:
        with self._reads.connection() as connection:
            return connection.execute(sql, prepare=True).fetchall()

    def restart(self, number: int) -> Process:
        """What a process knew is gone; the next one reads the log anew."""
        self.processes[number] = self._process()
        self.processes[number].follow()
        return self.processes[number]

    def _process(self) -> Process:
        return Process(self._writes, self._reads, self.clock, self.new_id, self._origin)

    def work(self, rounds: int = 3) -> bool:
        """The controllers of reservations take so many rounds; whether that process has read all that there is."""
        process = self.processes[self._leader()]
        for _ in range(rounds):
            if not process.behind:
                process.follow()
            self.project()
            self.note()
            self.clock.passes(LOOK_MS)
            process.worker.tick()
            invariants.ends_come_first(self.note())
        return not process.behind

    def settle_instances(self) -> None:
        """The controller of instances takes rounds, in whichever process has its lease."""
        for _ in range(2):
            self.project()
            self.clock.passes(LOOK_MS)
            ticked = [process.instances.tick() for process in self.processes]
            if not any(ticked):
                for _ in range(TTL_LOOKS):
                    self.clock.passes(1000)
                    self.processes[0].instances.tick()
        self.note()

    def _leader(self) -> int:
        """Who holds the lease of reservations, and believes the clock."""
        leading = [n for n, one in enumerate(self.processes) if one.worker.fence is not None and one.worker.tick()]
        number = leading[0] if leading else 0
        if not leading:
            self.take_over(number)
        if self.processes[number].store.load(clocks.stream(worker.LEASE)).state.stepped is not None:
            self.clock.passes(TRUST_MS)
            self.processes[number].worker.tick()
        return number

    def watch(self) -> None:
        """The controllers of nodes take a round."""
        self.project()
        self.clock.passes(LOOK_MS)
        ticked = [process.watch.tick() for process in self.processes]
        if not any(ticked):
            for _ in range(TTL_LOOKS):
                self.clock.passes(1000)
                self.processes[0].watch.tick()

    def take_over(self, number: int) -> Fence | None:
        """A process takes its rounds, of the other one nothing is heard; what that one wrote under until then."""
        former = self.processes[1 - number].worker.fence
        for _ in range(TTL_LOOKS):
            self.clock.passes(1000)
            self.processes[number].worker.tick()
        fence = self.processes[number].worker.fence
        assert fence is not None
        return former if former != fence else None

    def project(self) -> None:
        if found := read(self._reads, self._projected):
            self._runner.apply(found)

    def note(self) -> list[Any]:
        """Bring the model to the log's end, looking at each append as it comes: all of it happened at once."""
        found = read(self._reads, self._seen)
        for _, append in groupby(found, key=lambda recorded: recorded.part.append):
            events = list(append)
            for recorded in events:
                self.model.take(recorded)
            for recorded in events:
                invariants.of_event(self.model, recorded, self.gap_ms, self.clock.latest)
                launched.of_event(self.model, recorded)
        return found

    def check(self) -> None:
        """Every invariant, of the tables and of all that keep up with the log; where nothing moved they still hold."""
        self.note()
        for process in self.processes:
            if not process.behind:
                process.follow()
                self.check_calendar(process)
        stands = (self._seen.position, self.clock.now, self.clock.latest)
        if stands != self._checked:
            self._checked = stands
            self._check_tables()
            self._looks += 1
            if self._looks % CAPACITY_EVERY == 0:
                self._check_capacity()

    def check_calendar(self, process: Process) -> None:
        busy = busy_in_calendar(process.calendars, self.fleet.pool_id)
        invariants.calendar_is_what_the_events_say(self.model, busy, self.clock.latest)
        used = used_in_calendar(process.calendars, self.fleet.pool_id, "vcpu")
        invariants.calendar_has_the_scalars(self.model, used, self.clock.latest)

    def _check_tables(self) -> None:
        self._held[self._seen.position] = pasts.now(self._reads)
        bookings = self.rows(_BOOKINGS)
        invariants.never_overlap(bookings)
        invariants.bookings_are_what_the_events_say(self.model, bookings, self.clock.latest)
        invariants.scalars_are_what_the_events_say(self.model, self.rows(_SCALARS))
        invariants.claims_are_what_the_states_say(self.model, self.rows(_CLAIMS))
        invariants.queue_is_who_waits(self.model, self.rows(_QUEUE))
        invariants.ends_come_after_starts(self.model)
        launched.nodes_have_what_they_should(self.model, [self.processes[0].store.load(id) for id in self.fleet.nodes])

    def _check_capacity(self) -> None:
        self.project()
        answer = self.processes[0].ask("capacity.list", session(ROOT), pool_id=self.fleet.pool_id)
        invariants.capacity_adds_up(self.model, answer.body.items, self.clock.now, self.clock.latest)

    def _check_attributes(self) -> None:
        """What policies read of a thing is what its history says."""
        for id, *row in self.rows(_CATALOG):
            events = [recorded.event for recorded in self.processes[0].store.history(id)]
            assert tuple(row) == attributes.expected(id, events), f"the attributes of {id} are stale"

    def check_end(self, *, audited: bool) -> None:
        """All that is kept is what the log says: a new calendar, the past and, `audited`, every table."""
        self.project()
        assert not self._runner.failures
        self.check_calendar(self.restart(0))
        self._check_attributes()
        for position, held in self._held.items():
            assert pasts.then(self._reads, position) == held, f"as of @{position}"
        if not audited:
            return
        found = rebuild.compare(self._dsn, table.ALL).differences
        assert not found, [f"{one.table}: {one.examples}" for one in found]


@contextmanager
def on_database(dsn: str, empty: Callable[[], object]) -> Iterator[Callable[[Terms], History]]:
    """What begins a history on an emptied database, whose clock is ours meanwhile."""
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        ours(connection),
        pool(dsn, 4, by_key=True) as writes,
        pool(dsn, 4, by_key=True) as reads,
    ):

        def begin(terms: Terms) -> History:
            empty()
            return History(dsn, writes, reads, terms)

        yield begin
