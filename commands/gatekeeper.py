"""Who may do what: resolve in the caller's tenant first, then decide, and keep a record of every no."""

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from threading import Lock
from typing import Final

import msgspec
from msgspec.structs import replace

from commands.in_turn import InTurn
from commands.ports import Ahead, Outlook, Store
from domain import admission, catalog, errors, ids
from domain.access import Authorizer, Resource, Session
from domain.event import Append, Change, Meta
from domain.operation import Call, Operation, Request

PREFIX: Final = catalog.ID_PREFIXES
NAMED: Final = {f"{name.removeprefix(catalog.PREFIX).replace('-', '_')}_id": prefix for name, prefix in PREFIX.items()}
"""Fields of any request that hold an id of this prefix; one of another kind, case or length is refused by name."""
REFUSALS_A_MINUTE: Final = 60
MINUTE_MS: Final = 60_000
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def caller(session: Session) -> admission.Caller:
    return admission.Caller(
        session.tenant_id,
        session.identity_id,
        session.identity_kind,
        session.session_id,
        session.session_kind,
        session.mfa,
        session.agent_id,
        session.delegation_id,
        session.impersonator_id,
        session.role_id,
        session.trust_id,
    )


def actor(session: Session) -> str:
    return _actor(session.tenant_id, session.identity_id)


class Decision(msgspec.Struct, frozen=True):
    """A resource, the decision on it, and the policy that it was made under."""

    resource: Resource
    decided: admission.Decided
    policy_digest: str

    @property
    def refusal(self) -> errors.AccessDenied:
        """What is told; a session that could do more to be allowed is told what."""
        kind = errors.STEP_UP.get(self.decided.reason, errors.AccessDenied)
        return kind(f"{self.decided.action} on {self.decided.resource} is not allowed to you")


@dataclass
class Refusals:
    """Of one identity in one minute: how many, and of how many beyond the listed ones the number is in the log."""

    who: admission.Caller
    count: int = 0
    recorded: int = 0

    @property
    def unlisted(self) -> int:
        return max(0, self.count - REFUSALS_A_MINUTE) - self.recorded


