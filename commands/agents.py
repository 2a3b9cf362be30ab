"""What agents bring about: sessions, inventories, the status of their NodeSpec (domain.md §3, §8; api.md §4)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from commands import hardware, health, instance_reports, members, missing, node_sessions, reconciling, teardown, twins
from commands.acting import act, following
from commands.gathering import Gathered
from commands.ports import Store
from domain import (
    errors,
    fingerprint,
    node,
    reservation,
    reservation_fold,
    reservation_life,
    reservation_terms,
    schedulability,
)
from domain.event import Change, Meta, Seen
from domain.ids import Mint
from domain.inventory import NodeInventory
from domain.node_spec import Status


def _meta(node_id: str, state: node.State) -> Meta:
    return Meta(f"agent:{node_id}", state.admission_id)


def _about(store: Store, node_id: str, stream: str) -> Meta:
    """What a node reports of a reservation or an instance was brought about by whoever was admitted (domain.md §9)."""
    cause = store.load(stream)
    return following(f"agent:{node_id}", cause.state.admission_id, cause)


class Hello(Struct, frozen=True):
    """What an agent says of itself when it opens a session.

    `public_key` is the one that its signature was held to; `shows` tells what its clock shows now (epoch ms).
    """

    boot_id: str
    agent_version: str
    public_key: str = ""
    shows: Callable[[], int] | None = None


class Arrival(Struct, frozen=True):
    """A hello, and what names the commands that follow from a boot."""

    hello: Hello
    new_id: Mint


def open_session(store: Store, node_id: str, gateway: str = "", arrival: Arrival | None = None) -> int:
    """Record that the node is connected to a gateway and return its session's epoch; an older one is superseded.

    A boot id that is new ends the commands that were to end with a boot, and what follows from them.
    """
    opened = 0
    hello = arrival.hello if arrival else None

    def decide() -> Sequence[Change]:
        nonlocal opened
        gathered = Gathered(store)
        loaded = gathered.load(node_id)
        state: node.State = loaded.state
        if loaded.version == 0 or state.provision_state == "retired":
            raise errors.NotFound("node", node_id)
        if hello is not None and hello.public_key not in ("", state.public_key):
            raise errors.Fenced(f"the key of {node_id} was replaced")
        opened, now = state.session + 1, store.now()
        events = opening(state, gateway, hello, now)
        gathered.add([Change(node_id, loaded.version, tuple(schedulability.settle(state, events, now)))])
        if arrival is not None:
            node_sessions.rejoined(store, gathered, node_id, arrival.hello.boot_id, arrival.new_id)
        return gathered.changes()

    act(store, _meta(node_id, store.load(node_id).state), decide)
    return opened


def opening(state: node.State, gateway: str, hello: Hello | None, now: int) -> list[node.Events]:
    """The node's next session, its boot where that is new, and what its clock shows."""
    events: list[node.Events] = [node.ConnectivityChanged("connected", state.session + 1, now, gateway)]
    if hello is not None and (hello.boot_id, hello.agent_version) != (state.boot_id, state.agent_version):
        events.append(node.Booted(hello.boot_id, hello.agent_version, now))
    if hello is not None and hello.shows is not None:
        events += health.skewed(state, hello.shows() - now, now)
    return events


def end_session(
    store: Store, node_id: str, session: int, connectivity: Literal["disconnected", "unreachable", "lost"]
) -> None:
    """Record how a session ended, unless a newer one has taken its place.

    Only a farewell is the agent's own word; that a lease ran out is what the plane found.
    """

    def decide() -> list[Change]:
        loaded = store.load(node_id)
        state: node.State = loaded.state
        if state.session != session or state.connectivity == connectivity:
            return []
        now = store.now()
        events: list[node.Events] = [node.ConnectivityChanged(connectivity, session, now)]
        return [Change(node_id, loaded.version, tuple(schedulability.settle(state, events, now)))]

    meta = _meta(node_id, store.load(node_id).state)
    if connectivity != "disconnected":
        meta = replace(meta, actor="controller:liveness")
    act(store, meta, decide)


def _current(store: Store, node_id: str, session: int) -> tuple[int, node.State]:
    loaded = store.load(node_id)
    if loaded.state.session != session:
        raise errors.Fenced(f"session {session} of {node_id} was superseded")
    return loaded.version, loaded.state


def report_inventory(store: Store, node_id: str, session: int, found: NodeInventory) -> None:
    """Record a changed inventory; a booked device that is gone keeps its booking (domain.md §4)."""

    def decide() -> list[Change]:
        version, state = _current(store, node_id, session)
        identifiers = fingerprint.fingerprint(found).identifiers
        others = twins.of(store, node_id, state.owner_tenant_id, identifiers)
        now = store.now()
        seen = hardware.snapshot(found, others.nodes, others.taken, now)
        of = store.load(state.pool_id).state if state.pool_id else None
        events = hardware.observe(state, seen, of, store.booked_devices(node_id), now)
        events += twins.mark(state, twins.earlier(store, node_id, state, others), others.strangers, now)
        events += health.fresh(state, now)
        own = Change(node_id, version, tuple(schedulability.settle(state, events, now)))
        if not events:
            return []
        degraded = missing.told(store, f"agent:{node_id}", store.booked(node_id), node_id, events, now)
        return [own, *twins.beside(store, node_id, state.identifiers, identifiers, now), *degraded]

    act(store, _meta(node_id, store.load(node_id).state), decide)
    store.saw_inventory(node_id)


