"""A reservation: a tenant's claim on a pool, from draft to a final state (domain.md §5)."""

from collections.abc import Mapping
from typing import Final, Literal, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from domain import errors
from domain.claim import Claim
from domain.event import Event

Status = Literal[
    "draft",
    "denied",
    "awaiting-confirmation",
    "pending",
    "placed",
    "binding",
    "active",
    "releasing",
    "released",
    "failed",
    "cancelled",
    "expired",
]
Binding = Literal["hold", "instance", "node"]

MOVES: Final[Mapping[Status, tuple[Status, ...]]] = {
    "draft": ("denied", "awaiting-confirmation", "pending", "placed", "cancelled", "expired"),
    "awaiting-confirmation": ("pending", "placed", "denied", "cancelled", "expired"),
    "pending": ("placed", "cancelled", "expired", "failed"),
    "placed": ("binding", "pending", "cancelled", "expired", "failed"),
    "binding": ("active", "releasing", "failed"),
    "active": ("releasing", "failed"),
    "releasing": ("released", "failed"),
    "denied": (),
    "released": (),
    "failed": (),
    "cancelled": (),
    "expired": (),
}
VERBS: Final[Mapping[str, tuple[Status, ...]]] = {
    "cancel": ("draft", "awaiting-confirmation", "pending", "placed", "binding"),
    "release": ("binding", "active"),
}
"""The states in which each verb is legal (domain.md §5)."""
FINAL: Final = frozenset(state for state, following in MOVES.items() if not following)


class Allocation(Struct, frozen=True, rename="camel"):
    """A placement on one node: its atoms, scalar amounts and the CDI names that a runtime asks for."""

    id: str
    node_id: str
    node_name: str
    addresses: tuple[str, ...]
    atoms: tuple[str, ...]
    cdi_devices: tuple[str, ...]
    scalars: dict[str, int]
    layout: int
    prepared: bool = False
    torn_down: bool = False


class Claimed(Struct, frozen=True, rename="camel"):
    """Amounts of the quota scopes held over `[from, until)` in epoch ms: of an offering, a tenant, a project."""

    scopes: tuple[str, ...]
    resources: dict[str, int]
    from_: int = field(name="from")
    until: int


class Drafted(Event, frozen=True, tag="reservation.drafted.1"):
    """The exact request that the decision was made on. `body` is the SHA-256 of the request's canonical JSON."""

    tenant_id: str
    identity_id: str
    pool_id: str
    pool_name: str
    claim: Claim
    duration_seconds: int
    binding: Binding
    spot: bool
    max_pending_seconds: int
    gpu_count: int
    gpu_model: str
    region: str
    body: str
    at: int
    labels: dict[str, str] = {}
    starts_at: int | None = None
    lease_seconds: int | None = None
    project_id: str | None = None


class Denied(Event, frozen=True, tag="reservation.denied.1"):
    """Kept, so that a retry with the same key gets the same answer; `code` and `detail` are that answer."""

    reason: str
    code: str
    detail: str
    extra: dict[str, str | int]


class Admitted(Event, frozen=True, tag="reservation.admitted.1"):
    """Allowed; from here on it holds quota."""

    admission_id: str
    claimed: Claimed
    priority: int


class Queued(Event, frozen=True, tag="reservation.queued.1"):
    """It waits for capacity, ordered by priority, then age; spot last."""

    pool_id: str
    priority: int
    spot: bool
    since: int
    reason: str
    give_up_at: int
    earliest_start: int | None = None


class Placed(Event, frozen=True, tag="reservation.placed.1"):
    """Atoms are booked over `[startsAt, endsAt)`; the database refuses what overlaps.

    `queued` says that it had been waiting. One that had not is refused while another waits ahead of its place in the
    pool's queue, which is its `spot`, `priority` and `since` (epoch ms).
    """

    pool_id: str
    tenant_id: str
    starts_at: int
    ends_at: int
    allocations: tuple[Allocation, ...]
    claimed: Claimed
    priority: int
    spot: bool
    since: int
    queued: bool


class BindingStarted(Event, frozen=True, tag="reservation.binding_started.1"):
    """Each node's NodeSpec has the allocation from this generation on; by `fail_at` all must be prepared.

    `reason` is AtomNotReleased while the one before has not torn down an atom of it (O15).
    """

    generations: dict[str, int]
    at: int
    fail_at: int
    reason: str | None = None


class Prepared(Event, frozen=True, tag="reservation.prepared.1"):
    allocation_id: str
    generation: int


class Activated(Event, frozen=True, tag="reservation.activated.1"):
    at: int


class Ending(Event, frozen=True, tag="reservation.ending.1"):
    """Notice, given beforehand: it will be released at `at` (epoch ms) for this reason."""

    at: int
    reason: str


class Stays(Event, frozen=True, tag="reservation.stays.1"):
    """The notice given before is void."""


