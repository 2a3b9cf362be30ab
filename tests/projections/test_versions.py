"""Lists as of every position of random histories are what a naive fold of the log up to there shows."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_histories import MOVES, History, bring, empty

from adapters.calendars import Calendars
from adapters.cel import CelSelectors
from adapters.postgres import rebuild, retention
from adapters.postgres.pool import Pool, pool
from adapters.postgres.runner import Runner
from domain import errors, node, node_view, registry, reservation_view
from domain.access import Foresight, Plan, Resource, Session
from domain.event import Recorded
from domain.operation import Answer
from facts import TENANT, Facts, differences
from naive import feed
from projections import history, table
from queries import nodes, past, reservations
from queries.reading import LookAhead, Reader

DAY_MS = 86_400_000
NODE_MOVES = ("cordon", "uncordon", "connect", "lose")
SESSION = Session(TENANT, "alice", "user", "s", "user")
RESERVATIONS: list[dict[str, Any]] = [{}, {"state": "placed"}, {"state": "released"}, {"state": "draft"}]
NODES: list[dict[str, Any]] = [{}, {"schedulable": True}, {"schedulable": False, "connectivity": "lost"}]

States = dict[str, tuple[Any, int]]


class Told(History):
    """A history in which two more nodes, of another pool, have a life of their own."""

    def __init__(self, facts: Facts, pick: Callable[[], int]) -> None:
        super().__init__(facts, pick)
        other = facts.pool()
        self.others = [facts.node(other, 1)[0] for _ in range(2)]

    def a_node(self) -> str:
        return self.others[self.pick() % 2]

    def go_on(self, dice: random.Random, moves: int) -> Iterator[None]:
        for _ in range(moves):
            getattr(self, dice.choice((*MOVES, *NODE_MOVES)))()
            self.position = feed(self.calendars, self.facts, self.position)
            yield

    def cordon(self) -> None:
        self.facts.append(
            self.a_node(), node.Cordoned("fan", self.now), node.SchedulabilityChanged({"Cordoned": self.now})
        )

    def uncordon(self) -> None:
        self.facts.append(self.a_node(), node.Uncordoned(self.now), node.SchedulabilityChanged({}))

    def connect(self) -> None:
        self.facts.append(self.a_node(), node.ConnectivityChanged("connected", self.pick() % 9, self.now))

    def lose(self) -> None:
        self.facts.append(self.a_node(), node.ConnectivityChanged("lost", self.pick() % 9, self.now))


def tell(connections: Pool, seed: int, moves: int) -> tuple[Told, Runner]:
    """A history on an empty log, read by the projections in pieces of any size."""
    empty(connections)
    dice = random.Random(seed)
    told = Told(Facts(connections), lambda: dice.randrange(2**16))
    running = Runner(connections, table.ASYNC)
    for _ in told.go_on(dice, moves):
        if not dice.randrange(6):
            bring(running)
    return told, running


NO_CALENDARS = Calendars(lambda: 0, lambda position, seconds: True)


def nothing_ahead(action: str, resource: Resource) -> Foresight:
    raise AssertionError(f"{action} on {resource.id} was not asked for")


@contextmanager
def reading(facts: Facts, as_of: int) -> Iterator[Reader]:
    """A reader who may see everything of its tenant."""

    def unseen(type: str, id: str, field: str) -> errors.NotFound:
        raise AssertionError(f"{type} {id} was not looked for")

    store = facts.store
    with facts.connections.connection() as connection, connection.transaction():
        yield Reader(
            connection, SESSION, 0, as_of, store.load, store.history, lambda type, id: None,
            lambda action, type: Plan("always"), lambda action, resources: (), unseen,
            store.log, lambda: 0, as_of, store.load_as_of, store.load_all_as_of,
            lambda resource: None,
            store.load, store.versions, store.at, store.load_all,
            LookAhead(
                NO_CALENDARS.locked,
                CelSelectors(),
                nothing_ahead,
                lambda scopes: (),
                lambda pool_id: None,
                lambda pool_id, place, limit: (),
            ),
        )  # fmt: skip


def log(facts: Facts) -> list[Recorded]:
    return facts.store.log(0, 2**60, 100_000)


def fold(states: States, recorded: Recorded) -> None:
    """The naive reading: each event in turn, and nothing remembered beside the state."""
    kind = registry.kind(recorded.stream)
    state, version = states.get(recorded.stream, (kind.initial, 0))
    states[recorded.stream] = kind.evolve(state, recorded.event), version + 1


def known(states: States, prefix: str) -> list[tuple[str, Any, int]]:
    return [(id, *states[id]) for id in sorted(states) if id.startswith(prefix)]


def check(facts: Facts, events: Sequence[Recorded], since: int = 0) -> None:
    """Compare every position of these events from `since` on."""
    states: States = {}
    for recorded in events:
        fold(states, recorded)
        if recorded.position >= since:
            with reading(facts, recorded.position) as read:
                check_reservations(read, states)
                check_nodes(read, states)


def check_reservations(read: Reader, states: States) -> None:
    for asked in RESERVATIONS:
        expected = [
            reservation_view.view(id, state, version)
            for id, state, version in known(states, "rsv_")
            if state.status == asked.get("state", state.status) and (asked or state.status != "draft")
        ]
        assert walk(read, reservations.list_, reservations.List, asked) == plain(expected), asked


def check_nodes(read: Reader, states: States) -> None:
    for asked in NODES:
        expected = [
            node_view.view(id, state, version)
            for id, state, version in known(states, "node_")
            if asked.get("schedulable", not state.reasons) is (not state.reasons)
            and state.connectivity == asked.get("connectivity", state.connectivity)
        ]
        assert walk(read, nodes.list_, nodes.List, {"scope": "fleet"} | asked) == plain(expected), asked


def plain(views: Sequence[Any]) -> list[Any]:
    return [msgspec.json.decode(msgspec.json.encode(view)) for view in views]


def walk(read: Reader, list_: Any, of: Any, asked: dict[str, Any]) -> list[Any]:
    """All pages of a list."""
    rows, cursor = [], None
    while True:
        answer: Answer = list_(of(**asked, limit=7, cursor=cursor), read)
        assert answer.position == read.as_of
        rows += [msgspec.json.decode(row) for row in answer.body.items]
        cursor = answer.body.next_cursor
        if cursor is None:
            return rows


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), moves=st.integers(10, 40))
def test_lists_as_of_every_position_are_a_fold_of_the_log_up_to_there(migrated: str, seed: int, moves: int) -> None:
    with pool(migrated, 3) as connections:
        told, running = tell(connections, seed, moves)
        bring(running)
        check(told.facts, log(told.facts))
        assert differences(migrated) == []


def forget(connections: Pool, upto: int) -> None:
    """Run after run, each as long as it may take, until the horizon is where it should be."""
    keeping, reached = retention.Retention(connections, table.ASYNC, 5), 0
    while reached < upto:
        keeping.run()
        with connections.connection() as connection:
            before, reached = reached, retention.horizon(connection)
        assert before < reached <= upto


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_kept_is_the_same_after_the_rest_was_forgotten(database: str, seed: int) -> None:
    """The log's first half is made ten days old before anybody reads it."""
    with pool(database, 3) as connections:
        empty(connections)
        dice = random.Random(seed)
        told = Told(Facts(connections), lambda: dice.randrange(2**16))
        list(told.go_on(dice, 60))
        events = log(told.facts)
        middle = events[len(events) // 2].position
        with connections.connection() as connection:
            age(connection, middle)
        bring(Runner(connections, table.ASYNC))
        before = versions(connections)
        forget(connections, middle)
        after = versions(connections)
        assert after == {(*of, until) for *of, until in before if until is None or until > middle} != before
        for _ in range(2):
            check(told.facts, events, since=middle)
            assert differences(database) == []
            for of in table.ALL:
                rebuild.rebuild(database, of)
            assert versions(connections) == after
        with connections.connection() as connection, pytest.raises(errors.HistoryPruned, match=f"@{middle}"):
            past.check_kept(connection, middle - 1)


def age(connection: psycopg.Connection[Any], upto: int, days: int = 10) -> None:
    sql = "UPDATE stored_events SET recorded_at = recorded_at - %s WHERE notification_id <= %s"
    connection.execute(sql, (days * DAY_MS, upto))


def versions(connections: Pool) -> set[tuple[str, str, int, int | None]]:
    """Every version of every list, with where it began and ended."""
    found = set()
    with connections.connection() as connection:
        for name in (name for of in table.ALL for name in history.names(of)):
            rows = connection.execute(f"SELECT id, from_position, to_position FROM {name}".encode()).fetchall()
            found |= {(name, *row) for row in rows}
    return found
