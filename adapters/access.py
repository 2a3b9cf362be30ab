"""The two who can stand behind the Authorizer, each with what it needs beside it (architecture.md §6)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from litestar.types import ControllerRouterHandler
from msgspec import Struct

from adapters import directory, registry
from adapters.housekeeping import Job
from adapters.http.threads import Workers
from adapters.iam import access_file
from adapters.iam.better import billing, connection, route
from adapters.iam.better.authorizer import BetterIam
from adapters.iam.better.client import Client
from adapters.iam.better.relationships import Relationships
from adapters.iam.better.session_jwt import KeySet, SessionJwts
from adapters.iam.better.tenants import TenantTree
from adapters.iam.better.webhook import Receiver
from adapters.iam.embedded import Embedded
from adapters.postgres.store import EventStore
from commands.ports import Billing
from domain.access import Authorizer, Session, Tenant

Source = Path | connection.Connection
"""An access file, or a Better IAM."""

DELIVERIES, DELIVERIES_WAITING = 2, 64
REMOVING_S: Final = 2.0
"""For a call of the controller that removes relationships: well below the time in which its lease lapses."""


def _nothing() -> None:
    pass


class Access(Struct, frozen=True):
    """`reading` identifies the caller of a read. Where `blocks`, identifying asks over a network.

    `health` is what it has to say of itself; `start` and `stop` are for what it does by itself, `jobs` for what
    housekeeping does for it.
    """

    authorizer: Authorizer
    reading: Callable[[str], Session | None]
    blocks: bool = False
    billing: Billing | None = None
    relationships: Relationships | None = None
    jobs: tuple[Job, ...] = ()
    routes: Sequence[ControllerRouterHandler] = ()
    health: Callable[[], Mapping[str, str]] = dict
    start: Callable[[], None] = _nothing
    stop: Callable[[], None] = _nothing


def root_tenant(source: Source) -> str:
    """The tenant that is the platform itself."""
    if isinstance(source, Path):
        return access_file.parse(source.read_bytes(), registry.actions()).root
    return source.root_tenant


def home(source: Source) -> Path:
    """The directory of the access file; a Better IAM has none."""
    if not isinstance(source, Path):
        raise ValueError("with a Better IAM the places of keys and blobs have to be named")
    return source.parent


def access(source: Source, store: EventStore) -> Access:
    return _embedded(source, store) if isinstance(source, Path) else _better(source, store)


def _embedded(path: Path, store: EventStore) -> Access:
    def record(file: access_file.AccessFile) -> None:
        directory.record(store, file.tenants.values(), file.digest)

    embedded = Embedded(path, actions=registry.actions(), on_load=record)

    def health() -> Mapping[str, str]:
        return {"accessFile": f"{embedded.stale}; an earlier one is in force" if embedded.stale else "ok"}

    return Access(embedded, embedded.identify, jobs=(Job("access file", 0, embedded.refresh),), health=health)


def _better(to: connection.Connection, store: EventStore) -> Access:
    client, brief = Client(to.url, address_header=to.client_address_header), Client(to.url, total_s=REMOVING_S)

    def keys() -> Sequence[str]:
        return connection.lines(to.service_key_file)

    def record(tenants: Collection[Tenant], unread: Collection[str]) -> None:
        directory.record(store, tenants, unread=unread)

    tree = TenantTree(client, to.root_tenant, keys, record)
    authorizer = BetterIam(client, to.root_tenant)
    jwts = None
    if to.jwt_audience is not None:
        jwts = SessionJwts(KeySet(client), to.issuer, frozenset([to.jwt_audience]), to.root_tenant)

    def reading(token: str) -> Session | None:
        return (jwts and jwts.session(token)) or authorizer.identify(token)

    workers = Workers(DELIVERIES, DELIVERIES_WAITING)
    receiver = Receiver(tree.changed, jwts.distrust if jwts else lambda before: None)
    secrets = to.webhook_secret_file
    routes = [route.handler(receiver, lambda: connection.lines(secrets), workers)] if secrets else []

    def stop() -> None:
        tree.stop()
        workers.close()
        client.close()
        brief.close()

    def health() -> Mapping[str, str]:
        return {"tenantTree": (tree.trouble or "ok") if to.service_key_file else "no service key"}

    start = tree.start if to.service_key_file else _nothing
    return Access(
        authorizer,
        reading,
        blocks=True,
        billing=billing.Billing(client),
        relationships=Relationships(brief, keys) if to.service_key_file else None,
        routes=routes,
        health=health,
        start=start,
        stop=stop,
    )
