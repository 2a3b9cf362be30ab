"""Whose credential it is, as `sts/getCallerIdentity` tells (iam.md §13); what it says of unknown kinds is nobody."""

import logging
from typing import Annotated, Final, get_args

from msgspec import Meta, Struct

from adapters.iam import tokens
from domain.access import Credential, IdentityKind, Session, SessionKind

log = logging.getLogger(__name__)

Id = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
TenantId = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^/\x00-\x1f\x7f]*$(?!\n)")]
"""The log names an actor by tenant, a slash and identity: with a slash in it, a tenant could pass for another."""

_OURS: Final = tuple(f"biam_{kind}_" for kind in get_args(tokens.TokenType))
_IDENTITY_KINDS: Final = {kind: kind for kind in get_args(IdentityKind)}
_SESSION_KINDS: Final = {kind: kind for kind in get_args(SessionKind)}


class CallerIdentity(Struct, frozen=True, rename="camel"):
    """What Better Compute reads of the answer."""

    identity_id: Id
    identity_kind: str
    tenant_id: TenantId
    session_id: Id
    session_kind: str
    mfa: bool
    impersonator_id: Id | None = None
    role_id: Id | None = None
    trust_id: Id | None = None
    agent_id: Id | None = None
    delegation_id: Id | None = None


def is_garbage(token: str) -> bool:
    """Whether a token has the beginning of one of Better IAM's and not the rest: nobody needs to be asked."""
    return token.startswith(_OURS) and tokens.kind_of(token) is None


def session_of(caller: CallerIdentity, token: str, root_tenant: str) -> Session | None:
    """The session of a caller; None where its kind is none that Better Compute knows the limits of.

    An agent by itself is its own agent; a delegated session must say which agent it is, and by what delegation.
    """
    identity_kind: IdentityKind | None = _IDENTITY_KINDS.get(caller.identity_kind)
    session_kind: SessionKind | None = _SESSION_KINDS.get(caller.session_kind)
    delegated = session_kind == "delegated"
    agent = caller.agent_id or (caller.identity_id if identity_kind == "agent" else None)
    if identity_kind is None or session_kind is None:
        log.warning("a session of unknown kind was refused")
        return None
    if delegated and (agent is None or caller.delegation_id is None):
        log.warning("a delegated session that names no agent or no delegation was refused")
        return None
    return Session(
        tenant_id=caller.tenant_id,
        identity_id=caller.identity_id,
        identity_kind=identity_kind,
        session_id=caller.session_id,
        session_kind=session_kind,
        mfa=caller.mfa,
        agent_id=agent,
        delegation_id=caller.delegation_id,
        root_tenant=caller.tenant_id == root_tenant,
        impersonator_id=caller.impersonator_id,
        role_id=caller.role_id,
        trust_id=caller.trust_id,
        credential=Credential(token),
    )
