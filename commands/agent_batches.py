"""What many agents bring about at once, recorded many to an append: a fleet that comes back, a gang that binds.

Each of these takes the common case of all it is given in a handful of queries and one append. What is not the common
case, and all when the append was refused, goes one by one the way of `commands.agents`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from commands import agents, hardware, health, members, reconciling, teardown, twins
from commands.acting import following
from commands.gathering import Gathered
from commands.ports import Loaded, Store
from domain import errors, fingerprint, node, pool, reservation, schedulability
from domain.event import Append, Change, Meta, Seen
from domain.ids import Mint
from domain.inventory import NodeInventory
from domain.node_spec import Status

TOGETHER = Meta("controller:gateway")
Fault = Exception | None


class Opening(Struct, frozen=True):
    """An agent that asks for a session; `knows` says whether the holder of a public key is who asks."""

    node_id: str
    gateway: str
    hello: agents.Hello
    knows: Callable[[str], bool]


class Opened(Struct, frozen=True):
    """`session` is the epoch; with a `fault` it is what it may have become all the same, 0 when surely nothing."""

    session: int
    fault: Fault = None


class Inventory(Struct, frozen=True):
    node_id: str
    session: int
    found: NodeInventory


class Report(Struct, frozen=True):
    """A node's word of its NodeSpec, as `agents.report_status` takes it."""

    node_id: str
    session: int
    observed: int
    items: Mapping[str, Status]


def open_sessions(store: Store, asked: Sequence[Opening], new_id: Mint) -> list[Opened]:
    """Record who is connected. Missing, retired and unknown are one answer: NotFound."""
    found = store.load_all([one.node_id for one in asked])
    answers: list[Opened] = []
    changes: dict[str, Change] = {}
    now = store.now()
    for one, loaded in zip(asked, found, strict=True):
        state: node.State = loaded.state
        if loaded.version == 0 or state.provision_state == "retired" or not one.knows(state.public_key):
            answers.append(Opened(0, errors.NotFound("node", one.node_id)))
            continue
        answers.append(Opened(state.session + 1))
        if not state.commands and one.node_id not in changes:
            with _alone_if_it_fails(store):
                changes[one.node_id] = _opening(one, loaded, now)
    together = _append(store, list(changes.values()))
    done = set()
    for at, (one, answer) in enumerate(zip(asked, answers, strict=True)):
        if answer.fault is not None:
            continue
        if one.node_id in changes and one.node_id not in done and _for_all(together):
            answers[at] = replace(answer, fault=together)
            done.add(one.node_id)
        else:
            answers[at] = _open(store, _held_to(one, found[at].state), answer.session, new_id)
    return answers


def _opening(one: Opening, loaded: Loaded, now: int) -> Change:
    state: node.State = loaded.state
    events = agents.opening(state, one.gateway, one.hello, now)
    return Change(one.node_id, loaded.version, tuple(schedulability.settle(state, events, now)), _meta(one, state))


def _held_to(one: Opening, state: node.State) -> Opening:
    """Whoever asked was known by this key: one that replaced it meanwhile is another's."""
    return replace(one, hello=replace(one.hello, public_key=state.public_key))


def _open(store: Store, one: Opening, session: int, new_id: Mint) -> Opened:
    try:
        return Opened(agents.open_session(store, one.node_id, one.gateway, agents.Arrival(one.hello, new_id)))
    except Exception as fault:
        return Opened(session, fault)


def _meta(one: Opening | Inventory | Report, state: node.State) -> Meta:
    return Meta(f"agent:{one.node_id}", state.admission_id)


def _append(store: Store, changes: Sequence[Change], seen: Sequence[Seen] = ()) -> Fault:
    """What went wrong, for each to hear whose change it was."""
    if not changes:
        return None
    try:
        store.append(Append(tuple(changes), TOGETHER, seen=tuple(seen)))
    except Exception as fault:
        return fault
    return None


def _for_all(fault: Fault) -> bool:
    """Whether this end of the joint append is each one's answer; another may be for what one of them said."""
    return fault is None or isinstance(fault, errors.Unavailable)


@contextmanager
def _alone_if_it_fails(store: Store) -> Iterator[None]:
    """Whoever cannot be taken with the others is tried alone, and hears of the fault there: nobody else does."""
    try:
        yield
    except Exception:
        store.now()  # an outage is everybody's answer: then this raises too


def report_inventories(store: Store, reports: Sequence[Inventory]) -> list[Fault]:
    """Most are what they were: those bring no event, and the rest is told one by one."""
    found = store.load_all([one.node_id for one in reports])
    pools = sorted({loaded.state.pool_id for loaded in found if loaded.state.pool_id})
    of: dict[str | None, pool.State] = {
        pool_id: loaded.state for pool_id, loaded in zip(pools, store.load_all(pools), strict=True)
    }
    same = _unchanged(store, reports, [loaded.state for loaded in found], of)
    if same:
        store.saw_inventory(*(reports[at].node_id for at in same))
    return [
        None
        if at in same
        else _tried(lambda one=one: agents.report_inventory(store, one.node_id, one.session, one.found))  # type: ignore[misc]
        for at, one in enumerate(reports)
    ]