def report_status(
    store: Store,
    node_id: str,
    session: int,
    observed: int,
    items: Mapping[str, Status],
    instances: instance_reports.Instances = instance_reports.NONE,
) -> None:
    """Take a node's word of its NodeSpec: what it prepared, and, by leaving it out, what it tore down."""
    _observe(store, node_id, session, observed, items)
    booked = store.booked(node_id)
    for reservation_id in booked:
        _tear_down(store, node_id, session, reservation_id, observed, items)
    spec: node.State = store.load(node_id).state
    prepared = {a.reservation_id for a in spec.allocations if items.get(a.id) == "prepared"}
    for reservation_id in sorted(prepared):
        _prepare(store, node_id, session, reservation_id, observed, items)
    for reservation_id in booked:
        if instance_id := store.load(reservation_id).state.instance_id:
            _hear(store, node_id, session, reservation_id, instance_id, observed, instances)


def _observe(store: Store, node_id: str, session: int, observed: int, items: Mapping[str, Status]) -> None:
    def decide() -> list[Change]:
        version, state = _current(store, node_id, session)
        if observed > state.generation:
            raise errors.Invalid("observedGeneration", f"the NodeSpec is at generation {state.generation}")
        now = store.now()
        events = schedulability.settle(state, reconciling.report(state, observed, items, now), now)
        return [Change(node_id, version, tuple(events))]

    act(store, _meta(node_id, store.load(node_id).state), decide)


def _tear_down(
    store: Store, node_id: str, session: int, reservation_id: str, observed: int, items: Mapping[str, Status]
) -> None:
    def decide() -> Sequence[Change | Seen]:
        version, _ = _current(store, node_id, session)
        loaded = store.load(reservation_id)
        state: reservation.State = loaded.state
        if not torn_down_by(state, node_id, observed, items):
            return []
        change = teardown.torn_down(reservation_id, state, loaded.version, node_id, store.now())
        return [change, Seen(node_id, version)] if change else []

    act(store, _about(store, node_id, reservation_id), decide)


def _hear(
    store: Store,
    node_id: str,
    session: int,
    reservation_id: str,
    instance_id: str,
    observed: int,
    instances: instance_reports.Instances,
) -> None:
    def decide() -> Sequence[Change | Seen]:
        version, _ = _current(store, node_id, session)
        state: reservation.State = store.load(reservation_id).state
        told = instance_reports.heard(store, reservation_id, state, node_id, observed, instances, store.now())
        return [*told, Seen(node_id, version)]

    act(store, _about(store, node_id, instance_id), decide)


def torn_down_by(state: reservation.State, node_id: str, observed: int, items: Mapping[str, Status]) -> bool:
    """Whether a node that says this has nothing any more of what the reservation used there before."""
    kept = [a for a in teardown.gone(state) if a.node_id == node_id and a.id in items]
    return not kept and observed >= state.generations.get(node_id, 0)


def _prepare(
    store: Store, node_id: str, session: int, reservation_id: str, observed: int, items: Mapping[str, Status]
) -> None:
    def decide() -> Sequence[Change | Seen]:
        version, _ = _current(store, node_id, session)
        loaded = store.load(reservation_id)
        state: reservation.State = loaded.state
        if not members.preparing(state) or observed < state.generations.get(node_id, 0):
            return []
        blocked = state.status == "binding" and bool(store.blockers(reservation_id))
        events = prepared(state, node_id, items, observed, store.now(), blocked)
        return [Change(reservation_id, loaded.version, tuple(events)), Seen(node_id, version)]

    act(store, _about(store, node_id, reservation_id), decide)


def prepared(
    state: reservation.State,
    node_id: str,
    items: Mapping[str, Status],
    observed: int,
    now: int,
    blocked: bool,
) -> list[reservation.Events]:
    """Active once every node reports its part prepared and nobody before holds an atom of it any more (O15).

    A gang that lost a member is whole again once the one in its place is prepared.
    """
    fresh = [a for a in state.allocations if a.node_id == node_id and not a.prepared and items.get(a.id) == "prepared"]
    events: list[reservation.Events] = [reservation.Prepared(a.id, observed) for a in fresh]
    after = state
    for event in events:
        after = reservation_fold.evolve(after, event)
    if fresh and reservation_life.prepared(after):
        events += members.lacks(after, after.missing, now)
    if state.status == "binding" and not blocked and reservation_life.prepared(after):
        events += reservation_terms.activation(after, now)
    return events
