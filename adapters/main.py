"""The one composition root: which adapter stands behind which port (architecture.md §1)."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from litestar.types import ASGIApp
from msgspec import Struct
from prometheus_client import CollectorRegistry

from adapters import access, audit_key
from adapters.agent.gateway import Gateway
from adapters.agent.ownership import Ownership
from adapters.books import Library
from adapters.calendars import Calendars
from adapters.cel import CelSelectors
from adapters.console import ask, console
from adapters.console.cookie import Cookies
from adapters.dispatch import Dispatcher
from adapters.evidence import Evidence
from adapters.housekeeping import Housekeeping, Job
from adapters.http import routes
from adapters.http.app import People, create_app
from adapters.http.health import Health
from adapters.http.limits import Limits
from adapters.ids import Mint
from adapters.images import blobs, instance_key
from adapters.images.serving import Serving
from adapters.images.signatures import Signatures
from adapters.images.tidying import Tidying
from adapters.images.upload import Uploads
from adapters.images.user_data import UserData
from adapters.instances_worker import InstancesWorker
from adapters.postgres import evidence, gauges, migrate, reader, retention, runner
from adapters.postgres.budgets import Budgets
from adapters.postgres.consoles import Consoles
from adapters.postgres.follower import Follower
from adapters.postgres.instance_counts import EVERY_S, InstanceCounts
from adapters.postgres.leases import LOOK_S
from adapters.postgres.pool import Pool, check_kept, pool
from adapters.postgres.store import EventStore
from adapters.registry import OPERATIONS
from adapters.removals import Removing
from adapters.watch import NodeWatch
from adapters.worker import Worker
from commands.controllers.instances import Kept
from commands.gatekeeper import MINUTE_MS
from commands.ports import Images, Ports
from domain import node
from domain.event import Recorded
from domain.operation import Operation
from projections import table

AUDIENCE = "better-compute"
COMMANDS, READS, FOLLOWING = 12, 12, 2
LAG_NOT_READY = 10_000
SHOWN_S = 2.0

_TOLD = (
    node.SpecChanged
    | node.SpecShaped
    | node.CommandQueued
    | node.CommandSettled
    | node.ConnectivityChanged
    | node.Rekeyed
)
"""What a node's session has to look at: its NodeSpec, its commands, and whether it is the node's session still."""


class Files(Struct, frozen=True):
    """Where the keys lie, and the directory of images' bytes."""

    audit_key: Path
    instance_key: Path
    blobs: Path


def files_in(home: Path) -> Files:
    return Files(home / audit_key.NAME, home / instance_key.NAME, home / "blobs")