class ReleaseStarted(Event, frozen=True, tag="reservation.release_started.1"):
    """It ends now; its atoms stay taken until each node reports them torn down."""

    reason: str
    at: int
    generations: dict[str, int]


class TornDown(Event, frozen=True, tag="reservation.torn_down.1"):
    """Proof that the atoms of one allocation are free from `at` on."""

    allocation_id: str
    node_id: str
    at: int


class Released(Event, frozen=True, tag="reservation.released.1"):
    reason: str
    at: int


class Failed(Event, frozen=True, tag="reservation.failed.1"):
    """Ends quota at once; atoms that were bound stay taken until proved free."""

    reason: str
    at: int
    began: bool
    generations: dict[str, int] = {}


class Cancelled(Event, frozen=True, tag="reservation.cancelled.1"):
    reason: str
    at: int


class Expired(Event, frozen=True, tag="reservation.expired.1"):
    reason: str
    at: int


Events = (
    Drafted
    | Denied
    | Admitted
    | Queued
    | Placed
    | BindingStarted
    | Prepared
    | Activated
    | Ending
    | Stays
    | ReleaseStarted
    | TornDown
    | Released
    | Failed
    | Cancelled
    | Expired
)


class State(Struct, frozen=True):
    status: Status = "draft"
    reason: str | None = None
    draft: Drafted | None = None
    denied: Denied | None = None
    admission_id: str | None = None
    claimed: Claimed | None = None
    priority: int = 0
    since: int = 0
    give_up_at: int | None = None
    earliest_start: int | None = None
    starts_at: int | None = None
    ends_at: int | None = None
    allocations: tuple[Allocation, ...] = ()
    generations: dict[str, int] = {}
    fail_at: int | None = None
    ending: Ending | None = None


def evolve(state: State, event: Events) -> State:
    match event:
        case Drafted():
            return State(draft=event, starts_at=event.starts_at, since=event.at)
        case Denied(reason=reason):
            return replace(state, status="denied", reason=reason, denied=event)
        case Admitted():
            return replace(state, admission_id=event.admission_id, claimed=event.claimed, priority=event.priority)
        case Queued():
            return replace(
                state,
                status="pending",
                reason=event.reason,
                give_up_at=event.give_up_at,
                earliest_start=event.earliest_start,
                allocations=(),
            )
        case Placed():
            return replace(
                state,
                status="placed",
                reason=None,
                earliest_start=None,
                starts_at=event.starts_at,
                ends_at=event.ends_at,
                allocations=event.allocations,
                claimed=event.claimed,
            )
        case BindingStarted(generations=generations, fail_at=fail_at, reason=reason):
            return replace(state, status="binding", generations=generations, fail_at=fail_at, reason=reason)
        case Prepared(allocation_id=allocation_id):
            return replace(state, allocations=_mark(state, allocation_id, prepared=True))
        case Activated():
            return replace(state, status="active", reason=None)
        case Ending():
            return replace(state, ending=event)
        case Stays():
            return replace(state, ending=None)
        case ReleaseStarted(reason=reason, at=at, generations=generations):
            return replace(state, status="releasing", reason=reason, ends_at=at, generations=generations)
        case TornDown(allocation_id=allocation_id):
            return replace(state, allocations=_mark(state, allocation_id, torn_down=True))
        case Released(reason=reason):
            return replace(state, status="released", reason=reason)
        case Failed(reason=reason, at=at, generations=generations):
            return replace(state, status="failed", reason=reason, ends_at=at, generations=generations)
        case Cancelled(reason=reason):
            return replace(state, status="cancelled", reason=reason)
        case Expired(reason=reason):
            return replace(state, status="expired", reason=reason)
        case _:
            assert_never(event)


def _mark(state: State, allocation_id: str, **marks: bool) -> tuple[Allocation, ...]:
    return tuple(replace(a, **marks) if a.id == allocation_id else a for a in state.allocations)


def prepared(state: State) -> bool:
    """Whether every node has prepared its part."""
    return bool(state.allocations) and all(a.prepared for a in state.allocations)


def must_take(state: State, verb: str) -> None:
    """Refuse a verb that the state does not take, naming those that it does."""
    if state.status not in VERBS[verb]:
        legal = [name for name, states in VERBS.items() if state.status in states]
        raise errors.IllegalTransition(state.status, verb, legal, final=state.status in FINAL)


def attributes(draft: Drafted) -> dict[str, str | int | float | bool | list[str]]:
    """What a policy reads of a draft; durationHours is the exact seconds / 3600 (domain.md §10)."""
    known: dict[str, str | int | float | bool | None] = {
        "region": draft.region,
        "gpuModel": draft.gpu_model,
        "gpuCount": draft.gpu_count,
        "durationHours": draft.duration_seconds / 3600,
        "binding": draft.binding,
        "projectId": draft.project_id,
        "ownerId": draft.identity_id,
        "spot": draft.spot,
    }
    return {name: value for name, value in known.items() if value is not None}
