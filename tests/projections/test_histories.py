"""Every invariant on every prefix of random histories (architecture.md §8), below the commands."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from adapters.calendars import Calendars
from adapters.postgres import rebuild
from adapters.postgres.pool import Pool, pool
from adapters.postgres.runner import Runner
from commands import teardown
from commands.ports import QueueAhead
from domain import claim, errors, node, placement, reservation, reservation_life
from facts import T0, TENANT, Facts, differences, new_id
from naive import busy_in_calendar, busy_in_database, feed
from projections import table

HOUR = 3_600_000
GPUS, NODES, QUOTA = 3, 2, 7


class History:
    """A small pool, its calendars, and moves that are made where they are legal."""

    def __init__(self, facts: Facts, pick: Callable[[], int]) -> None:
        self.facts, self.pick = facts, pick
        self.calendars = Calendars(lambda: 0, lambda position, seconds: True)
        self.pool_id = facts.pool()
        self.nodes = dict(facts.node(self.pool_id, GPUS) for _ in range(NODES))
        self.scope = facts.offer(self.pool_id, QUOTA)
        self.reservations: list[str] = []
        self.final: dict[str, int] = {}
        self.now = T0
        self.position = 0

    def state(self, reservation_id: str) -> reservation.State:
        return self.facts.store.load(reservation_id).state  # type: ignore[no-any-return]

    def one(self, *states: str) -> str | None:
        there = [id for id in self.reservations if self.state(id).status in states]
        return there[self.pick() % len(there)] if there else None

    def window(self) -> tuple[int, int]:
        start = self.now + self.pick() % 6 * HOUR
        return start, start + (1 + self.pick() % 4) * HOUR

    def choose(self, gpus: int, window: tuple[int, int], on: str | None = None) -> tuple[str, tuple[str, ...]] | None:
        asked = claim.Claim((claim.DeviceLine("gpu", gpus),))
        others = set(self.nodes) - {on} if on else set()
        with self.calendars.locked(self.pool_id) as of:
            found = placement.place(of, asked, window, f"seed{self.pick()}", None, others)  # type: ignore[arg-type]
        if isinstance(found, placement.Refusal):
            return None
        (member,) = found.members
        return member.node_id, member.atoms

    def place(self) -> None:
        """What the calendar calls free the database books; only quota or the queue may refuse."""
        window, gpus = self.window(), 1 + self.pick() % GPUS
        found = self.choose(gpus, window)
        if found is not None:
            placed = self._placed(found, window, priority=self.pick() % 2)
            self._try(lambda id: self.facts.place(placed, id), errors.QuotaExceeded, QueueAhead)

    def snatch(self) -> None:
        """Atoms chosen blindly: refused exactly if one of them is busy."""
        node_id = list(self.nodes)[self.pick() % NODES]
        atoms = tuple({self.nodes[node_id][self.pick() % GPUS] for _ in range(2)})
        window = self.window()
        busy = busy_in_database(self.facts, self.pool_id)
        taken = any(
            start < window[1] and (until is None or until > window[0])
            for atom in atoms
            for start, until in busy.get(atom, ())
        )
        placed = self._placed((node_id, atoms), window, priority=9)
        made = self._try(lambda id: self.facts.place(placed, id), errors.DoubleBooked, errors.QuotaExceeded)
        assert not (made and taken)

    def place_gang(self) -> None:
        """One GPU on every node."""
        window = self.window()
        found = [self.choose(1, window, keep) for keep in self.nodes]
        if all(found):
            parts = [self._placed(one, window, priority=9) for one in found if one is not None]
            claimed = self.facts.claimed(self.scope, len(parts), *window)
            gang = replace(parts[0], allocations=tuple(p.allocations[0] for p in parts), claimed=claimed)
            self._try(lambda id: self.facts.place(gang, id), errors.QuotaExceeded)

    def lose_member(self) -> None:
        if (id := self.one("binding", "active")) is not None and len(self.state(id).allocations) > 1:
            gone = self.state(id).allocations[self.pick() % 2]
            self.facts.append(id, reservation.MemberLost(gone.id, gone.node_id, "NodeLost", self._instant(id)))

    def replace_member(self) -> None:
        lacking = [id for id in self.reservations if reservation_life.lacking(self.state(id))]
        if not lacking:
            return
        state, window = self.state(lacking[0]), (self.now, self.now + HOUR)
        free = set(self.nodes) - {a.node_id for a in state.allocations}
        found = self.choose(1, window, free.pop())
        if found is not None:
            (one,) = self._placed(found, window).allocations
            placed = reservation.MemberPlaced(self.pool_id, TENANT, one, *window, 1, self.now)
            self.facts.append(lacking[0], placed)

    def queue(self) -> None:
        start = self.now
        gpus = 1 + self.pick() % GPUS

        def wait(id: str) -> None:
            events = (
                self.facts.drafted(self.pool_id, gpus),
                reservation.Admitted("adm_1", self.facts.claimed(self.scope, gpus, start, start + 9 * HOUR), 0),
                reservation.Queued(self.pool_id, 0, False, self.now, "NoCapacity", start + 5 * HOUR),
            )
            self.facts.append(id, *events, expected=0)

        self._try(wait, errors.QuotaExceeded)

    def promote(self) -> None:
        waiting = self.one("pending")
        if waiting is None:
            return
        draft = self.state(waiting).draft
        assert draft is not None
        window = (self.now, self.now + HOUR)
        found = self.choose(draft.claim.devices[0].count, window)
        if found is not None and self.now < (self.state(waiting).give_up_at or 0):
            self.facts.append(waiting, self._placed(found, window, queued=True))

    def bind(self) -> None:
        if (id := self.one("placed")) is not None and not self.facts.store.blockers(id):
            self.facts.bind(id, self.now)

    def activate(self) -> None:
        if (id := self.one("binding")) is not None:
            self.facts.append(id, reservation.Activated(self.now))

    def extend(self) -> None:
        """To another end: what is refused leaves it as it was, what is not is in nobody's way."""
        id = self.one("placed", "binding", "active")
        if id is None:
            return
        loaded = self.facts.store.load(id)
        state: reservation.State = loaded.state
        assert state.claimed is not None
        assert state.ends_at is not None
        ends_at = state.ends_at + (self.pick() % 7 - 2) * HOUR // 2
        if ends_at <= max(self.now, state.starts_at or 0):
            return
        claimed = replace(state.claimed, from_=state.starts_at or 0, until=ends_at)
        of = tuple(a.id for a in state.allocations)
        moved = reservation.Extended("ext_1", "adm_1", self.pool_id, state.ends_at, ends_at, claimed, 0, of, self.now)
        try:
            self.facts.append(id, moved)
        except (errors.DoubleBooked, errors.QuotaExceeded):
            assert ends_at > state.ends_at, "whoever shortens is refused nothing"
            assert self.facts.store.load(id).version == loaded.version

    def release(self) -> None:
        if (id := self.one("binding", "active")) is not None:
            self.facts.release(id, self._instant(id))

    def fail(self) -> None:
        if (id := self.one("binding", "active")) is not None:
            self.facts.append(id, reservation.Failed("NodeLost", self._instant(id), True))

    def drop(self) -> None:
        if (id := self.one("pending", "placed")) is not None:
            self.facts.append(id, (reservation.Cancelled if self.pick() % 2 else reservation.Expired)("x", self.now))

    def tear_down(self) -> None:
        if (id := self.one("releasing")) is not None:
            self.facts.tear_down(id, self._instant(id))

    def fence(self) -> None:
        """The machine is off: what ended on it is proved free."""
        node_id = list(self.nodes)[self.pick() % NODES]
        self.facts.append(node_id, node.Fenced("off", self.now))
        for id in self.reservations:
            loaded = self.facts.store.load(id)
            freed = teardown.torn_down(id, loaded.state, loaded.version, node_id, self._instant(id))
            if freed is not None:
                self.facts.append(id, *freed.events)

    def pass_time(self) -> None:
        self.now += (1 + self.pick() % 3) * HOUR // 2

    def _instant(self, id: str) -> int:
        """Now; what began in the future of this history's clock ends after it began."""
        return max(self.now, (self.state(id).starts_at or 0) + 1)

    def _placed(self, found: tuple[str, tuple[str, ...]], window: tuple[int, int], **fields: Any) -> reservation.Placed:
        given: dict[str, Any] = {"scope": self.scope, "since": self.now} | fields
        return self.facts.placed(self.pool_id, *found, *window, **given)

    def _try(self, act: Callable[[str], object], *refusals: type[Exception]) -> bool:
        reservation_id = new_id("rsv")
        try:
            act(reservation_id)
        except refusals:
            assert self.facts.store.load(reservation_id).version == 0
            return False
        self.reservations.append(reservation_id)
        return True

    def check(self) -> None:
        self.position = feed(self.calendars, self.facts, self.position)
        assert busy_in_calendar(self.calendars, self.pool_id) == busy_in_database(self.facts, self.pool_id)
        assert self.facts.rows(OVERLAPS) == []
        self.quota_holds()
        for id in self.reservations:
            loaded = self.facts.store.load(id)
            if loaded.state.status in reservation_life.FINAL:
                held = sum(not a.torn_down for a in (*loaded.state.allocations, *loaded.state.lost))
                assert self.facts.rows(LEFT, id, id, id) == [(0, 0, held if loaded.state.status == "failed" else 0)]
                assert self.final.setdefault(id, loaded.state.status) == loaded.state.status

    def quota_holds(self) -> None:
        """Releasing ones hold theirs open beyond what was admitted (domain.md §5); all others stay within the limit."""
        claims = [
            (amount, start, until)
            for id, amount, start, until in self.facts.rows(CLAIMS, self.scope)
            if self.state(id).status != "releasing"
        ]
        for _, instant, _ in claims:
            assert sum(n for n, start, until in claims if start <= instant < until) <= QUOTA