def _unchanged(
    store: Store, reports: Sequence[Inventory], states: Sequence[node.State], of: Mapping[str | None, pool.State]
) -> list[int]:
    """Which of the reports bring no event."""
    known: dict[int, Sequence[str]] = {}
    for at, one in enumerate(reports):
        with _alone_if_it_fails(store):
            known[at] = fingerprint.fingerprint(one.found).identifiers
    crowded = store.crowded([each for identifiers in known.values() for each in identifiers])
    now = store.now()
    same = []
    for at, identifiers in known.items():
        one, state = reports[at], states[at]
        alone = not crowded.intersection(identifiers) and set(identifiers) <= set(state.identifiers)
        if state.session != one.session or not alone or twins.named(state):
            continue
        with _alone_if_it_fails(store):
            seen = hardware.snapshot(one.found, (), (), now)
            if not [*hardware.observe(state, seen, of.get(state.pool_id), (), now), *health.fresh(state, now)]:
                same.append(at)
    return same


def _tried(act: Callable[[], None]) -> Fault:
    try:
        act()
    except Exception as fault:
        return fault
    return None


def report_statuses(store: Store, reports: Sequence[Report]) -> list[Fault]:
    """What nodes hold by now, and what it frees and makes ready, all in one append."""
    found = store.load_all([one.node_id for one in reports])
    booked = store.booked_all([one.node_id for one in reports])
    faults = [_wrong(one, loaded.state) for one, loaded in zip(reports, found, strict=True)]
    right = {one.node_id: one for one, fault in zip(reports, faults, strict=True) if fault is None}
    gathered = _Gathering(store, dict(zip((one.node_id for one in reports), found, strict=True)))
    taken = set()
    for one in right.values():
        with _alone_if_it_fails(store):
            gathered.take(one, booked.get(one.node_id, []))
            taken.add(one.node_id)
    together = _append(store, gathered.changes(), gathered.seen())
    for at, one in enumerate(reports):
        if faults[at] is not None:
            continue
        faults[at] = together
        alone = not _for_all(together) or right[one.node_id] is not one or one.node_id not in taken
        if alone or (together is None and one.node_id in gathered.blocked):
            faults[at] = _tried(
                lambda one=one: agents.report_status(store, one.node_id, one.session, one.observed, one.items)  # type: ignore[misc]
            )
    return faults


def _wrong(one: Report, state: node.State) -> Fault:
    if state.session != one.session:
        return errors.Fenced(f"session {one.session} of {one.node_id} was superseded")
    if one.observed > state.generation:
        return errors.Invalid("observedGeneration", f"the NodeSpec is at generation {state.generation}")
    return None


class _Gathering:
    """Changes of nodes and of the reservations on them, on their way into one append."""

    def __init__(self, store: Store, found: Mapping[str, Loaded]) -> None:
        self._store = store
        self._found = found
        self._now = store.now()
        self._nodes: list[Change] = []
        self._reservations = Gathered(store)
        self._by: dict[str, set[str]] = {}
        self._causes: dict[str, Loaded] = {}
        self._blockers: dict[str, bool] = {}
        self.blocked: set[str] = set()
        """Nodes of reservations that were not to be active yet: what was blocked by another of these looks again."""

    def take(self, one: Report, booked: Sequence[str]) -> None:
        loaded = self._found[one.node_id]
        state: node.State = loaded.state
        events = reconciling.report(state, one.observed, one.items, self._now)
        settled = tuple(schedulability.settle(state, events, self._now))
        if settled:
            self._nodes.append(Change(one.node_id, loaded.version, settled, _meta(one, state)))
        for reservation_id in booked:
            self._tear_down(one, reservation_id)
        for reservation_id in sorted(
            {a.reservation_id for a in state.allocations if one.items.get(a.id) == "prepared"}
        ):
            self._prepare(one, reservation_id)

    def _load(self, reservation_id: str) -> Loaded:
        loaded = self._reservations.load(reservation_id)
        self._causes.setdefault(reservation_id, loaded)
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
        if reservation_id not in self._blockers:
            blocked = state.status == "binding" and bool(self._store.blockers(reservation_id))
            self._blockers[reservation_id] = blocked
        blocked = self._blockers[reservation_id]
        if blocked:
            self.blocked.add(one.node_id)
        events = agents.prepared(state, one.node_id, one.items, one.observed, self._now, blocked)
        self._add(one, Change(reservation_id, loaded.version, tuple(events)))

    def _add(self, one: Report, change: Change) -> None:
        self._by.setdefault(change.stream, set()).add(one.node_id)
        self._reservations.add([change])

    def changes(self) -> list[Change]:
        return self._nodes + [
            replace(change, meta=self._about(change.stream)) for change in self._reservations.changes() if change.events
        ]

    def seen(self) -> list[Seen]:
        """The nodes that bring no event of their own: what they said of reservations counts in their session alone."""
        own = {change.stream for change in self._nodes}
        said = {node_id for nodes in self._by.values() for node_id in nodes}
        return [Seen(node_id, self._found[node_id].version) for node_id in sorted(said - own)]

    def _about(self, reservation_id: str) -> Meta:
        """Whoever was admitted to reserve brought it about; who reported it is named where it was one node."""
        cause, by = self._causes[reservation_id], self._by[reservation_id]
        actor = f"agent:{next(iter(by))}" if len(by) == 1 else TOGETHER.actor
        return following(actor, cause.state.admission_id, cause)
