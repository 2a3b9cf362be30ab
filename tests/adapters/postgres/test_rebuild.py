"""The live tables follow from the log: compared, and made anew beside live writes (architecture.md §3)."""

import time
from collections.abc import Iterator
from threading import Event, Thread

import psycopg
import pytest

from adapters.postgres import rebuild
from adapters.postgres.mapper import EventMapper
from domain import reservation, site
from domain.event import Recorded
from facts import META, T0, Facts, differences, facts
from given import Plane
from projections import table
from projections.projection import Inline
from wellformed import drafted

HOUR = 3_600_000
NO_GPU = [{"class": "gpu", "count": 0}]
INSERT = "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES (%s, 1, %s, %s)"
EVERY_TABLE = [(of.name, name) for of in table.ALL for name in rebuild.tables(of)]


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with facts(database, size=6) as made:
        yield made


def busy_day(plane: Plane) -> None:
    """Rows in every table there is."""
    pool_id, nodes = plane.fleet(nodes=2)
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": "enforce"}}})
    plane.root.ok("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 1000})
    plane.root.ok("POST", f"/v1/nodes/{nodes[0]}/commands", {"name": "inspect"})
    plane.offer(pool_id, quota={"gpu": 20, "vcpu": 64})
    project_id = plane.project()
    plane.root.ok("PUT", "/v1/quotas/tenant/acme", {"limits": {"gpu": 99}})
    plane.acme.ok("PUT", f"/v1/quotas/project/{project_id}", {"limits": {"gpu": 16}})
    plane.acme.ok("POST", f"/v1/projects/{plane.project('over')}/archive", {})
    plane.acme.ok("DELETE", f"/v1/flavors/{plane.flavor(by=plane.acme)}")
    plane.acme.ok("DELETE", f"/v1/images/{plane.image(by=plane.acme)}")
    plane.flavor()
    plane.image()
    later = int(time.time() * 1000) + HOUR
    gpus = [{"class": "gpu", "count": 8}]
    for key in ("one", "two"):
        made = plane.acme.reserve(pool_id, key, startsAt=later, devices=gpus, scalars={"vcpu": 8}, projectId=project_id)
        assert made.status_code == 201, made.text
    ran = plane.activate(plane.acme, plane.acme.reserve(pool_id, durationSeconds=60).json()["id"])
    plane.acme.ok("POST", f"/v1/reservations/{ran['id']}/release", {})
    plane.report(ran["allocations"][0]["nodeId"])
    waiting = plane.acme.reserve(pool_id, "three", startsAt=later)
    assert waiting.json()["state"] == "pending", waiting.text
    longer = {"endsAt": made.json()["endsAt"] + 1}
    plane.acme.ok("POST", f"/v1/reservations/{made.json()['id']}/extend", longer, Idempotency_Key="longer")
    drafted(plane, made.json()["id"])
    instances(plane)
    plane.activate(plane.acme, plane.acme.reserve(pool_id, "four", durationSeconds=1800).json()["id"])
    plane.settle()


def instances(plane: Plane) -> None:
    """One that its node has, one that is gone, one that was denied, and one on a reservation made before."""
    pool_id, _ = plane.hosts(quota=1)
    big = plane.flavor(gpus={"class": "gpu", "count": 2})
    image_id = plane.image()
    assert plane.acme.launch(pool_id, big, image_id).status_code == 409
    held = plane.acme.reserve(pool_id, binding="instance", scalars={"vcpu": 2, "memoryMiB": 4096}, devices=NO_GPU)
    plane.activate(plane.acme, held.json()["id"])
    plane.instance(pool_id, imageId=image_id, reservationId=held.json()["id"])
    plane.instance(pool_id, imageId=image_id)
    gone = plane.instance(pool_id, imageId=image_id)
    plane.acme.ok("POST", f"/v1/instances/{gone['id']}/delete", {})


def out_of_service(plane: Plane) -> None:
    """Nodes are drained, planned for, forced out and cut up anew."""
    site_id = plane.site("south")
    pool_id = plane.pool(site_id, "more")
    plane.offer(pool_id, gpu=99)
    nodes = [plane.node(site_id, pool_id, f"m{n}", 2) for n in range(4)]
    day = plane.store.now() + 24 * HOUR
    for hours in range(3):
        assert plane.acme.reserve(pool_id, startsAt=day + hours * HOUR).status_code == 201
    bound = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])["allocations"][0]["nodeId"]
    others = [node_id for node_id in nodes if node_id != bound]
    soon = {"on": True, "reason": "bios", "from": day - 9 * HOUR, "until": day - 8 * HOUR}
    for node_id in others:
        plan = plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", soon)["plannedMaintenance"][0]["id"]
    plane.root.ok("POST", f"/v1/nodes/{others[-1]}/maintenance", {"on": False, "plan": plan})
    plane.root.ok("POST", f"/v1/nodes/{others[0]}/drain", {"reason": "fan"})
    plane.root.ok("POST", f"/v1/nodes/{bound}/retire", {"force": True})
    plane.root.ok("POST", f"/v1/nodes/{others[1]}/cordon", {"reason": "old"})
    plane.root.ok("POST", f"/v1/nodes/{others[1]}/rescue", {})
    plane.root.ok("POST", f"/v1/nodes/{others[1]}/adopt", {})
    plane.root.ok("POST", f"/v1/nodes/{others[1]}/retire", {"force": True})


