"""One decision, in the order in which the server takes it (iam.md §6)."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from domain import policy
from domain.policy import filters, planning
from iam_server.model import Iam, IamError, Session

DENIED = {"allowed": False, "reason": "ACCESS_DENIED", "matched": []}


def authorize(iam: Iam, session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """The single call that uses up a confirmation."""
    tenant_id, action, resource = text(body, "tenantId"), text(body, "action"), named(body)
    return decide(iam, session, tenant_id, action, resource, single=True)


def authorize_many(iam: Iam, session: Session, body: dict[str, Any]) -> dict[str, Any]:
    checks = body.get("checks")
    if not isinstance(checks, list) or not 1 <= len(checks) <= 50:
        raise IamError("INVALID_INPUT")
    results = []
    for check in checks:
        action, resource = text(check, "action"), named(check)
        decided = decide(iam, session, text(body, "tenantId"), action, resource, single=False)
        named_resource = {"type": resource[0], "id": resource[1]}
        results.append({"action": action, "resource": named_resource} | decided | {"matched": []})
    return {"results": results}


def plan(iam: Iam, session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """A filter over the things of a type, or that none says it (iam.md §19)."""
    tenant_id, action, type = text(body, "tenantId"), text(body, "action"), text(body, "type")
    asked = {"tenantId": tenant_id, "action": action, "type": type}
    if action.startswith("iam:"):
        raise IamError("INVALID_INPUT")
    if session.root_admin:
        return asked | {"kind": "always", "filter": {"kind": "true"}}
    if not iam.usable(tenant_id) or tenant_id != session.tenant or action not in iam.actions or held(session, action):
        return asked | {"kind": "never", "filter": {"kind": "false"}}
    by_id: dict[str, dict[str, list[str]]] = {}
    for _, _, _, kind, id in iam.relationships:
        by_id.setdefault(kind, {})[id] = _relations(iam, session, tenant_id, (kind, id))
    context = {**_principal(session), "resource.tenantId": tenant_id, "request.time": _now()}
    known = planning.Known(context, by_id.get(type, {}), by_id)
    try:
        found = planning.plan(action, type, grants(iam, session), session.boundaries, known)
    except planning.Unsupported:
        raise IamError("UNSUPPORTED_FILTER") from None
    kind = {filters.Always: "always", filters.Never: "never"}.get(found.__class__, "conditional")
    return asked | {"kind": kind, "filter": msgspec.to_builtins(found)}


def decide(
    iam: Iam, session: Session, tenant_id: str, action: str, resource: tuple[str, str], *, single: bool
) -> dict[str, Any]:
    if tenant_id not in iam.tenants:
        raise IamError("NOT_FOUND", 404)
    if code := session.refuses.get(action):
        raise IamError(code, 403)
    if session.root_admin:
        resolve(iam, tenant_id, resource)
        record(iam, session, tenant_id, action, resource, rootOverride=True, outcome="allow")
        return {"allowed": True, "reason": "ROOT_OVERRIDE", "matched": []}
    allowed = (
        iam.usable(tenant_id)
        and session.tenant == tenant_id
        and action in iam.actions
        and by_policy(iam, session, tenant_id, action, resource)
        and confirmed(iam, session, action, resource, single=single)
    )
    if not allowed:
        record(iam, session, session.tenant, action, resource, outcome="deny")
        return DENIED
    return {"allowed": True, "reason": "allowed", "matched": []}


def by_policy(iam: Iam, session: Session, tenant_id: str, action: str, resource: tuple[str, str]) -> bool:
    found = resolve(iam, tenant_id, resource)
    context = _context(iam, session, tenant_id, resource, found.get("attributes", {}))
    return policy.evaluate(action, "/".join(resource), grants(iam, session), session.boundaries, context).allowed


def resolve(iam: Iam, tenant_id: str, resource: tuple[str, str]) -> dict[str, Any]:
    """The application's word, taken only where it speaks of exactly what was asked (iam.md §8)."""
    asked = {"tenantId": tenant_id, "type": resource[0], "id": resource[1]}
    found = iam.resolver(tenant_id, *resource)
    if found is None or {name: found.get(name) for name in asked} != asked:
        raise IamError("RESOURCE_MISMATCH", 403)
    return found


def confirmed(iam: Iam, session: Session, action: str, resource: tuple[str, str], *, single: bool) -> bool:
    if not held(session, action):
        return True
    approval = (session.more["delegationId"], action, "/".join(resource))
    if not single or approval not in iam.approvals:
        return False
    iam.approvals.discard(approval)
    return True


def held(session: Session, action: str) -> bool:
    return any(fnmatchcase(action, pattern) for pattern in session.confirm)


def grants(iam: Iam, session: Session) -> list[policy.Compiled]:
    return [iam.roles[name] for name in session.roles]


def record(iam: Iam, session: Session, tenant_id: str, action: str, resource: tuple[str, str], **more: Any) -> None:
    event = {"tenantId": tenant_id, "actorId": session.identity, "action": action, "resourceId": resource[1]}
    iam.audit.append(event | more)


def text(body: Any, name: str) -> str:
    value = body.get(name) if isinstance(body, dict) else None
    if not isinstance(value, str) or not value.strip() or len(value) > 256 or any(ord(c) < 32 for c in value):
        raise IamError("INVALID_INPUT")
    return value


def named(body: dict[str, Any]) -> tuple[str, str]:
    resource = body.get("resource")
    return text(resource, "type"), text(resource, "id")


def _context(
    iam: Iam, session: Session, tenant_id: str, resource: tuple[str, str], attributes: dict[str, Any]
) -> dict[str, Any]:
    parent = (attributes.get("parentType"), attributes.get("parentId"))
    return {
        **{f"resource.{name}": value for name, value in attributes.items()},
        "resource.tenantId": tenant_id,
        "resource.relations": _relations(iam, session, tenant_id, resource),
        "resource.parentRelations": _relations(iam, session, tenant_id, parent),
        "request.time": _now(),
        **_principal(session),
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _principal(session: Session) -> dict[str, Any]:
    return {
        "principal.id": session.identity,
        "principal.tenantId": session.tenant,
        "principal.kind": session.identity_kind,
        "principal.sessionKind": session.kind,
        "principal.mfa": session.mfa,
        "principal.rootAdmin": session.root_admin,
        "principal.groups": session.groups,
        "principal.roles": session.roles,
        "principal.delegated": session.kind == "delegated",
    }


def _relations(iam: Iam, session: Session, tenant_id: str, thing: tuple[Any, Any]) -> list[str]:
    holders = {session.identity, *(f"group:{name}" for name in session.groups)}
    return sorted(
        {
            relation
            for tenant, holder, relation, type, id in iam.relationships
            if tenant == tenant_id and holder in holders and (type, id) == thing
        }
    )
