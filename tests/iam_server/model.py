"""What the server knows: tenants, identities and sessions, delegations with their confirmations, relationships."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from adapters.iam import tokens
from domain import policy, roles


class IamError(Exception):
    def __init__(self, code: str, status: int = 400, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.status = status
        self.more = more


@dataclass
class Tenant:
    id: str
    parent: str | None
    status: str = "active"
    type: str = "organization"

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "tenantId": self.id,
            "name": self.id,
            "type": self.type,
            "parentId": self.parent,
            "status": self.status,
            "createdAt": 1_790_000_000_000,
        }


@dataclass
class Session:
    """A credential with whose it is. `refuses` is an error code that every decision with it gives."""

    id: str
    identity: str
    tenant: str
    kind: str = "user"
    identity_kind: str = "user"
    roles: list[str] = field(default_factory=list)
    boundaries: list[policy.Compiled] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    mfa: bool = False
    root_admin: bool = False
    refuses: dict[str, str] = field(default_factory=dict)
    confirm: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        now = int(time.time() * 1000)
        return {
            "identityId": self.identity,
            "identityTenantId": self.tenant,
            "identityKind": self.identity_kind,
            "tenantId": self.tenant,
            "sessionId": self.id,
            "sessionKind": self.kind,
            "format": "opaque",
            "mfa": self.mfa,
            "authenticatedAt": now,
            "issuedAt": now,
            "expiresAt": now + 3_600_000,
            **self.more,
        }


Resolver = Callable[[str, str, str], dict[str, Any] | None]


def nothing(tenant_id: str, type: str, id: str) -> dict[str, Any] | None:
    """The resolver of a host that cannot reach the application."""
    return None


class Iam:
    """All of it. `asked` lists the calls that were answered, `audit` the decisions that Better IAM itself records."""

    def __init__(self, actions: frozenset[str], resolver: Resolver = nothing) -> None:
        self.actions = actions
        self.resolver = resolver
        self.lock = threading.RLock()
        self.tenants: dict[str, Tenant] = {}
        self.sessions: dict[str, Session] = {}
        self.roles: dict[str, policy.Compiled] = dict(roles.COMPILED)
        self.relationships: list[tuple[str, str, str, str, str]] = []
        self.approvals: set[tuple[str, str, str]] = set()
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.spent: dict[str, str] = {}
        """Of a tenant, the enforced budget that is spent."""
        self.audit: list[dict[str, Any]] = []

    def tenant(self, id: str, parent: str | None, **more: Any) -> Tenant:
        self.tenants[id] = Tenant(id, parent, **more)
        return self.tenants[id]

    def sign_in(self, identity: str, tenant: str, *roles: str, **more: Any) -> str:
        """A new session; its token."""
        prefix = {"user": "ses", "api-key": "key", "role": "rol", "session-token": "sts", "delegated": "dlg"}
        token = tokens.mint(prefix.get(more.get("kind", "user"), "ses"))  # type: ignore[arg-type]
        id = f"ses_{len(self.sessions) + 1}"
        self.sessions[token] = Session(id, identity, tenant, roles=list(roles), **more)
        return token

    def delegate(self, person: str, tenant: str, agent: str, *roles: str, confirm: tuple[str, ...] = ()) -> str:
        """A session in which an agent acts for a person; actions in `confirm` wait for the person each time."""
        more = {"agentId": agent, "delegationId": f"dlg_{agent}"}
        return self.sign_in(person, tenant, *roles, kind="delegated", confirm=list(confirm), more=more)

    def confirm(self, token: str, action: str, resource: str) -> None:
        """The person lets the agent do this once."""
        with self.lock:
            self.approvals.add((self.sessions[token].more["delegationId"], action, resource))

    def relate(self, tenant: str, holder: str, relation: str, type: str, id: str) -> None:
        self.relationships.append((tenant, holder, relation, type, id))

    def usable(self, id: str) -> bool:
        at: Tenant | None = self.tenants.get(id)
        while at is not None:
            if at.status != "active":
                return False
            if at.parent is None:
                return True
            at = self.tenants.get(at.parent)
        return False

    def count(self, method: str) -> int:
        with self.lock:
            return sum(1 for asked, _, _ in self.asked if asked == method)