def test_after_a_busy_day_nothing_differs(plane: Plane, database: str) -> None:
    busy_day(plane)
    out_of_service(plane)
    plane.wired.watch.stop()
    plane.wired.worker.stop()
    plane.settle()
    verdict = rebuild.compare(database, table.ALL)
    assert verdict.differences == ()
    assert verdict.events == len(plane.rows("SELECT 1 FROM stored_events"))
    assert verdict.rows > len(EVERY_TABLE)


def test_one_row_less_is_found_in_every_table_of_every_projection(
    plane: Plane, database: str, connection: psycopg.Connection
) -> None:
    busy_day(plane)
    plane.wired.watch.stop()
    plane.wired.worker.stop()
    plane.settle()
    for _, name in EVERY_TABLE:
        gone = connection.execute(f"DELETE FROM {name} WHERE ctid IN (SELECT ctid FROM {name} LIMIT 1)".encode())
        assert gone.rowcount == 1, f"the busy day leaves nothing in {name}"
    found = rebuild.compare(database, table.ALL).differences
    assert {(one.projection, one.table): (one.only_live, one.only_log) for one in found} == dict.fromkeys(
        EVERY_TABLE, (0, 1)
    )


def test_a_changed_row_shows_as_it_is_and_as_it_should_be(
    given: Facts, database: str, connection: psycopg.Connection
) -> None:
    pool_id = given.pool()
    node_id, atoms = given.node(pool_id)
    given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR))
    connection.execute("UPDATE device_bookings SET freed = true WHERE device_id = %s", (atoms[0],))
    (found,) = rebuild.compare(database, [of for of in table.ALL if isinstance(of, Inline)]).differences
    assert (found.table, found.only_live, found.only_log) == ("device_bookings", 1, 1)
    assert [line.split()[0] for line in found.examples] == ["live", "log"]


def test_a_comparison_sees_one_moment_beside_live_writes(given: Facts, database: str) -> None:
    pool_id = given.pool()
    with Writing(given, pool_id):
        for _ in range(2):
            assert differences(database) == []


