"""One command's unit of work: load, decide, one append, answer (architecture.md §4)."""

import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from commands.gatekeeper import Decision, Gatekeeper, actor, caller, check_ids
from commands.ports import Loaded, NodeClosed, Offer, Outlook, Ports, QueueAhead, Race
from domain import admission, errors, ids, registry
from domain.access import Resource, Session
from domain.event import Append, Change, Event, Meta
from domain.operation import Answer, Call, Operation, Request

ATTEMPTS: Final = 16


class Contested(msgspec.Struct, frozen=True):
    """What a placement counted on: atoms of a pool over `[from, until)` in epoch ms, held as these allocations."""

    pool_id: str
    atoms: tuple[str, ...]
    window: tuple[int, int]
    allocations: tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True):
    """What a decision came to: new events, the answer's stream first.

    `refusal` is the answer when what was recorded is itself a no; `reveal` adds to the answer what is never stored;
    `meta` says who acted where there is no session; `admitted` is false for what IAM refused. `contested` are atoms
    that a rival may win, `instead` records a refusal that only the append can find: a quota's, a budget's, and where
    nothing else can be chosen instead of what is contested, that of a device that is booked.
    """

    changes: tuple[Change, ...]
    refusal: errors.Refusal | None = None
    reveal: Callable[[Any], Any] | None = None
    meta: Meta | None = None
    admitted: bool = True
    contested: Contested | None = None
    instead: Callable[[errors.Conflict], "Outcome"] | None = None

    @property
    def stream(self) -> str:
        return self.changes[0].stream


def changed(stream: str, loaded: Loaded, events: list[Any]) -> Change:
    return Change(stream, loaded.version, tuple(events))


class Unit:
    """What a handler works with. After a race it runs again with a new unit, keeps its decisions, knows its `races`.

    `body` is the digest by which a request is known again; `billed` what the billing system said, once it was asked.
    """

    def __init__(
        self,
        operation: Operation,
        call: Call,
        ports: Ports,
        gatekeeper: Gatekeeper,
        decisions: list[Decision],
        races: list[Exception],
        seen: Outlook,
        body: str,
        billed: list[str | None],
    ) -> None:
        self.operation = operation
        self.call = call
        self.ports = ports
        self.gatekeeper = gatekeeper
        self.decisions = decisions
        self.races = races
        self._seen = seen
        self.body = body
        self._billed = billed
        self.now = seen.now
        self.admission_id = ports.new_id("adm")

    @property
    def behind(self) -> bool:
        """Whether an attempt found somebody ahead in the pool's queue."""
        return any(isinstance(race, QueueAhead) for race in self.races)

    @property
    def session(self) -> Session:
        if self.call.session is None:
            raise errors.Unauthenticated("this operation needs a bearer token")
        return self.call.session

    def load(self, stream: str, until: int | None = None) -> Loaded:
        """A stream as it was before the decision on it: what came between makes the append a race."""
        if until is not None:
            return self.ports.store.load(stream, until)
        return self._seen.loaded.get(stream) or self.ports.store.load(stream)

    def must_match(self, loaded: Loaded) -> None:
        """Refuse early what If-Match will refuse."""
        _match(self.call, loaded.version)

    def existing(self, stream: str, field: str = "id") -> Loaded:
        """A stream that must be there; the caller has made sure that it resolves for whoever asks."""
        loaded = self.load(stream)
        if loaded.version == 0:
            raise errors.NotFound(registry.kind(stream).noun, stream, field)
        return loaded

    def must_not_spend(self) -> str | None:
        """Why the billing system outside lets the caller spend nothing more; it is asked once in a command."""
        if self.ports.billing is None:
            return None
        if not self._billed:
            self._billed.append(self.ports.billing.refuses(self.session))
        return self._billed[0]

    def new_id(self, prefix: str) -> str:
        return self.ports.new_id(prefix)

    def resolve(self, type_: str, id_: str, field: str) -> Resource:
        """A thing the request names besides what it is decided on; it must exist in the caller's view."""
        asked = (self.session, self.operation.action, type_, id_, field, self.call.request_id)
        return self.gatekeeper.resolve(*asked, self._seen)

    def offer(self, pool_id: str) -> Offer | None:
        """The offering under which the caller's tenant sees a pool."""
        if pool_id in self._seen.offers:
            return self._seen.offers[pool_id]
        return self.ports.store.offer(self.session.tenant_id, pool_id)

    def unseen(self, type_: str, id_: str, field: str = "id") -> errors.NotFound:
        """The refusal of a thing that does not exist in the caller's view; it is recorded."""
        return self.gatekeeper.unseen(self.session, self.operation.action, type_, id_, field, self.call.request_id)

    def only_owner(self, owner_tenant_id: str, name: str) -> None:
        """Refuse what only the owner's tenant may do to a thing that resolves elsewhere too."""
        session, action = self.session, self.operation.action
        if session.tenant_id != owner_tenant_id:
            self.gatekeeper.refused(session, action, name, "NotOwner", self.call.request_id, "")
            raise errors.AccessDenied(f"{action} on {name} is its owner's alone")

    def decide(self, resource: Resource, action: str | None = None) -> None:
        """Decide on a draft, once for each state of its attributes (domain.md §9: one command, one decision).

        The action is the operation's own where none is named.
        """
        action = action or self.operation.action
        of = [one for one in self.decisions if (one.resource.id, one.decided.action) == (resource.id, action)]
        known = next((one for one in of if one.resource == resource), None)
        if known is None:
            known = self.gatekeeper.ask(self.session, action, resource, self.call.request_id)
            self.decisions[:] = [*(one for one in self.decisions if one not in of), known]
        if not known.decided.allowed:
            raise known.refusal

    def commit(self, change: Change) -> None:
        """Store a draft alone, under no admission, for a decider that reads it back before it says anything."""
        self.ports.store.append(Append((change,), Meta(actor(self.session), correlation=self.call.request_id)))


