"""The Authorizer that asks Better IAM, with the caller's own bearer (iam.md §11, §14).

Nothing that was allowed is kept: each question is asked. No answer, or none that can be read, is a 503 and never a
yes.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from adapters.iam.better import identity, planning
from adapters.iam.better.answers import Code, Failed, Unknown
from adapters.iam.better.client import Client
from domain import access, errors
from domain.access import Check, Decision, Foresight, Plan, Resource, Session

log = logging.getLogger(__name__)

CHECKS: Final = 50
"""Better IAM takes so many in one `authorizeMany`."""

TRIES: Final = 24
"""Calls for one batch whose things it does not all find: a few may be gone, but not most of them."""

_HINTS: Final = {
    "RESOURCE_MISMATCH": "the host does not find what is there; does its resolver reach this server, with its key?",
    "RESOURCE_RESOLVER_REQUIRED": "the host has no resolver",
}
_ALLOWED: Final = ("allowed", "ROOT_OVERRIDE")


class _Decided(Struct, frozen=True):
    allowed: bool
    reason: Code


class _Named(Struct, frozen=True):
    type: str
    id: str


class _Checked(Struct, frozen=True):
    action: str
    resource: _Named
    allowed: bool


class _Checks(Struct, frozen=True):
    results: list[_Checked]


class BetterIam:
    """`root_tenant` is the tenant that is the platform itself."""

    needs_committed_draft = True

    def __init__(self, client: Client, root_tenant: str) -> None:
        self._client = client
        self._root_tenant = root_tenant

    def identify(self, token: str) -> Session | None:
        if not token or identity.is_garbage(token):
            return None
        try:
            caller = self._client.call("sts/getCallerIdentity", {}, identity.CallerIdentity, token)
        except errors.Unauthenticated:
            return None
        except Failed as no:
            log.warning("sts/getCallerIdentity: %s", no)
            raise refusal(no) from None
        return identity.session_of(caller, token, self._root_tenant)

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        body = {"tenantId": session.tenant_id, "action": action, "resource": _named(resource)}
        try:
            decided = self._client.call("authorize", body, _Decided, bearer(session))
        except Failed as no:
            _tell("authorize", no, action, resource)
            return Decision(False, no.code, "")
        if decided.allowed and decided.reason not in _ALLOWED:
            raise Unknown("its yes has a reason that was not agreed")
        return Decision(decided.allowed, decided.reason, "")

    def foresee(self, session: Session, action: str, resource: Resource) -> Foresight:
        plan = self.plan(session, action, resource.type)
        if plan.kind == "unsupported":
            return Foresight("unknown", "UNSUPPORTED_FILTER")
        if all(access.may(plan, [resource], lambda unplanned: [False] * len(unplanned))):
            return Foresight("allowed", "allowed")
        return Foresight("denied", "ACCESS_DENIED")

    def plan(self, session: Session, action: str, type: str) -> Plan:
        body = {"tenantId": session.tenant_id, "action": action, "type": type}
        try:
            planned = self._client.call("filters/plan", body, planning.Planned, bearer(session))
        except Failed as no:
            if no.code == "UNSUPPORTED_FILTER":
                return Plan("unsupported")
            if no.status == 400:
                raise Unknown(f"it cannot plan {action}: {no.code}") from None
            return Plan("never")
        return planning.plan_of(planned, (session.tenant_id, action, type))

    def allowed(self, session: Session, checks: Sequence[Check]) -> Sequence[bool]:
        found: list[bool] = []
        for start in range(0, len(checks), CHECKS):
            found += self._checked(session, checks[start : start + CHECKS], iter(range(TRIES)))
        return found

    def _checked(self, session: Session, chunk: Sequence[Check], tries: Iterator[int]) -> list[bool]:
        """One thing that Better IAM cannot find spoils the whole batch: halves of it tell which (iam.md §8)."""
        if next(tries, None) is None:
            raise Unknown("it does not find most of what it is asked about")
        checks = [{"action": action, "resource": _named(resource)} for action, resource in chunk]
        body = {"tenantId": session.tenant_id, "checks": checks}
        try:
            answered = self._client.call("authorizeMany", body, _Checks, bearer(session)).results
        except Failed as no:
            if no.code != "RESOURCE_MISMATCH" or len(chunk) == 1:
                _tell("authorizeMany", no, *chunk[0])
                return [False] * len(chunk)
            half = len(chunk) // 2
            return self._checked(session, chunk[:half], tries) + self._checked(session, chunk[half:], tries)
        asked = [(action, resource.type, resource.id) for action, resource in chunk]
        if [(one.action, one.resource.type, one.resource.id) for one in answered] != asked:
            raise Unknown("its answers are to other questions")
        return [one.allowed for one in answered]


def _tell(method: str, no: Failed, action: str, resource: Resource) -> None:
    """What is no decision but a fault of how the two are connected is for whoever runs them."""
    if no.status == 400 or no.code in _HINTS:
        hint = _HINTS.get(no.code, "is the catalog there that of this version?")
        log.error("%s of %s on %s/%s: %s; %s", method, action, resource.type, resource.id, no, hint)


def refusal(no: Failed) -> errors.Refusal:
    """What a caller is told whose credential itself is turned away."""
    kind = errors.STEP_UP.get(no.code, errors.AccessDenied)
    return kind(f"Better IAM refuses this session: {no.code}")


def _named(resource: Resource) -> dict[str, Any]:
    return {"type": resource.type, "id": resource.id}


def bearer(session: Session) -> str:
    if session.credential is None:
        raise errors.Unauthenticated("the credential of this session is not at hand any more; ask again with it")
    return session.credential.token
