"""What many agents say of their NodeSpecs, recorded many to an append as in `agent_batches`: a gang that binds."""

from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from commands import agents, instance_reports, members, reconciling, teardown, together
from commands.acting import following
from commands.gathering import Gathered
from commands.ports import Loaded, Store
from domain import errors, node, reservation, schedulability
from domain.event import Change, Meta, Seen
from domain.node_spec import Status


class Report(Struct, frozen=True):
    """A node's word of its NodeSpec, as `agents.report_status` takes it."""

    node_id: str
    session: int
    observed: int
    items: Mapping[str, Status]
    instances: instance_reports.Instances = instance_reports.NONE


def report_statuses(store: Store, reports: Sequence[Report]) -> list[together.Fault]:
    """What nodes hold by now, and what it frees and makes ready, all in one append."""
    found = store.load_all([one.node_id for one in reports])
    booked = store.booked_all([one.node_id for one in reports])
    faults = [_wrong(one, loaded.state) for one, loaded in zip(reports, found, strict=True)]
    right = {one.node_id: one for one, fault in zip(reports, faults, strict=True) if fault is None}
    known = _known(store, booked.values(), [loaded.state for loaded in found])
    gathered = _Gathering(store, dict(zip((one.node_id for one in reports), found, strict=True)), known)
    taken = set()
    for one in right.values():
        with together.alone_if_it_fails(store):
            gathered.take(one, booked.get(one.node_id, []))
            taken.add(one.node_id)
    joint = together.append(store, gathered.changes(), gathered.seen())
    for at, one in enumerate(reports):
        if faults[at] is not None:
            continue
        faults[at] = joint
        alone = not together.for_all(joint) or right[one.node_id] is not one or one.node_id not in taken
        if alone or (joint is None and one.node_id in gathered.blocked):
            faults[at] = together.tried(lambda one=one: _alone(store, one))  # type: ignore[misc]
    return faults


def _alone(store: Store, one: Report) -> None:
    agents.report_status(store, one.node_id, one.session, one.observed, one.items, one.instances)


def _known(store: Store, booked: Iterable[Sequence[str]], nodes: Iterable[node.State]) -> dict[str, Loaded]:
    """The reservations that may be spoken of, and the instances on them: two queries, however many there are."""
    reservations = _loaded(store, {a.reservation_id for state in nodes for a in state.allocations}.union(*booked))
    instances = {loaded.state.instance_id for loaded in reservations.values() if loaded.state.instance_id}
    return reservations | _loaded(store, instances)


def _loaded(store: Store, streams: Set[str]) -> dict[str, Loaded]:
    """One that cannot be read is left out: whoever speaks of it is heard alone."""
    wanted = sorted(streams)
    found: dict[str, Loaded] = {}
    with together.alone_if_it_fails(store):
        return dict(zip(wanted, store.load_all(wanted), strict=True)) if wanted else found
    for stream in wanted:
        with together.alone_if_it_fails(store):
            found[stream] = store.load(stream)
    return found


def _wrong(one: Report, state: node.State) -> together.Fault:
    if state.session != one.session:
        return errors.Fenced(f"session {one.session} of {one.node_id} was superseded")
    if one.observed > state.generation:
        return errors.Invalid("observedGeneration", f"the NodeSpec is at generation {state.generation}")
    return None


class _Gathering:
    """Changes of nodes and of the reservations and instances on them, on their way into one append."""

    def __init__(self, store: Store, found: Mapping[str, Loaded], known: Mapping[str, Loaded]) -> None:
        self._found = found
        self._now = store.now()
        self._nodes: list[Change] = []
        self._others = Gathered(store, known)
        self._by: dict[str, set[str]] = {}
        self._causes: dict[str, Loaded] = {}
        binding = [id for id, loaded in known.items() if loaded.state.status == "binding"]
        self._blocked = store.blocked(binding) if binding else set()
        self.blocked: set[str] = set()
        """Nodes of reservations that were not to be active yet: what was blocked by another of these looks again."""

    def take(self, one: Report, booked: Sequence[str]) -> None:
        loaded = self._found[one.node_id]
        state: node.State = loaded.state
        events = reconciling.report(state, one.observed, one.items, self._now)
        settled = tuple(schedulability.settle(state, events, self._now))
        if settled:
            said_by = Meta(f"agent:{one.node_id}", state.admission_id)
            self._nodes.append(Change(one.node_id, loaded.version, settled, said_by))
        for reservation_id in booked:
            self._tear_down(one, reservation_id)
        for reservation_id in sorted(
            {a.reservation_id for a in state.allocations if one.items.get(a.id) == "prepared"}
        ):
            self._prepare(one, reservation_id)
        for reservation_id in booked:
            self._hear(one, reservation_id)

    def _load(self, stream: str) -> Loaded:
        loaded = self._others.load(stream)
        self._causes.setdefault(stream, loaded)
        return loaded

    def _tear_down(self, one: Report, reservation_id: str) -> None:
        loaded = self._load(reservation_id)
        state: reservation.State = loaded.state
        if agents.torn_down_by(state, one.node_id, one.observed, one.items):
            change = teardown.torn_down(reservation_id, state, loaded.version, one.node_id, self._now)
            if change is not None:
                self._add(one, change)

    def _prepare(self, one: Report, reservation_id: str) -> None:
        loaded = self._load(reservation_id)
        state: reservation.State = loaded.state
        if not members.preparing(state) or one.observed < state.generations.get(one.node_id, 0):
            return
        blocked = state.status == "binding" and reservation_id in self._blocked
        if blocked:
            self.blocked.add(one.node_id)
        events = agents.prepared(state, one.node_id, one.items, one.observed, self._now, blocked)
        self._add(one, Change(reservation_id, loaded.version, tuple(events)))

    def _hear(self, one: Report, reservation_id: str) -> None:
        state: reservation.State = self._load(reservation_id).state
        if state.instance_id is not None:
            self._load(state.instance_id)
            for change in instance_reports.heard(
                self._others, reservation_id, state, one.node_id, one.observed, one.instances, self._now
            ):
                self._add(one, change)

    def _add(self, one: Report, change: Change) -> None:
        self._by.setdefault(change.stream, set()).add(one.node_id)
        self._others.add([change])

    def changes(self) -> list[Change]:
        return self._nodes + [
            replace(change, meta=self._about(change.stream)) for change in self._others.changes() if change.events
        ]

    def seen(self) -> list[Seen]:
        """The nodes that bring no event of their own: what they said of reservations counts in their session alone."""
        own = {change.stream for change in self._nodes}
        said = {node_id for nodes in self._by.values() for node_id in nodes}
        return [Seen(node_id, self._found[node_id].version) for node_id in sorted(said - own)]

    def _about(self, stream: str) -> Meta:
        """Whoever was admitted brought it about; who reported it is named where it was one node."""
        cause, by = self._causes[stream], self._by[stream]
        actor = f"agent:{next(iter(by))}" if len(by) == 1 else together.TOGETHER.actor
        return following(actor, cause.state.admission_id, cause)
