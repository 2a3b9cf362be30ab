"""What commands need of the world; adapters provide it (architecture.md §1)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from domain import budget, image
from domain.access import Authorizer, Resource, Session
from domain.admission import Replay
from domain.calendar import Calendar
from domain.event import Append, Recorded
from domain.selector import Selectors


class Race(Exception):
    """Another append came between reading and writing; nothing was written."""


class QueueAhead(Race):
    """An admitted claim of the pool is ahead of this one."""


class NodeClosed(Race):
    """A node that the decision counted on takes no bookings any more, or not in this layout."""


class Loaded(Struct, frozen=True):
    """A stream's state and version, and of its last event position, id and correlation; version 0: no such stream."""

    state: Any
    version: int
    position: int = 0
    event_id: str | None = None
    correlation: str | None = None


class Offer(Struct, frozen=True):
    """The offering that counts for a tenant on a pool: its own, else the nearest ancestor's (domain.md §2)."""

    id: str
    priority: int


class Queue(Struct, frozen=True):
    """Who waits for a pool ahead of a place in its queue, in order, and the queue's version."""

    version: int
    ahead: tuple[str, ...]


class Following(Struct, frozen=True):
    """Who has a device next, and since when (epoch ms); without a reservation it is planned maintenance."""

    reservation_id: str | None
    since: int


class Ahead(Struct, frozen=True):
    """What a command is sure to ask: an Idempotency-Key, streams, and how things (type, id) look to a tenant."""

    tenant_id: str = ""
    key: str | None = None
    streams: tuple[str, ...] = ()
    things: tuple[tuple[str, str], ...] = ()


class Outlook(Struct, frozen=True):
    """The answers, and the database's clock in epoch ms behind them; of each pool among the things its offer too."""

    now: int
    replay: Replay | None
    loaded: Mapping[str, Loaded]
    resources: Mapping[tuple[str, str], Resource | None]
    offers: Mapping[str, Offer | None]