def perform(operation: Operation, request: Request, call: Call, ports: Ports, gatekeeper: Gatekeeper) -> Answer:
    """Run a command to its answer. A race runs it again on fresh state; a refusal is raised."""
    key = _key(operation, call)
    if key is None or not ports.authorizer.needs_committed_draft:
        return _perform(operation, request, call, ports, gatekeeper, key)
    with gatekeeper.in_turn.take(key):
        return _perform(operation, request, call, ports, gatekeeper, key)


def foretell(operation: Operation, request: Request, call: Call, ports: Ports, gatekeeper: Gatekeeper) -> Any:
    """What a body of bytes must be. It is decided as the operation itself is, and only a no is recorded."""
    assert operation.content is not None
    assert call.session is not None
    seen = ports.store.look(gatekeeper.foresee(operation, request, call, None))
    decisions = gatekeeper.admit(operation, request, call.session, call.request_id, (), seen)
    return operation.content(request, Unit(operation, call, ports, gatekeeper, decisions, [], seen, "", []))


def _perform(
    operation: Operation, request: Request, call: Call, ports: Ports, gatekeeper: Gatekeeper, key: str | None
) -> Answer:
    body = hashlib.sha256(msgspec.json.encode(request, order="sorted")).hexdigest()
    races: list[Exception] = []
    decisions: list[Decision] = []
    billed: list[str | None] = []
    while len(races) < ATTEMPTS:
        seen = ports.store.look(gatekeeper.foresee(operation, request, call, key))
        if seen.replay is not None:
            return _replayed(operation, ports, seen.replay, body)
        if call.session is None:
            check_ids(request)
        else:
            decisions = gatekeeper.admit(operation, request, call.session, call.request_id, decisions, seen)
        unit = Unit(operation, call, ports, gatekeeper, decisions, races, seen, body, billed)
        lost: Contested | None = None
        try:
            outcome: Outcome = operation.handle(request, unit)
            lost = outcome.contested
            return _attempt(operation, unit, outcome, (key, body) if key else None)
        except (Race, errors.DoubleBooked) as race:
            if isinstance(race, errors.DoubleBooked) and lost is None:
                raise
            races.append(race)
            if lost is not None and isinstance(race, errors.DoubleBooked | NodeClosed):
                ports.calendars.lost(lost.pool_id, lost.atoms, lost.window)
    raise errors.Conflict("others keep changing this; try again")


