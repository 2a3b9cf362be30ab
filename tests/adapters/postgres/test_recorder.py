"""The library's interfaces work over our recorder and mapper (architecture.md §2: subclassed, interface kept)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from eventsourcing.application import Application
from eventsourcing.persistence import (
    EventStore,
    InfrastructureFactory,
    IntegrityError,
    OperationalError,
    StoredEvent,
    TrackingRecorder,
)
from eventsourcing.utils import Environment

from adapters.postgres.mapper import EventMapper
from adapters.postgres.pool import Pool, pool
from adapters.postgres.recorder import Recorder
from domain import registry, site
from domain.event import Fence, Recorded
from facts import META, new_id
from projections.projection import Phase, Statement


@pytest.fixture
def connections(database: str) -> Iterator[Pool]:
    with pool(database, 4) as made:
        yield made


class Factory(InfrastructureFactory[TrackingRecorder]):
    """What an Application asks for its parts."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(Environment())
        self._recorder = recorder

    def aggregate_recorder(self, purpose: str = "events") -> Any:
        return self._recorder

    def application_recorder(self) -> Any:
        return self._recorder

    def tracking_recorder(self, tracking_recorder_class: Any = None) -> Any:
        raise NotImplementedError

    def process_recorder(self) -> Any:
        raise NotImplementedError


def application(connections: Pool) -> Application[str]:
    class Sites(Application[str]):
        def construct_factory(self, env: Environment) -> Any:
            return Factory(Recorder(connections))

        def construct_mapper(self) -> Any:
            return EventMapper()

    return Sites()


def created(stream: str, version: int = 1, name: str = "north") -> Recorded:
    event = site.Created(name, "shared", "root", "eu-north", 1)
    return Recorded(stream, version, event, META, new_id("evt"))


def renamed(stream: str, version: int, name: str) -> Recorded:
    return Recorded(stream, version, site.Renamed(name, "north", "root"), META, new_id("evt"))


def test_an_application_of_the_library_saves_loads_and_lists_notifications(connections: Pool) -> None:
    app, stream = application(connections), new_id("site")
    recordings = app.events.put([created(stream), renamed(stream, 2, "south")])
    assert [r.domain_event.version for r in recordings] == [1, 2]  # type: ignore[attr-defined]
    folded = registry.fold_recorded(stream, app.events.get(stream))  # type: ignore[arg-type]
    assert folded.name == "south"
    ids = [n.id for n in app.notification_log.select(start=1, limit=10) if n.originator_id == stream]
    assert ids == [r.notification.id for r in recordings]


def test_the_librarys_store_reads_a_stream_in_parts(connections: Pool) -> None:
    store, stream = EventStore(EventMapper(), Recorder(connections)), new_id("site")
    store.put([created(stream), renamed(stream, 2, "b"), renamed(stream, 3, "c")])
    assert [e.version for e in store.get(stream, gt=1)] == [2, 3]  # type: ignore[attr-defined]
    assert [e.version for e in store.get(stream, lte=2, desc=True)] == [2, 1]  # type: ignore[attr-defined]
    assert [e.version for e in store.get(stream, desc=True, limit=1)] == [3]  # type: ignore[attr-defined]


def test_a_used_version_is_the_librarys_integrity_error_with_the_databases_as_its_cause(connections: Pool) -> None:
    store, stream = EventStore(EventMapper(), Recorder(connections)), new_id("site")
    store.put([created(stream)])
    with pytest.raises(IntegrityError) as refusal:
        store.put([created(stream)])
    assert isinstance(refusal.value.__cause__, psycopg.errors.UniqueViolation)
    assert refusal.value.__cause__.diag.constraint_name == "stored_events_pkey"


def test_a_server_that_is_not_there_is_the_librarys_operational_error_at_once(database: str) -> None:
    with pool(f"{database} host=/nonexistent", 1) as nowhere:
        nowhere.timeout = 0.05
        with pytest.raises(OperationalError):
            Recorder(nowhere).select_events("site_1")


def test_notifications_are_chosen_by_position_and_topic(connections: Pool) -> None:
    recorder, stream = Recorder(connections), new_id("site")
    EventStore(EventMapper(), recorder).put([created(stream), renamed(stream, 2, "b"), renamed(stream, 3, "c")])
    first = recorder.select_notifications(None, 1)[0].id
    assert [n.id for n in recorder.select_notifications(first, 9, inclusive_of_start=False)] == [first + 1, first + 2]
    assert [n.id for n in recorder.select_notifications(first, 9, topics=["site.created.1"])] == [first]
    assert [n.id for n in recorder.select_notifications(first, 9, stop=first + 1)] == [first, first + 1]
    assert recorder.max_notification_id() == first + 2


class TestPipeline:
    """All of an append travels at once; the first error comes back as itself."""

    def stored(self, stream: str) -> list[StoredEvent]:
        return [EventMapper().to_stored_event(created(stream))]

    @pytest.mark.parametrize("place", [0, 5, 29])
    def test_an_error_is_typed_wherever_it_is_in_two_hundred_of_two_hundred_rounds(
        self, connections: Pool, place: int
    ) -> None:
        """The stock recorder gave 27 of 200 as an aborted pipeline (eventsourcing.md §3.3)."""
        recorder = Recorder(connections)
        statements = [Statement(Phase.CATALOG, "k", "SELECT pg_sleep(0)")] * 30
        statements[place] = Statement(Phase.CATALOG, "k", "SELECT refuse('FENCED', '{}')")
        causes = set()
        for _ in range(67):
            with pytest.raises(Exception, match="FENCED") as refusal:
                recorder.insert_events(self.stored("site_x"), statements=statements)
            cause = refusal.value.__cause__
            assert isinstance(cause, psycopg.Error)
            causes.add(cause.sqlstate)
        assert causes == {"BC001"}

    def test_nothing_of_a_refused_append_stays_not_even_a_lock(self, connections: Pool) -> None:
        recorder = Recorder(connections)
        statements = [
            Statement(Phase.CATALOG, "k", "INSERT INTO coordination_leases VALUES ('x', 'a', 1, 0)"),
            Statement(Phase.CATALOG, "k", "SELECT refuse('RACE', '{}')"),
        ]
        with pytest.raises(Exception, match="RACE"):
            recorder.insert_events(self.stored("site_x"), statements=statements)
        with connections.connection() as connection:
            assert connection.execute("SELECT count(*) FROM coordination_leases").fetchone() == (0,)
            assert connection.execute("SELECT count(*) FROM stored_events").fetchone() == (0,)
            held = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
            assert connection.execute(held).fetchone() == (0,)

    def test_the_fence_is_the_first_thing_an_append_asks(self, connections: Pool) -> None:
        statements = [Statement(Phase.CATALOG, "k", "SELECT refuse('RACE', '{}')")]
        with pytest.raises(Exception, match="FENCED"):
            Recorder(connections).insert_events(self.stored("site_x"), statements=statements, fence=Fence("nobody", 1))
