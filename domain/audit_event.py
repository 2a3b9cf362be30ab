"""An event of the log as an audit event of one tenant, in Better IAM's form (iam.md §17, api.md §6).

Chains hash what this says. It may say more of events that come under new names; what it says of those recorded before
never changes.
"""

from typing import Any

from domain import admission
from domain.event import Recorded, tag

Decision = admission.Admitted | admission.Refused


def of(recorded: Recorded, digest: str, tenant_id: str) -> dict[str, Any]:
    """How the event stands in a tenant's chain, without sequence and hashes. `digest`: hex SHA-256 of the stored bytes.

    Of what another tenant did it learns which tenant that was, and not who there, in which session, and why it was
    allowed. The request is told where the tenant itself acted: a controller carries on those of others too.
    """
    return _shown(recorded, digest, tenant_id, acting_tenant(recorded) == tenant_id)


def of_fleet(recorded: Recorded, digest: str) -> dict[str, Any]:
    """How the platform's fleet sees it: everything, in the name of who acted, or of the one whose event it is."""
    whose = acting_tenant(recorded) or next(iter(recorded.tenants), "")
    return _shown(recorded, digest, whose, True)


def acting_tenant(recorded: Recorded) -> str | None:
    """The tenant that acted; None where an agent or a controller did."""
    event = recorded.event
    if isinstance(event, admission.Admitted | admission.Refused | admission.RefusalsCounted):
        return event.caller.tenant_id
    return _parts(recorded.meta.actor)[0] if recorded.meta.actor.startswith("identity:") else None


def requested_by(recorded: Recorded, tenant_id: str, under: admission.Admitted | None) -> bool:
    """Whether the request that an event stands for, if any, is one of the tenant's; `under` is the admission it names.

    What a controller does on a thing may carry the request of another that acted on it last, or on its node.
    """
    acting, request = acting_tenant(recorded), recorded.meta.correlation
    if acting is not None or request is None:
        return acting in (None, tenant_id)
    return under is not None and (under.caller.tenant_id, under.request_id) == (tenant_id, request)


def _shown(recorded: Recorded, digest: str, tenant_id: str, wholly: bool) -> dict[str, Any]:
    event = recorded.event
    name = recorded.stored_as or tag(event)
    decision = event if isinstance(event, admission.Admitted | admission.Refused) else None
    action, resource, reason = (decision and _decided(decision)) or (name, recorded.stream, None)
    shown: dict[str, Any] = {
        "id": recorded.event_id,
        "tenantId": tenant_id,
        "actorId": _actor(recorded, wholly),
        "action": action,
        "resourceId": resource,
        "outcome": "deny" if isinstance(event, admission.Refused | admission.RefusalsCounted) else "allow",
        "timestamp": recorded.recorded_at,
    }
    metadata: dict[str, Any] = {
        "position": recorded.position,
        "stream": recorded.stream,
        "version": recorded.version,
        "type": name,
        "digest": digest,
    }
    if recorded.meta.admission is not None:
        metadata["admissionId"] = recorded.meta.admission
    if reason == "ROOT_OVERRIDE":
        shown["rootOverride"] = True
    if wholly:
        if recorded.meta.correlation is not None:
            metadata["requestId"] = recorded.meta.correlation
        if reason is not None:
            metadata["reason"] = reason
        if decision is not None:
            shown |= _session(decision.caller)
    shown["metadata"] = metadata
    return shown


def _parts(actor: str) -> tuple[str, str]:
    """Tenant and identity of `identity:<tenant>/<id>`."""
    tenant, _, identity = actor.removeprefix("identity:").partition("/")
    return tenant, identity


def _actor(recorded: Recorded, wholly: bool) -> str:
    actor = recorded.meta.actor
    if not actor.startswith("identity:"):
        return actor
    tenant, identity = _parts(actor)
    return identity if wholly else tenant


def _decided(decision: Decision) -> tuple[str, str, str | None] | None:
    """Action, id of the resource and reason of what was decided last: the steps before it led there."""
    if isinstance(decision, admission.Refused):
        return decision.action, _id(decision.resource), decision.reason
    if not decision.decided:
        return None
    last = decision.decided[-1]
    return last.action, _id(last.resource), last.reason


def _id(resource: str) -> str:
    """The id of a resource named `<type>/<id>`."""
    return resource.partition("/")[2]


def _session(caller: admission.Caller) -> dict[str, Any]:
    context = {
        "sessionId": caller.session_id,
        "kind": caller.session_kind,
        "agentId": caller.agent_id,
        "delegationId": caller.delegation_id,
        "roleId": caller.role_id,
        "trustId": caller.trust_id,
    }
    shown: dict[str, Any] = {"sessionContext": {name: value for name, value in context.items() if value is not None}}
    if caller.impersonator_id is not None:
        shown["impersonatorId"] = caller.impersonator_id
    return shown
