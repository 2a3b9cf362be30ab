"""An instance: a VM, microVM or single-tenant container on an allocation (domain.md §6).

It runs on a reservation with binding `instance`: one that it brought, open-ended and ending with it, or one that its
tenant made before, with which it ends. Placement, bookings and quota are the reservation's.
"""

from typing import Literal

from msgspec import Struct

from domain import flavor, image
from domain.event import Event
from domain.node_spec import Desired, Kind

Status = Literal[
    "draft",
    "denied",
    "pending",
    "provisioning",
    "running",
    "stopping",
    "stopped",
    "deleting",
    "deleted",
    "failed",
    "unknown",
]
Wish = Literal["running", "stopped", "deleted"]
OnNodeLoss = Literal["fail", "replace"]


class Flavor(Struct, frozen=True, rename="camel"):
    """The flavor as it was when the instance was asked for."""

    id: str
    name: str
    size: flavor.Size


class Image(Struct, frozen=True, rename="camel"):
    """The image, who vouched for it when the instance was asked for, and what its bytes are."""

    id: str
    name: str
    version: str
    owner_tenant_id: str
    format: image.Format
    sha256: str
    size_bytes: int
    verdict: image.Verdict | None


class UserData(Struct, frozen=True, rename="camel"):
    """What the log has of user data: the bytes are kept elsewhere, encrypted, and go with the instance."""

    sha256: str
    size_bytes: int


class Drafted(Event, frozen=True, tag="instance.drafted.1"):
    """The exact request that the decision was made on. `body` is the SHA-256 of the request's canonical JSON.

    `reservation_id` is what it runs on; where it is `owned` it came with the instance. One that is `committed` was
    stored before it was decided on, alone, for a decider that reads it back: it is open.
    """

    tenant_id: str
    identity_id: str
    name: str
    kind: Kind
    pool_id: str
    pool_name: str
    flavor: Flavor
    image: Image
    reservation_id: str
    owned: bool
    on_node_loss: OnNodeLoss
    body: str
    at: int
    ssh_keys: tuple[str, ...] = ()
    user_data: UserData | None = None
    project_id: str | None = None
    max_pending_seconds: int | None = None
    labels: dict[str, str] = {}
    committed: bool = False


class Denied(Event, frozen=True, tag="instance.denied.1"):
    """Kept, so that a retry with the same key gets the same answer; `code` and `detail` are that answer."""

    reason: str
    code: str
    detail: str
    extra: dict[str, str | int]
    at: int


class Admitted(Event, frozen=True, tag="instance.admitted.1"):
    """Allowed. `was_open` says that it was an open draft until then, `reason` why its reservation waits, if it does."""

    admission_id: str
    was_open: bool = False
    reason: str | None = None


class Wished(Event, frozen=True, tag="instance.wished.1"):
    """Its tenant wants it running, or stopped, from here on."""

    desired: Desired
    at: int


class Placed(Event, frozen=True, tag="instance.placed.1"):
    """A node's NodeSpec has it, from this generation on; also when it is placed again after its node was lost."""

    node_id: str
    node_name: str
    allocation_id: str
    generation: int
    at: int


class Displaced(Event, frozen=True, tag="instance.displaced.1"):
    """Its node was lost; it waits for another place (`onNodeLoss: replace`)."""

    node_id: str
    reason: str
    at: int


class Reported(Event, frozen=True, tag="instance.reported.1"):
    """What its node says of it, where that is news."""

    state: Literal["provisioning", "running", "stopping", "stopped", "failed"]
    at: int
    reason: str | None = None
    detail: str | None = None
    addresses: tuple[str, ...] = ()


class Unheard(Event, frozen=True, tag="instance.unheard.1"):
    """Its node is silent: nobody knows what it does. What the node reports next ends that."""

    reason: str
    at: int


class Rebooted(Event, frozen=True, tag="instance.rebooted.1"):
    """Its node was told to reboot it, by this command."""

    command_id: str
    at: int


class Deleting(Event, frozen=True, tag="instance.deleting.1"):
    """It is being taken away; `generation` is the NodeSpec of its node without it, where one had it.

    `wished` says that its tenant asked for it; else its reservation ends under it, and it will have failed, or be
    deleted where the reservation was not its own.
    """

    reason: str
    at: int
    wished: bool
    generation: int | None = None


class Deleted(Event, frozen=True, tag="instance.deleted.1"):
    """Its node has nothing of it any more, or is proved off; its user data is deleted."""

    reason: str
    at: int


class Failed(Event, frozen=True, tag="instance.failed.1"):
    """It ended without having been deleted: its reservation is no more. All that is left to do is to delete it."""

    reason: str
    at: int


Events = (
    Drafted
    | Denied
    | Admitted
    | Wished
    | Placed
    | Displaced
    | Reported
    | Unheard
    | Rebooted
    | Deleting
    | Deleted
    | Failed
)


class State(Struct, frozen=True):
    """`observed` is what its node said last; `status` is what its tenant is told."""

    status: Status = "draft"
    reason: str | None = None
    detail: str | None = None
    draft: Drafted | None = None
    denied: Denied | None = None
    admission_id: str | None = None
    desired: Wish = "running"
    node_id: str | None = None
    node_name: str | None = None
    allocation_id: str | None = None
    generation: int | None = None
    observed: Literal["provisioning", "running", "stopping", "stopped", "failed"] | None = None
    addresses: tuple[str, ...] = ()
    reboot: str | None = None
    """The command of the last reboot."""
    since: int = 0
    """When the status changed last (epoch ms)."""
    ended_at: int | None = None
    """When it failed or was deleted for good."""
