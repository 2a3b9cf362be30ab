"""A naive reading of the log: who holds which atom when and how much of which quota, as domain.md §5 says it.

Plain dicts and sums over all instants; nothing here is clever, and nothing is taken from the code it is compared with.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from domain import instance, node, offering, quota, reservation, tenant
from domain.event import Recorded

FOREVER: Final = 1 << 60

LEGAL: Final[Mapping[str, tuple[str, ...]]] = {
    "draft": ("denied", "awaiting-confirmation", "pending", "placed", "cancelled", "expired"),
    "awaiting-confirmation": ("pending", "placed", "denied", "cancelled", "expired"),
    "pending": ("placed", "cancelled", "expired", "failed"),
    "placed": ("binding", "pending", "cancelled", "expired", "failed"),
    "binding": ("active", "releasing", "failed"),
    "active": ("releasing", "failed"),
    "releasing": ("released", "failed"),
}
FINAL: Final = frozenset({"denied", "released", "failed", "cancelled", "expired"})
RUNNING: Final = frozenset({"binding", "active"})
BOOKED: Final = frozenset({"placed", "binding", "active"})

STATUS: Final[Mapping[type, str]] = {
    reservation.Drafted: "draft",
    reservation.Denied: "denied",
    reservation.ConfirmationAwaited: "awaiting-confirmation",
    reservation.Queued: "pending",
    reservation.Placed: "placed",
    reservation.BindingStarted: "binding",
    reservation.Activated: "active",
    reservation.ReleaseStarted: "releasing",
    reservation.Released: "released",
    reservation.Failed: "failed",
    reservation.Cancelled: "cancelled",
    reservation.Expired: "expired",
}


@dataclass
class Hold:
    """Atoms and scalars of one node over `[start, end)`: live, ended and not proved free, or gone."""

    node_id: str
    atoms: tuple[str, ...]
    scalars: Mapping[str, int]
    start: int
    end: int
    reservation_id: str | None = None
    bound: bool = False
    ended: bool = False
    freed: bool = False

    @property
    def live(self) -> bool:
        return not self.ended and not self.freed


@dataclass
class Claim:
    """Amounts of each quota scope over `[start, end)`."""

    scopes: tuple[str, ...]
    amounts: dict[str, int]
    start: int
    end: int


@dataclass
class Booked:
    """A reservation as far as its events tell."""

    id: str
    draft: reservation.Drafted
    status: str = "draft"
    reason: str | None = None
    priority: int = 0
    since: int = 0
    start: int | None = None
    end: int | None = None
    give_up_at: int | None = None
    lease_until: int | None = None
    promise: reservation.Waits | None = None
    claim: Claim | None = None
    holds: dict[str, Hold] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)


@dataclass
class Machine:
    """A node as placement sees it."""

    labels: dict[str, str] = field(default_factory=dict)
    devices: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, int] = field(default_factory=dict)
    schedulable: bool = False


@dataclass
class Offer:
    tenant_id: str
    quota: dict[str, int]
    priority: int
    below: bool
    withdrawn: bool = False


@dataclass
class Launched:
    """An instance as far as its events tell; `on` is its node and allocation."""

    id: str
    draft: instance.Drafted
    status: str = "draft"
    wished: str = "running"
    on: tuple[str, str] | None = None
    over: bool = False


class Model:
    """`take` brings it one event further."""

    def __init__(self) -> None:
        self.reservations: dict[str, Booked] = {}
        self.nodes: dict[str, Machine] = {}
        self.plans: dict[str, Hold] = {}
        self.instances: dict[str, Launched] = {}
        self.offers: dict[str, Offer] = {}
        self.parents: dict[str, str | None] = {}
        self.limits: dict[str, dict[str, int]] = {}

    def take(self, recorded: Recorded) -> None:
        stream, event = recorded.stream, recorded.event
        if isinstance(event, tenant.Recorded):
            self.parents[event.tenant_id] = event.parent
        elif isinstance(event, quota.Set):
            self.limits[f"tenant:{event.id}" if event.kind == "tenant" else event.id] = dict(event.limits)
        elif stream.startswith("node_"):
            self._of_node(stream, event)
        elif stream.startswith("poff_"):
            self._of_offer(stream, event)
        elif stream.startswith("rsv_"):
            self._of_reservation(stream, event)
        elif stream.startswith("inst_"):
            self._of_instance(stream, event)

    def _of_node(self, node_id: str, event: Any) -> None:
        of = self.nodes.setdefault(node_id, Machine())
        match event:
            case node.Joined(labels=labels) | node.Labelled(labels=labels):
                of.labels = labels
            case node.DevicesChanged(devices=devices, scalars=scalars):
                of.devices = {one.id: one for one in devices if one.bookable}
                of.scalars = scalars
            case node.SchedulabilityChanged(reasons=reasons):
                of.schedulable = not reasons
            case node.MaintenancePlanned(plan=plan):
                self.plans[plan.id] = Hold(node_id, plan.atoms, {}, plan.from_, plan.until)
            case node.PlanEnded(id=id, at=at):
                self.plans[id].freed, self.plans[id].end = True, min(self.plans[id].end, at)

    def _of_offer(self, id: str, event: Any) -> None:
        match event:
            case offering.Offered():
                self.offers[id] = Offer(event.tenant_id, event.quota, event.priority, event.include_descendants)
            case offering.Changed():
                of = self.offers[id]
                of.quota, of.priority, of.below = event.quota, event.priority, event.include_descendants
            case offering.Withdrawn():
                self.offers[id].withdrawn = True

    def _of_reservation(self, id: str, event: Any) -> None:
        if isinstance(event, reservation.Drafted):
            self.reservations[id] = Booked(id, event, since=event.at)
        of = self.reservations[id]
        self._move(of, event)
        match event:
            case reservation.Admitted(claimed=claimed, priority=priority):
                of.priority = priority
                of.claim = Claim(claimed.scopes, dict(claimed.resources), claimed.from_, claimed.until)
            case reservation.Queued():
                of.give_up_at, of.holds, of.promise = event.give_up_at, {}, None
            case reservation.Waits():
                of.promise = event if event.place else None
            case reservation.Placed():
                assert of.claim is not None
                assert of.claim.start <= event.starts_at < event.ends_at <= of.claim.end, (
                    f"{of.id} was not admitted then"
                )
                of.start, of.end = event.starts_at, event.ends_at
                of.claim = self._narrowed(of, event.starts_at, event.ends_at)
                of.holds = {a.id: self._hold(of, a, event.starts_at, event.ends_at) for a in event.allocations}
            case reservation.MemberPlaced(allocation=one):
                of.holds[one.id] = self._hold(of, one, event.starts_at, event.ends_at)
                of.holds[one.id].bound = True
            case reservation.MemberLost(allocation_id=allocation_id):
                of.holds[allocation_id].ended = True
            case reservation.Extended(ends_at=ends_at) | reservation.Preempted(ends_at=ends_at):
                self._ends_at(of, ends_at)
            case reservation.BindingStarted():
                for hold in of.holds.values():
                    hold.bound = True
            case reservation.Activated(at=at):
                of.lease_until = None if of.draft.lease_seconds is None else at + of.draft.lease_seconds * 1000
            case reservation.Renewed(until=until):
                of.lease_until = until
            case reservation.ReleaseStarted():
                of.claim = self._narrowed(of, None, FOREVER)
                self._stop(of)
            case reservation.Failed(began=True):
                self._stop(of)
            case reservation.TornDown(allocation_id=allocation_id, at=at):
                of.holds[allocation_id].freed, of.holds[allocation_id].end = True, at
        if of.status in FINAL:
            of.claim = None
        if of.status in ("cancelled", "expired") or (isinstance(event, reservation.Failed) and not event.began):
            of.holds = {}

    def _of_instance(self, id: str, event: Any) -> None:
        if isinstance(event, instance.Drafted):
            self.instances[id] = Launched(id, event)
        of = self.instances[id]
        assert not of.over or isinstance(event, instance.Deleted), f"{id} is over: {event}"
        match event:
            case instance.Denied():
                of.status, of.over = "denied", True
            case instance.Admitted():
                of.status = "pending"
            case instance.Wished(desired=desired):
                of.wished = desired
            case instance.Placed():
                assert of.on is None, f"{id} is placed twice"
                of.status, of.on = "provisioning", (event.node_id, event.allocation_id)
            case instance.Displaced():
                of.status, of.on = "pending", None
            case instance.Reported(state=state):
                of.status = state if of.status != "deleting" else of.status
            case instance.Unheard():
                of.status = "unknown"
            case instance.Deleting(wished=wished):
                of.status, of.wished = "deleting", "deleted" if wished else of.wished
            case instance.Deleted():
                of.status, of.over = "deleted", True
            case instance.Failed():
                of.status, of.over = "failed", True

    def _move(self, of: Booked, event: Any) -> None:
        status = STATUS.get(type(event))
        if status is None or status == "draft":
            late = isinstance(event, reservation.TornDown | reservation.InstanceDetached)
            assert of.status not in FINAL or late, f"{of.id} is {of.status}: {event}"
            return
        assert status in LEGAL.get(of.status, ()), f"{of.id} goes from {of.status} to {status}"
        of.past.append(of.status)
        of.status, of.reason = status, getattr(event, "reason", None)

    def _hold(self, of: Booked, placed: reservation.Allocation, start: int, end: int) -> Hold:
        return Hold(placed.node_id, placed.atoms, placed.scalars, start, end, of.id)

    def _narrowed(self, of: Booked, start: int | None, end: int) -> Claim | None:
        claim = of.claim
        if claim is None:
            return None
        return Claim(claim.scopes, claim.amounts, claim.start if start is None else start, end)

    def _stop(self, of: Booked) -> None:
        """What it held stays taken until it is proved free."""
        for hold in of.holds.values():
            hold.ended = True

    def _ends_at(self, of: Booked, end: int) -> None:
        of.end, of.claim = end, self._narrowed(of, None, end)
        for hold in of.holds.values():
            hold.end = max(hold.start + 1, end) if hold.live else hold.end

    def holds(self) -> Iterable[Hold]:
        for of in self.reservations.values():
            yield from of.holds.values()
        yield from self.plans.values()

    def waiting(self) -> list[Booked]:
        """The queue: priority, then age; spot last."""
        found = [of for of in self.reservations.values() if of.status == "pending"]
        return sorted(found, key=self.rank)

    def rank(self, of: Booked) -> tuple[bool, int, int, str]:
        return of.draft.spot, -of.priority, of.since, of.id

    def offer(self, tenant_id: str, pool_owner: str) -> str | None:
        """The nearest offering alone counts: its own, else the nearest ancestor's that includes those below."""
        at: str | None = tenant_id
        while at is not None and at != pool_owner:
            for id, offer in self.offers.items():
                if offer.tenant_id == at and not offer.withdrawn and (at == tenant_id or offer.below):
                    return id
            at = self.parents[at]
        return None

    def limit(self, scope: str, resource: str) -> int | None:
        """An offering grants nothing of what it does not name; of a tenant or project that is unlimited."""
        if scope not in self.offers:
            return self.limits.get(scope, {}).get(resource)
        offer = self.offers[scope]
        return 0 if offer.withdrawn else offer.quota.get(resource, 0)

    def peak(self, scope: str, resource: str, start: int, end: int, but: str) -> int:
        """The most that all other claims hold together at any instant of `[start, end)`."""
        claims = [
            of.claim
            for of in self.reservations.values()
            if of.id != but and of.claim is not None and scope in of.claim.scopes
        ]
        instants = {start} | {claim.start for claim in claims if start <= claim.start < end}
        return max(sum(c.amounts.get(resource, 0) for c in claims if c.start <= at < c.end) for at in instants)

    def held(self, hold: Hold, at: int, others: Iterable[Hold], atom: str) -> bool:
        """Whether a hold has an atom at an instant: what ended has it until the device's next booking."""
        if hold.freed or not hold.start <= at:
            return False
        if not hold.ended:
            return at < hold.end
        return not any(
            other.live and other is not hold and atom in other.atoms and hold.start < other.start <= at
            for other in others
        )
