"""One load of an access file, indexed for decisions: principals by session, relations by thing."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from adapters.iam.access_checks import Identity
from adapters.iam.access_file import AccessFile
from domain import policy
from domain.access import Plan, Session, SessionKind

Thing = tuple[str, str, str]
"""Tenant, type and id."""


class Principal(Struct, frozen=True):
    """Everything about one credential that a decision needs; `context` is iam.md §9's `principal.*`."""

    session: Session
    holders: frozenset[str]
    grants: tuple[policy.Compiled, ...]
    boundaries: tuple[policy.Compiled, ...]
    context: Mapping[str, Any]
    reads: frozenset[str]


class Directory:
    """An access file in force."""

    def __init__(self, file: AccessFile) -> None:
        self.file = file
        self.by_token: dict[str, Principal] = {}
        self.by_session: dict[str, Principal] = {}
        for token, principal in _principals(file):
            self.by_token[token] = principal
            self.by_session[principal.session.session_id] = principal
        self._relations: dict[Thing, list[tuple[str, str]]] = {}
        self._held: dict[str, set[Thing]] = {}
        self.plans: dict[tuple[str, str, str], Plan] = {}
        """By session, action and type: what was planned under this file, as far as it was asked for."""
        for entry in file.relationships:
            holder = identity(entry.identity) if entry.identity else group(entry.tenant, str(entry.group))
            thing = (entry.tenant, entry.type, entry.id)
            self._relations.setdefault(thing, []).append((holder, entry.relation))
            self._held.setdefault(holder, set()).add(thing)

    def principal(self, session: Session) -> Principal | None:
        """The session as the file knows it now; None once its token is gone or means someone else."""
        found = self.by_session.get(session.session_id)
        return found if found is not None and found.session == session else None

    def usable(self, tenant_id: str) -> bool:
        """Whether the tenant and all above it are active (iam.md §15)."""
        tenants, at = self.file.tenants, self.file.tenants.get(tenant_id)
        while at is not None:
            if at.status != "active":
                return False
            if at.parent is None:
                return True
            at = tenants.get(at.parent)
        return False

    def relations(self, principal: Principal, tenant_id: str, kind: str, identifier: str) -> list[str]:
        """The names of the principal's relations to a thing, its groups' included, sorted (iam.md §7)."""
        held = self._relations.get((tenant_id, kind, identifier), ())
        return sorted({relation for holder, relation in held if holder in principal.holders})

    def related(self, principal: Principal, tenant_id: str) -> dict[str, dict[str, list[str]]]:
        """All the principal's relations in a tenant, by type and id of the thing."""
        found: dict[str, dict[str, list[str]]] = {}
        for holder in principal.holders:
            for of, kind, identifier in self._held.get(holder, ()):
                if of == tenant_id:
                    names = self.relations(principal, of, kind, identifier)
                    found.setdefault(kind, {})[identifier] = names
        return found


def identity(name: str) -> str:
    """How an identity is named among the holders of relations."""
    return f"identity:{name}"


def group(tenant_id: str, name: str) -> str:
    """How a group of a tenant is named among the holders of relations."""
    return f"group:{tenant_id}:{name}"


def _principals(file: AccessFile) -> Iterator[tuple[str, Principal]]:
    """Every token hash with its principal. A person's token is an API key too: nobody signed in to use it."""
    for name, entry in file.identities.items():
        for token in entry.token_sha256:
            session = Session(
                tenant_id=entry.tenant,
                identity_id=name,
                identity_kind=entry.kind,
                session_id=_session_id("api-key", token),
                session_kind="api-key",
                agent_id=name if entry.kind == "agent" else None,
                root_tenant=entry.tenant == file.root,
            )
            yield token, _principal(file, session, entry, entry.boundaries)
    for delegation, given in file.delegations.items():
        person = file.identities[given.person]
        agent = file.identities[given.agent]
        for token in given.token_sha256:
            session = Session(
                tenant_id=person.tenant,
                identity_id=given.person,
                identity_kind=person.kind,
                session_id=_session_id("delegated", token),
                session_kind="delegated",
                agent_id=given.agent,
                delegation_id=delegation,
                root_tenant=person.tenant == file.root,
            )
            ceilings = (*person.boundaries, *agent.boundaries, *given.scope)
            yield token, _principal(file, session, person, ceilings)


def _session_id(kind: SessionKind, token: str) -> str:
    """Tells an operator which of the file's hashes was used, and nobody which token: that has 256 bits."""
    return f"{kind}:{token[:16]}"


def _principal(file: AccessFile, session: Session, entry: Identity, own: tuple[str, ...]) -> Principal:
    grants = tuple(file.roles[role] for role in entry.roles)
    names = dict.fromkeys([*_inherited(file, session.tenant_id), *own])
    boundaries = tuple(file.boundaries[name] for name in names)
    return Principal(
        session=session,
        holders=frozenset([identity(session.identity_id), *(group(entry.tenant, name) for name in entry.groups)]),
        grants=grants,
        boundaries=boundaries,
        context=_context(session, entry),
        reads=frozenset().union(*(document.keys for document in (*grants, *boundaries))),
    )


def _inherited(file: AccessFile, tenant_id: str) -> Iterator[str]:
    """Boundaries of the tenant and of all above it apply (iam.md §15)."""
    at: str | None = tenant_id
    while at is not None:
        yield from file.tenant_boundaries[at]
        at = file.tenants[at].parent


def _context(session: Session, entry: Identity) -> dict[str, Any]:
    """The keys that are always there, and those of a delegation (iam.md §9).

    An access file knows no owners, agreements or session tags, and its tokens no time of issue: the keys that
    are lists or truths say so, `tokenIssueTime` and `authTime` stay absent rather than be made up.
    """
    known: dict[str, Any] = {
        "id": session.identity_id,
        "tenantId": session.tenant_id,
        "mfa": session.mfa,
        "kind": session.identity_kind,
        "owner": False,
        "rootAdmin": False,
        "sessionKind": session.session_kind,
        "sessionId": session.session_id,
        "impersonated": False,
        "groups": sorted(entry.groups),
        "roles": sorted(entry.roles),
        "agreements": [],
        "pendingAgreements": [],
        "sessionTagKeys": [],
        "delegated": session.session_kind == "delegated",
        "guest": False,
        "agentId": session.agent_id,
        "delegationId": session.delegation_id,
        "delegationChain": None if session.delegation_id is None else [session.delegation_id],
    }
    return {f"principal.{key}": value for key, value in known.items() if value is not None}
