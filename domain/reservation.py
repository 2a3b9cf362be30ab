"""A reservation: a tenant's claim on a pool, from draft to a final state (domain.md §5)."""

from typing import Literal

from msgspec import Struct, field

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
    """The exact request that the decision was made on. `body` is the SHA-256 of the request's canonical JSON.

    One that is `committed` was stored before it was decided on, alone, for a decider that reads it back: it is open.
    What an instance brought with it is `instance_id`'s own: it is open-ended, and ends with the instance. With
    `replaced_when_lost` one of a single node is placed again when its node is lost, as a member of a gang would be.
    """

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
    committed: bool = False
    instance_id: str | None = None
    replaced_when_lost: bool = False


class Denied(Event, frozen=True, tag="reservation.denied.1"):
    """Kept, so that a retry with the same key gets the same answer; `code` and `detail` are that answer."""

    reason: str
    code: str
    detail: str
    extra: dict[str, str | int]


class ConfirmationAwaited(Event, frozen=True, tag="reservation.confirmation_awaited.1"):
    """It holds nothing until its person confirms, or until `until` (epoch ms) has passed.

    `reason` is OverBudget, or DecisionRefused where a delegated session was; `admission_id` is the decision so far.
    """

    reason: str
    detail: str
    at: int
    until: int
    admission_id: str | None = None


class Budgeted(Event, frozen=True, tag="reservation.budgeted.2"):
    """GPU-milliseconds that it may spend of the budgets of `scopes`; `enforced` refuses it where they are not left.

    `gpus` is what it spends in each millisecond that it runs.
    """

    scopes: tuple[str, ...]
    gpus: int
    gpu_ms: int
    enforced: bool


class Admitted(Event, frozen=True, tag="reservation.admitted.1"):
    """Allowed; from here on it holds quota. `was_open` says that it was an open draft until then."""

    admission_id: str
    claimed: Claimed
    priority: int
    was_open: bool = False


class Queued(Event, frozen=True, tag="reservation.queued.1"):
    """It waits for capacity, ordered by priority, then age; spot last."""

    pool_id: str
    priority: int
    spot: bool
    since: int
    reason: str
    give_up_at: int
    earliest_start: int | None = None


class Seat(Struct, frozen=True, rename="camel"):
    """What is kept on one node for a claim that waits."""

    node_id: str
    atoms: tuple[str, ...]
    layout: int


class Waits(Event, frozen=True, tag="reservation.waits.1"):
    """Why it still waits, and when it begins at the latest as things are (epoch ms).

    `place` is kept for it over its window from then on: whoever is behind is placed around it.
    """

    reason: str
    detail: str
    pool_id: str
    at: int
    earliest_start: int | None = None
    place: tuple[Seat, ...] = ()


class Backfilled(Event, frozen=True, tag="reservation.backfilled.1"):
    """It was placed although so many of its queue are ahead: it delays none of them.

    `queue` is the version of the queue that this was decided on, where the queue's own controller did not decide it.
    """

    pool_id: str
    ahead: int
    at: int
    queue: int | None = None


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


class Extended(Event, frozen=True, tag="reservation.extended.1"):
    """Its end moves, on the devices that it has; `claimed` is the whole claim as it is from here on.

    An end before `former_ends_at` shortens. `gpu_ms` is the budget that the whole now takes, `allocations` are the
    ids of those that move.
    """

    extension_id: str
    admission_id: str
    pool_id: str
    former_ends_at: int
    ends_at: int
    claimed: Claimed
    gpu_ms: int
    allocations: tuple[str, ...]
    at: int


class Renewed(Event, frozen=True, tag="reservation.renewed.1"):
    """Its allocation lease holds until `until` (epoch ms)."""

    at: int
    until: int


class Preempted(Event, frozen=True, tag="reservation.preempted.1"):
    """A claim that is not spot has its devices after `ends_at` (epoch ms)."""

    pool_id: str
    at: int
    ends_at: int


class MemberLost(Event, frozen=True, tag="reservation.member_lost.1"):
    """One node of a gang is gone; the others go on. `generation` is the NodeSpec that takes it from the node."""

    allocation_id: str
    node_id: str
    reason: str
    at: int
    generation: int | None = None


class MemberPlaced(Event, frozen=True, tag="reservation.member_placed.1"):
    """In place of a member that was lost, for the rest of the window; by `prepare_by` (epoch ms) it is prepared."""

    pool_id: str
    tenant_id: str
    allocation: Allocation
    starts_at: int
    ends_at: int
    generation: int
    prepare_by: int


class Evicted(Event, frozen=True, tag="reservation.evicted.1"):
    """The pool's owner ends it, and says why; how it ends is the next event's."""

    pool_id: str
    reason: str
    at: int


class Degraded(Event, frozen=True, tag="reservation.degraded.1"):
    """It goes on without all that it has booked; `names` are the devices that are missing."""

    reason: str
    names: tuple[str, ...]
    at: int


class Mended(Event, frozen=True, tag="reservation.mended.1"):
    """It has all again that it has booked."""

    at: int


class InstanceAttached(Event, frozen=True, tag="reservation.instance_attached.1"):
    """An instance runs on it from here on, and ends with it. One that brought it is attached from the draft on."""

    instance_id: str
    at: int


class InstanceDetached(Event, frozen=True, tag="reservation.instance_detached.1"):
    """The instance is gone, or knows that its reservation has ended."""

    instance_id: str
    at: int


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
    | ConfirmationAwaited
    | Budgeted
    | Admitted
    | Queued
    | Waits
    | Backfilled
    | Placed
    | BindingStarted
    | Prepared
    | Activated
    | Ending
    | Stays
    | Extended
    | Renewed
    | Preempted
    | MemberLost
    | MemberPlaced
    | Evicted
    | Degraded
    | Mended
    | InstanceAttached
    | InstanceDetached
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
    waits: Waits | None = None
    starts_at: int | None = None
    ends_at: int | None = None
    allocations: tuple[Allocation, ...] = ()
    generations: dict[str, int] = {}
    fail_at: int | None = None
    ending: Ending | None = None
    preempted_at: int | None = None
    awaits: ConfirmationAwaited | None = None
    detail: str | None = None
    lease_until: int | None = None
    lost: tuple[Allocation, ...] = ()
    prepare_by: dict[str, int] = {}
    degraded: str | None = None
    missing: tuple[str, ...] = ()
    instance_id: str | None = None
    """The instance that runs on it, until that is gone or knows that the reservation has ended."""