class Gatekeeper:
    """The one place where identity, resource and policy meet; used by commands and queries alike."""

    def __init__(self, store: Store, authorizer: Authorizer, new_id: ids.Mint) -> None:
        self._store = store
        self._authorizer = authorizer
        self._new_id = new_id
        self._refusals: dict[tuple[str, str, int], Refusals] = {}
        self._guard = Lock()
        self._counting = Lock()
        self._recording: Callable[[], bool] = lambda: True
        self.in_turn = InTurn()

    def by(self, authorizer: Authorizer, recording: Callable[[], bool]) -> "Gatekeeper":
        """The same one, to whom another says what is allowed; it records refusals while `recording` says so."""
        made = copy(self)
        made._authorizer, made._recording = authorizer, recording
        return made

    def foresee(self, operation: Operation, request: Request, call: Call, key: str | None) -> Ahead:
        """What performing it asks in any case: what it declares, or else what it is decided on.

        Of a request that will be refused for an id in it, that is the key alone.
        """
        if call.session is None:
            return Ahead()
        tenant_id = call.session.tenant_id
        try:
            check_ids(request)
            if operation.ahead is not None:
                declared: Ahead = operation.ahead(request, call)
                return replace(declared, tenant_id=tenant_id, key=key)
            if operation.decided_inside:
                return Ahead(tenant_id, key)
            filled = [_filled(template, request, call.session) for template in operation.on]
            streams = tuple(ids.parse(PREFIX[type_], id_, field) for type_, id_, field in filled if type_ in PREFIX)
            return Ahead(tenant_id, key, streams, tuple((type_, id_) for type_, id_, _ in filled))
        except errors.Invalid:
            return Ahead(tenant_id, key)

    def admit(
        self,
        operation: Operation,
        request: Request,
        session: Session,
        request_id: str,
        decided: Sequence[Decision] = (),
        seen: Outlook | None = None,
    ) -> list[Decision]:
        """Decide an operation on every resource that its declaration names, as `seen` if it was looked at already.

        A decision made before stands while the attributes it was made on are unchanged (domain.md §9).
        """
        check_ids(request)
        if operation.decided_inside:
            return list(decided)
        decisions: list[Decision] = []
        for template in operation.on:
            type_, id_, field = _filled(template, request, session)
            resource = self.resolve(session, operation.action, type_, id_, field, request_id, seen)
            known = next((one for one in decided if one.resource == resource), None)
            decisions.append(known or self.decide(session, operation.action, resource, request_id))
        return decisions

    def resolve(
        self,
        session: Session,
        action: str,
        type_: str,
        id_: str,
        field: str,
        request_id: str,
        seen: Outlook | None = None,
    ) -> Resource:
        """The resource as the caller's tenant sees it; missing and foreign are one answer (domain.md §10)."""
        if type_ in PREFIX:
            ids.parse(PREFIX[type_], id_, field)
        if seen is not None and (type_, id_) in seen.resources:
            resource = seen.resources[type_, id_]
        else:
            resource = self._store.resolve(session.tenant_id, type_, id_)
        if resource is None:
            missing = self.unseen(session, action, type_, id_, field, request_id)
            if type_ == "compute-fleet":
                raise errors.AccessDenied("only the platform's own tenant sees the whole fleet")
            raise missing
        return resource

    def unseen(
        self, session: Session, action: str, type_: str, id_: str, field: str, request_id: str
    ) -> errors.NotFound:
        """Keep a record of what did not resolve, and make the refusal."""
        self.refused(session, action, f"{type_}/{id_}", "NotResolved", request_id, "")
        return errors.NotFound(type_.removeprefix("compute-"), id_, field)

    def decide(self, session: Session, action: str, resource: Resource, request_id: str) -> Decision:
        decision = self.ask(session, action, resource, request_id)
        if not decision.decided.allowed:
            raise decision.refusal
        return decision

    def ask(self, session: Session, action: str, resource: Resource, request_id: str) -> Decision:
        """The decision, whatever it is; a no is recorded."""
        made = self._authorizer.authorize(session, action, resource)
        name = f"{resource.type}/{resource.id}"
        if not made.allowed:
            self.refused(session, action, name, made.reason, request_id, made.policy_digest)
        decided = admission.Decided(action, name, made.allowed, made.reason, resource.attributes)
        return Decision(resource, decided, made.policy_digest)

    def refused(self, session: Session, action: str, resource: str, reason: str, request_id: str, digest: str) -> None:
        """Record a refusal; beyond 60 a minute of one identity they are counted, not listed (domain.md §9)."""
        if not self._recording():
            return
        who, minute = caller(session), self._store.now() // MINUTE_MS
        with self._guard:
            kept = self._refusals.setdefault((who.tenant_id, who.identity_id, minute), Refusals(who))
            kept.count += 1
            listed = kept.count <= REFUSALS_A_MINUTE
        if listed:
            self._record(who, admission.Refused(who, request_id, action, resource, reason, digest), request_id)

    def count_refusals(self, now: int) -> None:
        """Record, for each minute that is over, how many refusals of an identity were not listed.

        What cannot be recorded is kept for the next call.
        """
        with self._counting:
            with self._guard:
                over = {key: kept for key, kept in self._refusals.items() if key[2] < now // MINUTE_MS}
            for key, kept in over.items():
                self._count(kept)
                with self._guard:
                    if not kept.unlisted:
                        del self._refusals[key]

    def _count(self, kept: Refusals) -> None:
        if unlisted := kept.unlisted:
            self._record(kept.who, admission.RefusalsCounted(kept.who, unlisted), None)
            kept.recorded += unlisted

    def _record(self, who: admission.Caller, event: admission.Events, request_id: str | None) -> None:
        change = Change(self._new_id("adm"), 0, (event,))
        self._store.append(Append((change,), Meta(_actor(who.tenant_id, who.identity_id), correlation=request_id)))


def _actor(tenant_id: str, identity_id: str) -> str:
    return f"identity:{tenant_id}/{identity_id}"


def check_ids(request: Request) -> None:
    for name, spelling in zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True):
        if name not in NAMED:
            continue
        value = getattr(request, name)
        for one in (value,) if isinstance(value, str) else value or ():
            ids.parse(NAMED[name], one, spelling)


def _filled(template: str, request: Request, session: Session) -> tuple[str, str, str]:
    """Type and id of a resource that a declaration names, and the request's field that it came from."""
    type_, _, name = template.partition("/")
    if name == "{acting}" and getattr(request, "scope", "tenant") == "fleet":
        return "compute-fleet", "global", "scope"
    return (type_, *_fill(name, request, session))


def _fill(name: str, request: Request, session: Session) -> tuple[str, str]:
    """The id that a placeholder stands for, and the request's field that it came from."""
    match = _PLACEHOLDER.fullmatch(name)
    if match is None:
        return name, "scope"
    field = match[1]
    if field == "acting":
        return session.tenant_id, "scope"
    attribute = next(f.name for f in msgspec.structs.fields(type(request)) if f.encode_name == field)
    return getattr(request, attribute), field