def test_each_projection_made_anew_is_what_it_was(plane: Plane, database: str) -> None:
    busy_day(plane)
    plane.settle()
    for of in table.ALL:
        kept = {name: _content(plane, name) for name in rebuild.tables(of)}
        assert rebuild.rebuild(database, of) == len(plane.rows("SELECT 1 FROM stored_events"))
        assert {name: _content(plane, name) for name in rebuild.tables(of)} == kept
    site_id = plane.site("after")
    plane.settle()
    assert plane.store.load(site_id).version == 1
    assert differences(database) == []


def _content(plane: Plane, name: str) -> list[str]:
    return sorted(str(row) for row in plane.rows(f"SELECT t::text FROM {name} AS t"))


def test_a_rebuild_mends_what_was_tampered_with(given: Facts, database: str, connection: psycopg.Connection) -> None:
    pool_id = given.pool()
    node_id, atoms = given.node(pool_id)
    given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR))
    connection.execute("DELETE FROM device_bookings")
    (bookings,) = (of for of in table.INLINE if of.name == "bookings")
    rebuild.rebuild(database, bookings)
    assert given.bookings(atoms[0]) == [(T0, T0 + HOUR)]
    with pytest.raises(Exception, match="booked"):
        given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR))


def test_inline_tables_are_made_anew_beside_writers_who_notice_nothing(given: Facts, database: str) -> None:
    """They go on through each of six rebuilds; none of their appends fails, and none is missing afterwards."""
    pool_id = given.pool()
    with Writing(given, pool_id) as failed:
        for of in table.INLINE:
            rebuild.rebuild(database, of)
    assert failed == []
    assert differences(database) == []


class Writing:
    """Two threads that place, bind, release and cancel until the block ends; what they raised comes out."""

    def __init__(self, given: Facts, pool_id: str) -> None:
        self._given, self._pool = given, pool_id
        self._stop = Event()
        self.failed: list[Exception] = []
        self._threads = [Thread(target=self._write) for _ in range(2)]

    def __enter__(self) -> list[Exception]:
        for thread in self._threads:
            thread.start()
        return self.failed

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        try:
            node_id, atoms = self._given.node(self._pool)
            start = T0
            while not self._stop.is_set():
                start += HOUR
                made = self._given.place(self._given.placed(self._pool, node_id, atoms[:2], start, start + HOUR))
                self._given.bind(made)
                self._given.release(made, start + 1)
                self._given.tear_down(made, start + 2)
                gone = self._given.place(self._given.placed(self._pool, node_id, atoms[:1], start + 9, start + HOUR))
                self._given.append(gone, reservation.Cancelled("x", start))
        except Exception as fault:
            self.failed.append(fault)


def test_both_tell_how_far_they_are_and_what_is_left_however_the_log_grows(given: Facts, database: str) -> None:
    (sites,) = (of for of in table.ASYNC if of.name == "sites")
    given.append(given.site(), *(site.Renamed(f"s{n}", "s", "root") for n in range(600)))
    told: list[tuple[int, int]] = []

    def growing(read: int, left: int) -> None:
        told.append((read, left))
        if len(told) < 3:
            given.site()

    assert rebuild.rebuild(database, sites, growing) == 603
    assert told == [(500, 101), (602, 0), (603, 0)]
    told.clear()
    rebuild.compare(database, [sites], growing)
    assert told == [(500, 103), (603, 0)]


def test_positions_given_out_in_vain_count_as_often_behind_as_before(given: Facts, database: str) -> None:
    """After each append of ten the log lacks ten."""
    site_id = given.site()
    with given.connections.connection() as connection:
        for of in range(60):
            given.append(site_id, *(site.Renamed(f"s{of}-{n}", "s", "root") for n in range(10)))
            connection.execute("SELECT nextval('stored_events_position') FROM generate_series(1, 10)")
    given.site()
    told: list[tuple[int, int]] = []
    rebuild.rebuild(database, table.ASYNC[0], lambda read, left: told.append((read, left)))
    ((_, left), (read, none)) = told
    assert (read, none) == (602, 0)
    assert 95 < left < 110, "in truth 102"