class Store(Protocol):
    """The log and the inline rows, as commands see them."""

    def now(self) -> int:
        """The database's clock in epoch ms: wall-clock deadlines use no other (domain.md §5)."""

    def look(self, ahead: Ahead) -> Outlook:
        """Ask it all at once. The streams come first: what is decided on things as they are shows what came between."""

    def load(self, stream: str, until: int | None = None) -> Loaded:
        """The state after the stream's last event, or after version `until`."""

    def load_all(self, streams: Sequence[str]) -> list[Loaded]:
        """The states after the last event of each, in the order of `streams`."""

    def history(self, stream: str) -> list[Recorded]:
        """Every event of a stream, oldest first."""

    def append(self, append: Append) -> int:
        """Record it all or nothing; return the last position. Raises Race or a Refusal, never both."""

    def resolve(self, tenant_id: str, type: str, id: str) -> Resource | None:
        """The resource if it exists in this tenant's view (domain.md §10, visibility)."""

    def offer(self, tenant_id: str, pool_id: str) -> Offer | None:
        """The offering under which a tenant sees a pool."""

    def holder(self, kind: str, scope: str, key: str) -> str | None:
        """Who holds a unique key, as the live offering of a pool to a tenant."""

    def holders(self, identifiers: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The live nodes that hold each of these hardware identifiers; one that nobody holds is left out."""

    def crowded(self, identifiers: Sequence[str]) -> set[str]:
        """Those of these hardware identifiers that more than one live node holds."""

    def nodes_of(self, pool_id: str) -> list[str]:
        """The nodes that belong to a pool."""

    def booked(self, node_id: str) -> list[str]:
        """Reservations with atoms of this node that were bound and are not torn down."""

    def booked_all(self, nodes: Sequence[str]) -> dict[str, list[str]]:
        """The same of many nodes; one without such reservations is left out."""

    def saw_inventory(self, *nodes: str) -> None:
        """Note that nodes reported their inventories just now; that is no event."""

    def carried(self, node_id: str) -> list[str]:
        """Reservations that are booked on this node: bound and not torn down, or still to come."""

    def booked_devices(self, node_id: str) -> list[str]:
        """Devices of this node that a reservation holds, or will hold."""

    def blockers(self, reservation_id: str) -> list[str]:
        """Earlier reservations that still hold, not torn down, an atom that this one has booked next."""

    def blocked(self, reservations: Sequence[str]) -> set[str]:
        """Those of these reservations that have blockers."""

    def following(self, reservation_id: str, since: int, until: int) -> list[Following]:
        """Who has any of this reservation's devices in `[since, until)`, soonest first; of many the first twenty."""

    def queue(self, pool_id: str, place: tuple[bool, int, int], limit: int) -> Queue:
        """The first `limit` of those who are ahead of a place, which is a claim's spot, priority and since."""

    def tenants(self) -> list[str]:
        """Every tenant that the log knows and that is not deleted."""

    def tenant(self, tenant_id: str) -> str | None:
        """A tenant's status, None when nobody knows it."""


class Calendars(Protocol):
    """The in-memory calendars of the pools, fed by the log (architecture.md §4)."""

    def locked(self, pool_id: str) -> AbstractContextManager[Calendar]:
        """The pool's calendar as far as this process has read, held still while it is looked at."""

    def lost(self, pool_id: str, atoms: Sequence[str], window: tuple[int, int]) -> None:
        """These atoms were taken by a rival: keep off them, and wait (200 ms at most) to read what happened.

        Without atoms it only waits until this process has read what is in the log now.
        """

    def hold(self, pool_id: str, allocation_ids: Sequence[str]) -> None:
        """Bookings just made in the calendar are choices of this process: rivals see them before the log has them."""

    def drop(self, allocation_ids: Sequence[str]) -> None:
        """Choices that came to nothing; those that the log has confirmed stay."""


class Budgets(Protocol):
    """Who keeps the budgets: the tables here, or a billing system outside."""

    def accounts(self, scopes: Sequence[str]) -> list[budget.Account]:
        """How the budgets of these scopes stand, in their order; a scope without one is left out."""


class Billing(Protocol):
    """A billing system outside, which has a say beside the budgets here (iam.md §16)."""

    def refuses(self, session: Session) -> str | None:
        """Why whoever asks may spend nothing more, None where they may. What cannot be told is a no."""


class PublicKey(Struct, frozen=True):
    """A key that images are signed with; `pem` is the one way to write it, `key_id` the SHA-256 of its DER in hex."""

    scheme: image.Scheme
    key_id: str
    pem: str


class Signatures(Protocol):
    """What signatures of images are checked with."""

    def key(self, pem: str, field: str) -> PublicKey:
        """The public key in PEM; raises errors.Invalid naming `field`."""

    def good(self, scheme: image.Scheme, pem: str, signature: bytes, statement: bytes, sha256: str) -> bool:
        """Whether the key signed: with ed25519 the statement, with ecdsa-p256 the bytes of this digest."""


class Blobs(Protocol):
    """The bytes of images, each kept under its digest (lower-case hex SHA-256), or not at all."""

    def has(self, sha256: str) -> bool:
        """Whether the bytes are there now."""

    def drop(self, sha256: str) -> None:
        """Delete them; what is not there is as good."""


class UserData(Protocol):
    """User data of instances: encrypted, outside the log, 64 KiB at most each, known by id and digest."""

    def put(self, instance_id: str, content: bytes) -> None:
        """Keep it, beside what a rival request for the instance may have brought: the log has the digest."""

    def drop(self, instance_id: str) -> None:
        """Delete all of it; what is not there is as good."""


class Images(Struct, frozen=True):
    """What instances and images need beside the log."""

    blobs: Blobs
    signatures: Signatures
    user_data: UserData


class Ports(Struct, frozen=True):
    """Everything a command may touch, made once by the composition root."""

    store: Store
    authorizer: Authorizer
    calendars: Calendars
    selectors: Selectors
    new_id: Callable[[str], str]
    new_secret: Callable[[], str]
    budgets: Budgets
    images: Images
    billing: Billing | None = None