OVERLAPS = """
SELECT a.device_id FROM device_bookings AS a JOIN device_bookings AS b
ON a.device_id = b.device_id AND a.allocation_id < b.allocation_id AND a.during && b.during
"""
CLAIMS = "SELECT reservation_id, amount, lower(during), upper(during) FROM quota_claims WHERE scope = %s"
LEFT = """
SELECT (SELECT count(*)::int FROM quota_claims WHERE reservation_id = %s),
       (SELECT count(*)::int FROM pool_queue WHERE reservation_id = %s),
       (SELECT count(DISTINCT allocation_id)::int FROM device_bookings WHERE reservation_id = %s AND NOT freed)
"""
MOVES = (
    "place", "place", "place", "snatch", "queue", "promote", "bind", "bind", "activate", "release", "release", "fail",
    "drop", "tear_down", "fence", "pass_time", "place_gang", "lose_member", "replace_member",
    "extend", "extend",
)  # fmt: skip


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), moves=st.integers(30, 80))
def test_whatever_happens_nothing_is_booked_twice_and_all_tables_follow_from_the_log(
    migrated: str, seed: int, moves: int
) -> None:
    dice = random.Random(seed)
    told(migrated, lambda: dice.randrange(2**16), [dice.choice(MOVES) for _ in range(moves)])


def told(dsn: str, pick: Callable[[], int], moves: Sequence[str]) -> History:
    """Run a history on an empty log, looking at everything after each move."""
    with pool(dsn, 2) as connections:
        empty(connections)
        history = History(Facts(connections), pick)
        running = Runner(connections, table.ASYNC)
        for index, move in enumerate(moves):
            getattr(history, move)()
            history.check()
            if index % 16 == 0:
                bring(running)
        bring(running)
        assert differences(dsn) == []
    return history


def bring(running: Runner) -> None:
    """Let every asynchronous projection read to the end."""
    assert [running.retry(of.name) for of in table.ASYNC] == [None] * len(table.ASYNC)


def empty(connections: Pool) -> None:
    names = [name for of in table.ALL for name in rebuild.tables(of)]
    with connections.connection() as connection, connection.transaction():
        for name in ("stored_events", *names):
            connection.execute(f"DELETE FROM {name}".encode())
        connection.execute("UPDATE projection_positions SET position = 0, failure = NULL")