class Plane:
    """Everything of one process, wired; made by `running`."""

    def __init__(
        self,
        dsn: str,
        source: access.Source,
        files: Files,
        commands: Pool,
        reads: Pool,
        following: Pool,
        history_days: int | None,
        resolver: Callable[[str], bool] | None = None,
    ) -> None:
        self.resolver = resolver
        self.mint = Mint()
        self.reads = reads
        self.store = EventStore(commands, table.INLINE, access.root_tenant(source), self.mint)
        self.access = access.access(source, self.store)
        self.authorizer = self.access.authorizer
        self.calendars = Calendars(self.head, self._wait)
        self.runner = runner.Runner(following, table.ASYNC)
        self.blobs = blobs.Directory(files.blobs)
        self.instance_key = instance_key.read_or_make(files.instance_key)
        self.user_data = UserData(commands, self.instance_key.sealing)
        self.images = Images(self.blobs, Signatures(), self.user_data)
        self.ports = Ports(
            self.store,
            self.authorizer,
            self.calendars,
            CelSelectors(),
            self.mint,
            lambda: f"bcjt_{secrets.token_urlsafe(32)}",
            Budgets(commands),
            self.images,
            self.access.billing,
        )
        self.consoles = Consoles(commands)
        self.gateway = Gateway(
            self.store,
            audience=AUDIENCE,
            new_id=self.mint,
            token=self.instance_key.token,
            consoles=self.consoles,
        )
        consumers = (self.calendars.consume, self.runner.apply, self._tell_gateway)
        self.follower = Follower(following, consumers, at_rest=self.runner.at_rest)
        self.evidence = _evidence(self, commands, files.audit_key)
        self.removing = _removing(self, commands)
        library = Library(reads, self.evidence.sign, self.evidence.key)
        self.dispatcher = Dispatcher(self.ports, self.store, reads, self.shown, self._wait_shown, self.head, library)
        self.serving = Serving(self.store, self.blobs, self.instance_key, self.user_data)
        self.uploads = Uploads(self.blobs, self.dispatcher.expect, self.dispatcher)
        self.worker = Worker(self.ports, commands, self.calendars, self.mint("sess"))
        self.watch = NodeWatch(self.store, commands, self.mint)
        kept = Kept(self.user_data, self.consoles)
        self.instances = InstancesWorker(self.store, kept, commands, self.mint("sess"))
        self.ownership = Ownership(self.gateway, reads, self.mint)
        self.instance_counts = InstanceCounts(reads)
        self.tidying = Tidying(self.store, self.blobs, reads, self.shown_all)
        self.housekeeping = Housekeeping(
            Job("gateway leases", 0, self.ownership.beat, at_stop=self.ownership.release),
            Job("gateway sessions", LOOK_S, self.ownership.look),
            *self.access.jobs,
            Job("refusals", 1, self._count_refusals, at_stop=lambda: self._count_refusals(ahead_ms=MINUTE_MS)),
            Job("instance counts", EVERY_S, self.instance_counts.run),
            *_forgetting(reads, history_days),
        )

    def head(self) -> int:
        """The position of the log's last event."""
        with self.reads.connection() as connection:
            return reader.end(connection)

    def shown(self) -> int:
        """The position that every read model shows; one that stopped holds it back."""
        return min(self.follower.position, *self.runner.positions.values())

    def shown_all(self) -> bool:
        """Whether the read models show all that the log has now: they may take a moment, and it may go on meanwhile."""
        return self._wait_shown(self.head(), SHOWN_S)

    def _wait(self, position: int, seconds: float) -> bool:
        return self.follower.wait(position, seconds)

    def _wait_shown(self, position: int, seconds: float) -> bool:
        return self._wait(position, seconds) and self.shown() >= position

    def _tell_gateway(self, batch: Sequence[Recorded]) -> None:
        for recorded in batch:
            event = recorded.event
            if isinstance(event, _TOLD):
                session = event.session if isinstance(event, node.ConnectivityChanged) else None
                self.gateway.has_news(recorded.stream, session)

    def _count_refusals(self, ahead_ms: int = 0) -> None:
        """A minute ahead, the running one counts as over."""
        self.dispatcher.gatekeeper.count_refusals(self.store.now() + ahead_ms)

    def health(self) -> Health:
        """Ready is a process whose requests find the database, and whose read models follow the log."""
        try:
            self.store.now()
            lag = max(0, self.head() - self.shown())
        except psycopg.OperationalError:
            return Health(ready=False, checks={"database": "unreachable"})
        failed = "; ".join(f"{name}: {_event(said)}" for name, said in self.runner.failures.items())
        alive = self.follower.failure is None
        checks: dict[str, str | float] = {
            "database": "ok",
            "projectionLag": lag,
            "projections": failed or "ok",
            "follower": "ok" if alive else f"stopped behind position {self.follower.position}",
            **self.access.health(),
            **({"relationshipsToRemove": self.removing.left} if self.removing else {}),
        }
        if hole := self.follower.hole_age:
            checks["holeSeconds"] = round(hole, 1)
        return Health(ready=alive and not failed and lag < LAG_NOT_READY, checks=checks)

    def app(self, limits: Limits | None = None) -> ASGIApp:
        metrics = CollectorRegistry()
        gauges.register(metrics, self.follower, self.runner, [of.name for of in table.ASYNC], lambda: self.evidence.lag)
        self.instance_counts.register(metrics)
        return create_app(
            OPERATIONS,
            self.dispatcher,
            self.authorizer.identify,
            self.health,
            [self.gateway.route, *self.serving.routes, *self.access.routes],
            limits=limits,
            registry=metrics,
            identify_reads=self.access.reading,
            identify_blocks=self.access.blocks,
            resolver=self.resolver,
            lifespan=[self.gateway.running, self.serving.running],
            begin=self.uploads.begin,
            console=self._console,
        )

    def _console(self, operations: Mapping[str, Operation], wiring: routes.Wiring) -> People:
        reading, checks = self.dispatcher.reading, lambda: self.health().checks
        desk = ask.desk(operations, wiring.dispatch, reading, self.authorizer, self.store, checks)
        return console.people(desk, Cookies(self.instance_key.cookies), wiring)


