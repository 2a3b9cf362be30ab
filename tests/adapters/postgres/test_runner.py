"""Asynchronous projections: each event once, each projection failing by itself (architecture.md §3)."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from threading import Thread

import psycopg
import pytest
from click.testing import CliRunner

from adapters.cli.projections import projections
from adapters.postgres import rebuild, runner
from adapters.postgres.follower import Follower
from adapters.postgres.pool import Pool, pool
from adapters.postgres.runner import Runner
from domain import pool as pools
from domain import site
from domain.event import Recorded
from facts import Facts, at_once
from given import Plane
from projections.projection import Async, Inline, Write, asking_nothing

TABLES = """
CREATE TABLE counted (position bigint NOT NULL, name text NOT NULL);
"""


LONG = "INSERT INTO long VALUES (%s)"
NOISE = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(200))
"""Longer than an index entry may be, also when it is compressed."""


class Counting:
    """A projection that writes one row an event, so that an event given twice is seen; it can be made to fail."""

    def __init__(self) -> None:
        self.before: Callable[[Recorded], object] = lambda recorded: None

    def writes(self, batch: Sequence[Recorded]) -> Iterator[Write]:
        for recorded in batch:
            self.before(recorded)
            yield "INSERT INTO counted VALUES (%s, %s)", (recorded.position, recorded.stream)

    def named(self, name: str) -> Async:
        return Async(name, TABLES, asking_nothing(self.writes))


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with pool(database, 8) as connections:
        yield Facts(connections)
        with connections.connection() as connection:
            connection.execute("DROP TABLE IF EXISTS counted")
            connection.execute("DELETE FROM projection_positions WHERE name = 'counted'")


def follower(connections: Pool, counting: Counting, name: str = "counted", dsn: str = "") -> tuple[Follower, Runner]:
    if dsn:
        runner.create_tables(dsn, [counting.named(name)])
    made = Runner(connections, [counting.named(name)])
    made.load()
    return Follower(connections, [made.apply]), made


def log(given: Facts) -> list[int]:
    return [p for (p,) in given.rows("SELECT notification_id FROM stored_events ORDER BY 1")]


def counted(given: Facts) -> list[int]:
    return [p for (p,) in given.rows("SELECT position FROM counted ORDER BY 1")]


def some(given: Facts, number: int = 20) -> None:
    for _ in range(number):
        given.site()


def test_every_event_is_applied_once_and_the_position_says_so(given: Facts, database: str) -> None:
    following, running = follower(given.connections, Counting(), dsn=database)
    some(given)
    following.catch_up()
    some(given)
    following.catch_up()
    assert counted(given) == log(given)
    assert running.positions == {"counted": log(given)[-1]}


def test_a_runner_killed_between_rows_and_position_gives_nothing_twice(given: Facts, database: str) -> None:
    """The backend dies in the middle of the batch; another process begins again."""
    counting = Counting()
    following, _ = follower(given.connections, counting, dsn=database)
    some(given)
    middle = log(given)[10]

    def die(recorded: Recorded) -> None:
        if recorded.position == middle:
            raise psycopg.OperationalError("the server closed the connection")

    counting.before = die
    with pytest.raises(psycopg.OperationalError):
        following.catch_up()
    assert counted(given) == []
    again, _ = follower(given.connections, Counting())
    again.catch_up()
    assert counted(given) == log(given)


def test_after_the_database_was_away_the_same_follower_goes_on_with_the_same_batch(given: Facts, database: str) -> None:
    counting, fails = Counting(), iter([True])

    def away(_: Recorded) -> None:
        if next(fails, False):
            raise psycopg.OperationalError("gone")

    counting.before = away
    following, running = follower(given.connections, counting, dsn=database)
    some(given)
    with pytest.raises(psycopg.OperationalError):
        following.catch_up()
    following.catch_up()
    assert counted(given) == log(given)
    assert running.failures == {}
    assert following.failure is None


def test_two_runners_on_one_database_share_and_double_nothing(given: Facts, database: str) -> None:
    one, _ = follower(given.connections, Counting(), dsn=database)
    other, _ = follower(given.connections, Counting())
    writing = Thread(target=some, args=(given, 60))
    writing.start()
    while writing.is_alive():
        assert at_once([one.catch_up, other.catch_up]) == [None, None]
    at_once([one.catch_up, other.catch_up])
    assert counted(given) == log(given)


class TestPoison:
    def poisoned(self, given: Facts, database: str) -> tuple[Counting, Follower, Runner, int]:
        counting = Counting()
        following, running = follower(given.connections, counting, dsn=database)
        some(given)
        poison = log(given)[7]

        def choke(recorded: Recorded) -> None:
            if recorded.position == poison:
                raise ValueError("indigestible")

        counting.before = choke
        following.catch_up()
        return counting, following, running, poison

    def failure(self, given: Facts) -> str | None:
        ((failure,),) = given.rows("SELECT failure FROM projection_positions WHERE name = 'counted'")
        return failure  # type: ignore[no-any-return]

    def test_it_stops_at_the_event_and_says_which_and_the_follower_goes_on(self, given: Facts, database: str) -> None:
        _, following, running, poison = self.poisoned(given, database)
        assert counted(given) == [p for p in log(given) if p < poison]
        said = running.failures["counted"]
        assert said.startswith(f"position {poison}, site.created.1 of site_")
        assert "indigestible" in said
        assert self.failure(given) == said
        assert following.position == log(given)[-1]

    def test_after_the_fix_a_retry_brings_it_to_the_end(self, given: Facts, database: str) -> None:
        counting, following, _, _ = self.poisoned(given, database)
        some(given)
        following.catch_up()
        counting.before = lambda recorded: None
        assert Runner(given.connections, [counting.named("counted")]).retry("counted") is None
        assert counted(given) == log(given)
        assert self.failure(given) is None

    def test_a_process_that_ran_meanwhile_goes_on_after_the_retry(self, given: Facts, database: str) -> None:
        counting, following, running, _ = self.poisoned(given, database)
        counting.before = lambda recorded: None
        Runner(given.connections, [counting.named("counted")]).retry("counted")
        some(given)
        following.catch_up()
        assert running.failures == {}
        assert counted(given) == log(given)

    def test_it_notices_the_retry_while_nothing_happens(self, given: Facts, database: str) -> None:
        counting, _, running, _ = self.poisoned(given, database)
        running.at_rest()
        assert list(running.failures) == ["counted"]
        counting.before = lambda recorded: None
        Runner(given.connections, [counting.named("counted")]).retry("counted")
        running.at_rest()
        assert running.failures == {}
        assert running.positions["counted"] == log(given)[-1]

    def test_what_the_server_can_never_take_is_poison_though_psycopg_calls_it_operational(
        self, given: Facts, database: str
    ) -> None:
        """An index entry that is too large (54000) is no outage: it would stop every projection for ever, unnamed."""
        counting = Counting()
        follower(given.connections, counting, dsn=database)
        long = Async(
            "long", "CREATE TABLE long (name text PRIMARY KEY);", asking_nothing(lambda batch: [(LONG, (NOISE,))])
        )
        runner.create_tables(database, [long])
        both = Runner(given.connections, [counting.named("counted"), long])
        both.load()
        try:
            some(given, 3)
            Follower(given.connections, [both.apply]).catch_up()
            assert counted(given) == log(given)
            assert "ProgramLimitExceeded" in both.failures["long"]
        finally:
            with given.connections.connection() as connection:
                connection.execute("DROP TABLE long")
                connection.execute("DELETE FROM projection_positions WHERE name = 'long'")

    def test_a_retry_without_the_fix_stops_at_the_same_event(self, given: Facts, database: str) -> None:
        counting, _, running, poison = self.poisoned(given, database)
        some(given)
        said = Runner(given.connections, [counting.named("counted")]).retry("counted")
        assert said == running.failures["counted"] == self.failure(given)
        assert counted(given) == [p for p in log(given) if p < poison]

    def test_a_restart_tries_again_by_itself(self, given: Facts, database: str) -> None:
        self.poisoned(given, database)
        fixed, running = follower(given.connections, Counting())
        fixed.catch_up()
        assert counted(given) == log(given)
        assert running.failures == {}
        assert self.failure(given) is None

    def test_it_never_goes_on_behind_a_gap(self, given: Facts, database: str) -> None:
        """Its failure is forgiven without a retry: what it missed comes first."""
        counting, following, _, _ = self.poisoned(given, database)
        some(given)
        following.catch_up()
        counting.before = lambda recorded: None
        given.rows("UPDATE projection_positions SET failure = NULL WHERE name = 'counted' RETURNING 1")
        some(given)
        following.catch_up()
        assert counted(given) == log(given)


def test_tables_that_changed_are_named_and_nothing_is_dropped(given: Facts, database: str) -> None:
    assert runner.create_tables(database, [Counting().named("counted")]) == []
    changed = Async("counted", TABLES + "CREATE INDEX ON counted (name);", asking_nothing(Counting().writes))
    assert runner.create_tables(database, [changed]) == ["counted"]
    assert counted(given) == []


def test_a_new_inline_projection_on_a_log_that_has_begun_is_to_be_rebuilt_first(given: Facts, database: str) -> None:
    of = Inline("counted", TABLES, lambda recorded: [])
    assert runner.create_tables(database, [of]) == []
    given.rows("DELETE FROM projection_positions WHERE name = 'counted' RETURNING 1")
    with given.connections.connection() as connection:
        connection.execute("DROP TABLE counted")
    given.site()
    for _ in range(2):
        assert runner.create_tables(database, [of]) == ["counted"]
    rebuild.rebuild(database, of)
    assert runner.create_tables(database, [of]) == []


def test_the_log_is_read_back_in_order_of_commit_and_stream(given: Facts, database: str) -> None:
    """A batch holds events of many streams; each stream's are in the order of their versions."""
    seen: list[Recorded] = []
    following = Follower(given.connections, [seen.extend])
    pool_id = given.pool()
    given.append(pool_id, pools.Renamed("b", "a", "root"), pools.PolicyChanged(pools.Policy()))
    site_id = given.site()
    following.catch_up()
    assert [(r.stream, r.version) for r in seen] == [(pool_id, 1), (pool_id, 2), (pool_id, 3), (site_id, 1)]
    assert isinstance(seen[-1].event, site.Created)
    assert all(r.recorded_at for r in seen)


def test_projections_list_shows_a_stopped_one_and_retry_brings_it_on(plane: Plane, database: str) -> None:
    plane.site()
    plane.settle()
    plane.rows("UPDATE projection_positions SET failure = 'position 1: bad' WHERE name = 'sites' RETURNING 1")
    run = CliRunner().invoke
    shown = run(projections, ["list", "--database-url", database])
    assert "position 1: bad" in shown.output, shown.output
    tried = run(projections, ["retry", "sites", "--database-url", database])
    assert (tried.exit_code, tried.output) == (0, f"sites: at {plane.settle()}\n")
    assert "bad" not in run(projections, ["list", "--database-url", database]).output
    assert run(projections, ["retry", "gates", "--database-url", database]).exit_code == 2