def _attempt(operation: Operation, unit: Unit, outcome: Outcome, keyed: tuple[str, str] | None) -> Answer:
    recorded = False
    try:
        _match(unit.call, outcome.changes[0].expected)
        answer = _record(operation, unit, outcome, keyed)
        recorded = True
        return answer
    except (errors.QuotaExceeded, errors.BudgetExceeded, errors.DoubleBooked) as refusal:
        chosen = isinstance(refusal, errors.DoubleBooked) and outcome.contested is not None
        if outcome.instead is None or chosen:
            raise
        return _record(operation, unit, outcome.instead(refusal), keyed)
    finally:
        if not recorded and outcome.contested is not None:
            unit.ports.calendars.drop(outcome.contested.allocations)


def _match(call: Call, expected: int) -> None:
    if call.if_match is not None and call.if_match != expected:
        raise errors.StaleVersion(f"it is at version {expected}, If-Match names {call.if_match}")


def _record(operation: Operation, unit: Unit, outcome: Outcome, keyed: tuple[str, str] | None) -> Answer:
    stream = outcome.stream
    version = outcome.changes[0].expected + len(outcome.changes[0].events)
    position = None
    if any(change.events for change in outcome.changes):
        replay = None
        if keyed and outcome.refusal is None:
            replay = admission.Replay(keyed[0], keyed[1], stream, version, operation.status)
        position = unit.ports.store.append(_append(unit, outcome, replay))
    if outcome.refusal is not None:
        raise outcome.refusal
    loaded = unit.ports.store.load(stream, version)
    return _answer(operation, outcome, loaded, position or loaded.position)


def _answer(operation: Operation, outcome: Outcome, loaded: Loaded, position: int) -> Answer:
    assert operation.view is not None, f"{operation.name} has no view"
    body = operation.view(outcome.stream, loaded.state, loaded.version)
    if outcome.reveal is not None:
        body = outcome.reveal(body)
    return Answer(body=body, status=operation.status, position=position, version=loaded.version)


def _append(unit: Unit, outcome: Outcome, replay: admission.Replay | None) -> Append:
    """The admission is the first event of the append that it caused (domain.md §9)."""
    session = unit.call.session
    changes = tuple(change for change in outcome.changes if change.events)
    if session is None:
        assert outcome.meta is not None, "without a session the handler says who acted"
        return Append(changes, outcome.meta)
    if not outcome.admitted:
        return Append(changes, Meta(actor(session), correlation=unit.call.request_id))
    allowed = [decision for decision in unit.decisions if decision.decided.allowed]
    recorded: Event = admission.Admitted(
        caller(session),
        unit.call.request_id,
        tuple(decision.decided for decision in allowed),
        allowed[0].policy_digest if allowed else "",
        replay,
    )
    meta = Meta(actor(session), unit.admission_id, correlation=unit.call.request_id)
    return Append((Change(unit.admission_id, 0, (recorded,)), *changes), meta)


def _key(operation: Operation, call: Call) -> str | None:
    if operation.key == "none" or (operation.key == "accepted" and call.idempotency_key is None):
        return None
    key = ids.idempotency_key(call.idempotency_key)
    if call.session is None:
        return None
    return ids.derive(operation.name, call.session.tenant_id, call.session.identity_id, key)


def _replayed(operation: Operation, ports: Ports, kept: admission.Replay, body: str) -> Answer:
    """The first answer again: same status, body as of the version that it showed."""
    if kept.body != body:
        raise errors.KeyReused("this Idempotency-Key was used with another body; take a new key")
    loaded = ports.store.load(kept.stream, kept.version)
    assert operation.view is not None
    return Answer(
        body=operation.view(kept.stream, loaded.state, loaded.version),
        status=kept.status,
        position=loaded.position,
        version=loaded.version,
        replayed=True,
    )
