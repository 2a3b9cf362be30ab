"""The decision that an event stands under: who was allowed what, under which policy (domain.md §9)."""

from collections.abc import Iterable

from msgspec import Struct

from domain import admission
from domain.event import Recorded
from queries.reading import Reader


class Decision(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Of a delegated session the identity is the person; `agentId` acted for them under `delegationId`."""

    identity_id: str
    tenant_id: str
    session_kind: str
    action: str
    resource: str
    reason: str
    request_id: str
    policy_digest: str
    agent_id: str | None = None
    delegation_id: str | None = None
    impersonator_id: str | None = None
    role_id: str | None = None
    trust_id: str | None = None


def of_all(history: Iterable[Recorded], read: Reader) -> dict[str, Decision]:
    """The decisions that these events name, by their admissions; all are asked for at once."""
    named = list(dict.fromkeys(one.meta.admission for one in history if one.meta.admission is not None))
    if not named:
        return {}
    found = zip(named, read.load_all(named), strict=True)
    return {id: of(one.state.recorded) for id, one in found if isinstance(one.state.recorded, admission.Admitted)}


def of(recorded: admission.Admitted) -> Decision:
    """Of several decisions the last: the request itself was decided there."""
    last = recorded.decided[-1] if recorded.decided else None
    caller = recorded.caller
    return Decision(
        identity_id=caller.identity_id,
        tenant_id=caller.tenant_id,
        session_kind=caller.session_kind,
        action=last.action if last else "",
        resource=last.resource if last else "",
        reason=last.reason if last else "",
        request_id=recorded.request_id,
        policy_digest=recorded.policy_digest,
        agent_id=caller.agent_id,
        delegation_id=caller.delegation_id,
        impersonator_id=caller.impersonator_id,
        role_id=caller.role_id,
        trust_id=caller.trust_id,
    )
