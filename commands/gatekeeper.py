"""Who may do what: resolve in the caller's tenant first, then decide, and keep a record of every no."""

import re
from threading import Lock
from typing import Final

import msgspec

from commands.ports import Store
from domain import admission, errors, ids
from domain.access import Authorizer, Resource, Session
from domain.event import Append, Change, Meta
from domain.operation import Operation, Request

PREFIX: Final = {
    "compute-site": "site",
    "compute-pool": "pool",
    "compute-node": "node",
    "compute-reservation": "rsv",
    "compute-project": "prj",
    "compute-provider-account": "pacct",
}
NAMED: Final = {
    "site_id": "site",
    "pool_id": "pool",
    "node_id": "node",
    "reservation_id": "rsv",
    "project_id": "prj",
    "provider_account_id": "pacct",
}
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
    )


def actor(session: Session) -> str:
    return _actor(session.tenant_id, session.identity_id)


class Decision(msgspec.Struct, frozen=True):
    """A resource, the allowed decision on it, and the policy that it was made under."""

    resource: Resource
    decided: admission.Decided
    policy_digest: str


class Gatekeeper:
    """The one place where identity, resource and policy meet; used by commands and queries alike."""

    def __init__(self, store: Store, authorizer: Authorizer, new_id: ids.Mint) -> None:
        self._store = store
        self._authorizer = authorizer
        self._new_id = new_id
        self._refusals: dict[tuple[str, str], tuple[int, int, admission.Caller]] = {}
        self._guard = Lock()

    def admit(self, operation: Operation, request: Request, session: Session, request_id: str) -> list[Decision]:
        """Decide an operation on every resource that its declaration names."""
        _check_ids(request)
        decisions: list[Decision] = []
        for template in () if operation.decided_inside else operation.on:
            type_, _, name = template.partition("/")
            if name == "{acting}" and getattr(request, "scope", "tenant") == "fleet":
                type_, id_, field = "compute-fleet", "global", "scope"
            else:
                id_, field = _fill(name, request, session)
            resource = self.resolve(session, operation.action, type_, id_, field, request_id)
            decisions.append(self.decide(session, operation.action, resource, request_id))
        return decisions

    def resolve(self, session: Session, action: str, type_: str, id_: str, field: str, request_id: str) -> Resource:
        """The resource as the caller's tenant sees it; missing and foreign are one answer (domain.md §10)."""
        if type_ in PREFIX:
            ids.parse(PREFIX[type_], id_, field)
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
        decision = self._authorizer.authorize(session, action, resource)
        name = f"{resource.type}/{resource.id}"
        if not decision.allowed:
            self.refused(session, action, name, decision.reason, request_id, decision.policy_digest)
            raise errors.AccessDenied(f"{action} on {name} is not allowed to you")
        decided = admission.Decided(action, name, True, decision.reason, resource.attributes)
        return Decision(resource, decided, decision.policy_digest)

    def refused(self, session: Session, action: str, resource: str, reason: str, request_id: str, digest: str) -> None:
        """Record a refusal; beyond 60 a minute of one identity they are counted, not listed (domain.md §9)."""
        who, now = caller(session), self._store.now()
        self.count_refusals(now)
        with self._guard:
            identity = (who.tenant_id, who.identity_id)
            minute, count, _ = self._refusals.get(identity, (now // MINUTE_MS, 0, who))
            self._refusals[identity] = (minute, count + 1, who)
        if count < REFUSALS_A_MINUTE:
            self._record(who, admission.Refused(who, request_id, action, resource, reason, digest), request_id)

    def count_refusals(self, now: int) -> None:
        """Record, for each minute that is over, how many refusals of an identity were not listed."""
        with self._guard:
            over = {key: kept for key, kept in self._refusals.items() if kept[0] != now // MINUTE_MS}
            for key in over:
                del self._refusals[key]
        for _, count, who in over.values():
            if count > REFUSALS_A_MINUTE:
                self._record(who, admission.RefusalsCounted(who, count - REFUSALS_A_MINUTE), None)

    def _record(self, who: admission.Caller, event: admission.Events, request_id: str | None) -> None:
        change = Change(self._new_id("adm"), 0, (event,))
        self._store.append(Append((change,), Meta(_actor(who.tenant_id, who.identity_id), correlation=request_id)))


def _actor(tenant_id: str, identity_id: str) -> str:
    return f"identity:{tenant_id}/{identity_id}"


def _check_ids(request: Request) -> None:
    for name, spelling in zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True):
        if name in NAMED and isinstance(value := getattr(request, name), str):
            ids.parse(NAMED[name], value, spelling)


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