def test_a_rebuild_that_cannot_have_its_locks_gives_up_and_leaves_all_as_it_was(
    given: Facts, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "_TRIES", 2)
    monkeypatch.setattr(rebuild, "_LOCK_MS", 20)
    given.pool()
    (gates,) = (of for of in table.INLINE if of.name == "gates")
    with psycopg.connect(database) as reader:
        reader.execute("SELECT * FROM pool_gates")
        with pytest.raises(rebuild.RebuildError, match="gates"):
            rebuild.rebuild(database, gates)
    assert differences(database) == []
    assert given.rows("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'rebuild%%'") == []


def test_one_process_at_a_time_rebuilds_a_projection(database: str) -> None:
    sql = "SELECT pg_advisory_lock(hashtext('better-compute rebuild'), hashtext('gates'))"
    (gates,) = (of for of in table.INLINE if of.name == "gates")
    with psycopg.connect(database, autocommit=True) as other:
        other.execute(sql)
        with pytest.raises(rebuild.RebuildError, match="another process"):
            rebuild.rebuild(database, gates)


def test_nothing_is_rebuilt_under_a_comparison_nor_compared_under_a_rebuild(given: Facts, database: str) -> None:
    """A comparison reads as of one moment, and a table swapped in meanwhile holds later rows under the same name."""
    given.site()
    (sites,) = (of for of in table.ASYNC if of.name == "sites")
    refused: list[str] = []

    def meanwhile(read: int, left: int) -> None:
        with pytest.raises(rebuild.RebuildError) as caught:
            rebuild.rebuild(database, sites)
        refused.append(str(caught.value))

    assert rebuild.compare(database, table.ALL, meanwhile).events == 1
    assert refused == ["sites: another process is rebuilding it, or comparing it with the log"]
    with pytest.raises(rebuild.RebuildError, match="sites is being rebuilt"):
        rebuild.rebuild(database, sites, lambda read, left: rebuild.compare(database, table.ALL) and None)
    assert rebuild.rebuild(database, sites) == 1
    assert differences(database) == []


def test_tables_of_an_older_program_are_to_be_rebuilt_before_they_are_compared(given: Facts, database: str) -> None:
    given.rows("UPDATE projection_positions SET tables_digest = 'old' WHERE name = 'sites' RETURNING 1")
    with pytest.raises(rebuild.RebuildError, match=r"tables of sites changed.*projections rebuild sites"):
        rebuild.compare(database, table.ALL)
    rebuild.rebuild(database, next(of for of in table.ASYNC if of.name == "sites"))
    assert differences(database) == []


def test_a_rebuild_that_is_interrupted_leaves_nothing_behind(given: Facts, database: str) -> None:
    def interrupt(read: int, left: int) -> None:
        raise KeyboardInterrupt

    given.site()
    (sites,) = (of for of in table.ASYNC if of.name == "sites")
    with pytest.raises(KeyboardInterrupt):
        rebuild.rebuild(database, sites, interrupt)
    assert given.rows("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'rebuild%%'") == []
    assert rebuild.rebuild(database, sites) == 1
    assert given.rows("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'rebuild%%'") == []


def test_a_rebuild_stops_before_an_open_hole_and_nothing_is_missed_afterwards(plane: Plane, database: str) -> None:
    """A slow append takes a position before the rebuild and commits after it."""
    (sites,) = (of for of in table.ASYNC if of.name == "sites")
    event = site.Created("slow", "shared", "root", "eu-north", 1)
    row = EventMapper().to_stored_event(Recorded("site_slow", 1, event, META, "evt_slow"))
    with psycopg.connect(database) as slow:
        slow.execute(INSERT, (row.originator_id, row.topic, row.state))
        plane.site("quick")
        rebuild.rebuild(database, sites)
    plane.settle()
    assert len(plane.rows("SELECT id FROM sites")) == 2
    assert rebuild.compare(database, [sites]).differences == ()