def _evidence(plane: Plane, pool: Pool, key: Path) -> Evidence:
    with pool.connection() as connection:
        signer = audit_key.Signer(audit_key.read_or_make(key), evidence.incarnation(connection))
    return Evidence(pool, plane.store, lambda: plane.follower.position, signer, plane.mint("sess"))


def _removing(plane: Plane, pool: Pool) -> Removing | None:
    """Only where a Better IAM decides, and there are keys to act with."""
    if plane.access.relationships is None:
        return None
    return Removing(pool, plane.store, plane.shown, plane.access.relationships, plane.mint("sess"))


def _forgetting(reads: Pool, history_days: int | None) -> list[Job]:
    if history_days is None:
        return []
    return [Job("history", retention.EVERY_S, retention.Retention(reads, table.ASYNC, history_days).run)]


def _event(failure: str) -> str:
    """Position and type of the event alone: all the world may ask for health, and the rest quotes ids and rows."""
    return failure.partition(" of ")[0]


@contextmanager
def running(
    dsn: str,
    source: access.Source,
    history_days: int | None = None,
    files: Files | None = None,
    *,
    resolver: Callable[[str], bool] | None = None,
) -> Iterator[Plane]:
    """A working plane on a database that answers: migrated, read up to its end, controllers on.

    Row versions are kept for `history_days`, None for ever. `files` lie beside the access file unless they are named.
    `resolver` knows the key of who may ask what things are.
    """
    migrate.migrate(dsn)
    changed = runner.create_tables(dsn, table.ALL)
    if changed:
        names = " ".join(changed)
        raise migrate.MigrationError(
            f"the tables of {names} changed and the log is as it was: run `better-compute projections rebuild {names}` "
            "with the same --data-dir or --database-url, then start again"
        )
    with (
        pool(dsn, COMMANDS, by_key=True) as commands,
        pool(dsn, READS) as reads,
        pool(dsn, FOLLOWING, by_key=True) as following,
    ):
        check_kept(commands)
        plane = Plane(
            dsn, source, files or files_in(access.home(source)), commands, reads, following, history_days, resolver
        )
        plane.runner.load()
        plane.follower.catch_up()
        plane.calendars.look_ahead()
        plane.ownership.beat()
        plane.follower.start()
        plane.worker.start()
        plane.evidence.start()
        plane.watch.start()
        plane.instances.start()
        plane.housekeeping.start()
        plane.tidying.start()
        plane.access.start()
        if plane.removing:
            plane.removing.start()
        try:
            yield plane
        finally:
            if plane.removing:
                plane.removing.stop()
            plane.access.stop()
            plane.tidying.stop()
            plane.housekeeping.stop()
            plane.instances.stop()
            plane.watch.stop()
            plane.evidence.stop()
            plane.worker.stop()
            plane.follower.stop()
