"""Row versions are forgotten up to one position for all, and whatever is folded anew forgets the same."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from test_rebuild import Writing

import given as product
from adapters.postgres import rebuild, retention, runner
from adapters.postgres.retention import Retention
from domain import reservation
from facts import T0, Facts, at_once, differences, facts
from projections import history, table

HOUR = 3_600_000
VERSIONED = [of for of in table.ASYNC if history.names(of)]


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with facts(database, size=6) as made:
        yield made


def some(given: Facts, count: int = 4) -> list[str]:
    """Reservations that were placed and cancelled: each leaves versions that ended."""
    pool_id = given.pool()
    node_id, atoms = given.node(pool_id)
    made = []
    for n in range(count):
        placed = given.placed(pool_id, node_id, atoms[:1], T0 + n * HOUR, T0 + (n + 1) * HOUR)
        made.append(given.place(placed))
        given.append(made[-1], reservation.Cancelled("x", T0))
    return made


@pytest.fixture(autouse=True)
def in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a run goes on to where the horizon should be."""
    monkeypatch.setattr(retention, "BUDGET_S", math.inf)


def follow(given: Facts, *left_out: str) -> int:
    """Let the read models read to the end, but for some; return where that is."""
    going = [of for of in table.ASYNC if of.name not in left_out]
    assert [runner.Runner(given.connections, going).retry(of.name) for of in going] == [None] * len(going)
    return int(given.rows("SELECT max(notification_id) FROM stored_events")[0][0])


def horizon(given: Facts) -> int:
    return int(given.rows("SELECT position FROM history_horizon")[0][0])


def ended(given: Facts) -> list[int]:
    return [to for (to,) in given.rows("SELECT to_position FROM reservations_history WHERE to_position > 0 ORDER BY 1")]


def test_what_ended_is_forgotten_and_what_is_current_stays(given: Facts, database: str) -> None:
    made = some(given)
    last = follow(given)
    assert len(ended(given)) == 2 * len(made)
    Retention(given.connections, table.ASYNC, 0).run()
    assert (horizon(given), ended(given)) == (last, [])
    kept = given.rows("SELECT id, state_name, to_position FROM reservations_history ORDER BY id")
    assert kept == [(id, "cancelled", None) for id in sorted(made)]
    assert differences(database) == []


def test_what_is_younger_than_so_many_days_is_kept(given: Facts) -> None:
    some(given)
    follow(given)
    before = ended(given)
    Retention(given.connections, table.ASYNC, 1).run()
    assert (horizon(given), ended(given)) == (0, before)


def test_the_horizon_moves_by_steps_with_the_versions_and_never_back(
    given: Facts, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some(given)
    last = follow(given)
    monkeypatch.setattr(retention, "BUDGET_S", 0.0)
    monkeypatch.setattr(retention, "AT_ONCE", 4)
    keeping = Retention(given.connections, table.ASYNC, 0)
    before = "SELECT min(notification_id) - 1 FROM stored_events"
    seen = [given.rows(f"UPDATE history_horizon SET position = ({before}) RETURNING position")[0][0]]
    while seen[-1] < last:
        keeping.run()
        seen.append(horizon(given))
        assert all(to > seen[-1] for to in ended(given))
        assert differences(database) == []
    assert seen == sorted(set(seen))
    assert len(seen) > 2
    Retention(given.connections, table.ASYNC, 1).run()
    assert horizon(given) == last


def test_whoever_finds_another_at_it_leaves_it_alone(given: Facts, database: str) -> None:
    some(given)
    last = follow(given)
    keeping = [Retention(given.connections, table.ASYNC, 0) for _ in range(3)]
    with psycopg.connect(database) as other:
        other.execute("SELECT 1 FROM history_horizon FOR UPDATE")
        start = time.monotonic()
        keeping[0].run()
        assert time.monotonic() - start < 1
        assert horizon(given) == 0
    assert at_once([one.run for one in keeping]) == [None] * 3
    keeping[0].run()
    assert horizon(given) == last
    assert differences(database) == []


def test_a_read_model_that_is_behind_holds_the_horizon_back(given: Facts, database: str) -> None:
    """What it has yet to write would come after the versions of its time were forgotten."""
    some(given)
    stands = follow(given)
    some(given)
    last = follow(given, "reservations")
    keeping = Retention(given.connections, table.ASYNC, 0)
    keeping.run()
    assert horizon(given) == stands
    follow(given)
    keeping.run()
    assert horizon(given) == last
    assert differences(database) == []


@pytest.mark.parametrize("of", VERSIONED, ids=lambda of: of.name)
def test_a_read_model_made_anew_brings_back_nothing(given: Facts, database: str, of: runner.Async) -> None:
    some(given)
    follow(given)
    Retention(given.connections, table.ASYNC, 0).run()
    some(given, 2)
    follow(given)
    before = ended(given)
    assert before
    rebuild.rebuild(database, of)
    assert ended(given) == before
    assert differences(database) == []


def test_a_new_read_model_that_keeps_versions_is_made_from_the_log_once_others_forgot_some(
    given: Facts, database: str
) -> None:
    (nodes,) = (of for of in table.ASYNC if of.name == "nodes")
    for days, lacking in ((1, []), (0, ["nodes"])):
        some(given)
        follow(given)
        Retention(given.connections, table.ASYNC, days).run()
        with psycopg.connect(database) as connection:
            for name in rebuild.tables(nodes):
                connection.execute(f"DROP TABLE {name}".encode())
            connection.execute("DELETE FROM projection_positions WHERE name = 'nodes'")
        assert runner.create_tables(database, table.ALL) == lacking
        for _ in lacking:
            rebuild.rebuild(database, nodes)
        follow(given)
        assert differences(database) == []


def test_forgetting_beside_writes_rebuilds_and_comparisons_disturbs_none_of_them(given: Facts, database: str) -> None:
    pool_id = given.pool()
    stop, failed = Event(), list[Exception]()

    def keep() -> None:
        running = runner.Runner(given.connections, table.ASYNC)
        keeping = Retention(given.connections, table.ASYNC, 0)
        try:
            while not stop.is_set():
                for of in table.ASYNC:
                    running.retry(of.name)
                keeping.run()
        except Exception as fault:
            failed.append(fault)

    thread = Thread(target=keep)
    with Writing(given, pool_id) as refused:
        thread.start()
        for name in ("reservations", "devices"):
            rebuild.rebuild(database, next(of for of in VERSIONED if of.name == name))
        found = differences(database)
        stop.set()
        thread.join()
    assert (failed, refused, found) == ([], [], [])
    assert horizon(given) > 0
    follow(given)
    assert differences(database) == []


def test_what_is_asked_from_before_the_horizon_is_gone(database: str, tmp_path: Path) -> None:
    """A log of ten days ago, and a process that keeps one."""
    with facts(database) as old:
        site_id = old.site()
        some(old)
        (last,) = old.rows("SELECT max(notification_id) FROM stored_events")[0]
        old.rows("UPDATE stored_events SET recorded_at = recorded_at - 864000000 RETURNING 1")
        t = old.rows("SELECT min(recorded_at), max(recorded_at) FROM stored_events")[0]
    with product.plane(database, tmp_path, history_days=1) as plane:
        deadline = time.monotonic() + 20
        while plane.rows("SELECT position FROM history_horizon") != [(last,)]:
            assert time.monotonic() < deadline
        for asked in ("@0", f"@{last - 1}", "0", str(t[0] - 1)):
            for path in ("/v1/sites?scope=fleet&", "/v1/reservations?scope=fleet&", "/v1/pools?"):
                answer = plane.root.get(f"{path}asOf={asked}")
                assert (answer.status_code, answer.json()["code"]) == (410, "HISTORY_PRUNED"), answer.text
                assert answer.json()["keptFrom"] == last
                assert f"from position {last} on" in answer.json()["detail"]
        for asked in (f"@{last}", str(t[1]), str(t[1] + 1000)):
            answer = plane.root.get(f"/v1/sites?scope=fleet&asOf={asked}")
            assert (answer.status_code, answer.headers["x-position"]) == (200, str(last))
            assert [row["id"] for row in answer.json()["items"]] == [site_id]
        made = plane.site("new")
        position = plane.settle()
        assert plane.root.get(f"/v1/sites/{made}?asOf=@{last - 1}").status_code == 410
        assert plane.root.get(f"/v1/sites/{made}?asOf=@{last}").status_code == 404
        assert plane.root.get(f"/v1/sites/{made}?asOf=@{position}").status_code == 200
        assert differences(database) == []
