"""What must hold between the parts of an access file; each check raises Mistake with path and remedy."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from domain import catalog, roles
from domain.access import IdentityKind, TenantStatus

ID = re.compile(r"[^\s\x00-\x1f\x7f]{1,128}")
"""Tenant and identity ids are opaque, at most 128 printable characters (domain.md §1)."""

MAX_DEPTH = 8
"""Tenants above each other, the root included (iam.md §15)."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_INTERNAL_TYPES = ("iam", "role", "oauth-client", "scim", "saml", "ssf", "tenant", "identity", "session")
"""Better IAM's own types: legal in a document that is shared with it (iam.md §7)."""


class Mistake(Exception):
    """Something wrong at a path of the file, and what would be right."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class TenantEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """`[tenants.<id>]`."""

    parent: str | None = None
    status: TenantStatus = "active"
    type: str | None = None
    boundaries: tuple[str, ...] = ()


class Identity(Struct, frozen=True, forbid_unknown_fields=True):
    """`[identities.<id>]`: who may call, in one tenant."""

    tenant: str
    kind: IdentityKind = "user"
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    token_sha256: tuple[str, ...] = ()


class Delegation(Struct, frozen=True, forbid_unknown_fields=True):
    """`[delegations.<id>]`: an agent acts for a person, within both and the scope (iam.md §14)."""

    person: str
    agent: str
    scope: tuple[str, ...]
    token_sha256: tuple[str, ...] = ()


class Relationship(Struct, frozen=True, forbid_unknown_fields=True):
    """`[[relationships]]`: an identity or a group stands in a relation to one thing, in one tenant."""

    tenant: str
    relation: str
    type: str
    id: str
    identity: str | None = None
    group: str | None = None


def tree(tenants: Mapping[str, TenantEntry]) -> str:
    """The id of the one root; every other tenant must lead to it within the depth."""
    roots = [tenant for tenant, entry in tenants.items() if entry.parent is None]
    if len(roots) != 1:
        found = f"found {', '.join(roots)}" if roots else "found none"
        raise Mistake("tenants", f"exactly one tenant must have no parent, the platform itself; {found}")
    for tenant, entry in tenants.items():
        if "/" in tenant:
            raise Mistake(f"tenants.{tenant}", "must have no / in its name: the log names who acts as tenant/identity")
        if entry.parent is not None:
            name(f"tenants.{tenant}.parent", entry.parent, tenants, "tenant")
        if sum(1 for _ in ancestry(tenants, tenant)) > MAX_DEPTH:
            raise Mistake(f"tenants.{tenant}.parent", f"must lead to the root in less than {MAX_DEPTH} steps")
    return roots[0]


def ancestry(tenants: Mapping[str, TenantEntry], tenant: str) -> Iterator[str]:
    """The tenant and those above it, cut off just past the allowed depth so that a circle ends too."""
    at: str | None = tenant
    for _ in range(MAX_DEPTH + 1):
        if at is None or at not in tenants:
            return
        yield at
        at = tenants[at].parent


def name(path: str, used: str, known: Collection[str], noun: str) -> None:
    """A name used must be declared."""
    if used not in known:
        choice = f"known are {', '.join(sorted(known))}" if known else "none is declared"
        raise Mistake(path, f"there is no {noun} {used!r}; {choice}")


def names(path: str, used: Iterable[str], known: Collection[str], noun: str) -> None:
    """Every name of a list must be declared."""
    for index, one in enumerate(used):
        name(f"{path}[{index}]", one, known, noun)


def identities(
    entries: Mapping[str, Identity],
    tenants: Mapping[str, TenantEntry],
    root: str,
    held: Collection[str],
    boundaries: Collection[str],
) -> None:
    """Tenant, roles and boundaries of each identity exist, and the platform's roles stay in the platform."""
    for who, entry in entries.items():
        path = f"identities.{who}"
        name(f"{path}.tenant", entry.tenant, tenants, "tenant")
        names(f"{path}.roles", entry.roles, held, "role")
        names(f"{path}.boundaries", entry.boundaries, boundaries, "boundary")
        for index, role in enumerate(entry.roles):
            if role in roles.BY_NAME and roles.BY_NAME[role].root_only and entry.tenant != root:
                remedy = f"is for identities of {root}; in {entry.tenant} use one of the tenant- roles"
                raise Mistake(f"{path}.roles[{index}]", f"{role} acts on the fleet and {remedy}")


def delegations(entries: Mapping[str, Delegation], people: Mapping[str, Identity], boundaries: Collection[str]) -> None:
    """A delegation joins a person and an agent of one tenant, under at least one scope."""
    for delegation, entry in entries.items():
        path = f"delegations.{delegation}"
        names(f"{path}.scope", entry.scope, boundaries, "boundary")
        if not entry.scope:
            raise Mistake(f"{path}.scope", "must name at least one of [boundaries.<name>]")
        for field, who, kind in (("person", entry.person, "user"), ("agent", entry.agent, "agent")):
            if who not in people or people[who].kind != kind:
                raise Mistake(f"{path}.{field}", f"must be an identity of kind {kind}; {who!r} is none")
        if people[entry.person].tenant != people[entry.agent].tenant:
            raise Mistake(f"{path}.agent", "must be of the person's tenant")


def tokens(people: Mapping[str, Identity], given: Mapping[str, Delegation]) -> None:
    """Token hashes are lower-case SHA-256, and no two holders share one."""
    seen: dict[str, str] = {}
    holders: list[tuple[str, tuple[str, ...]]] = [
        *((f"identities.{who}", entry.token_sha256) for who, entry in people.items()),
        *((f"delegations.{which}", given_to.token_sha256) for which, given_to in given.items()),
    ]
    for holder, hashes in holders:
        for index, value in enumerate(hashes):
            at = f"{holder}.token_sha256[{index}]"
            if not _SHA256.fullmatch(value):
                raise Mistake(at, "must be a SHA-256 of the token: 64 hex digits in lower case")
            if value in seen:
                raise Mistake(at, f"is the same token as {seen[value]}; give every holder its own")
            seen[value] = at


def relationships(
    entries: Iterable[Relationship],
    tenants: Mapping[str, TenantEntry],
    people: Mapping[str, Identity],
) -> None:
    """Each names one holder of its tenant and a relation that the catalog declares for the type."""
    groups = {(entry.tenant, group) for entry in people.values() for group in entry.groups}
    for index, entry in enumerate(entries):
        path = f"relationships[{index}]"
        name(f"{path}.tenant", entry.tenant, tenants, "tenant")
        if (entry.identity is None) == (entry.group is None):
            raise Mistake(path, "must name either an identity or a group")
        if entry.identity is not None:
            holder = people.get(entry.identity)
            if holder is None or holder.tenant != entry.tenant:
                raise Mistake(f"{path}.identity", f"{entry.tenant} has no identity {entry.identity!r}")
        elif (entry.tenant, entry.group) not in groups:
            raise Mistake(f"{path}.group", f"no identity of {entry.tenant} is in the group {entry.group!r}")
        relation(path, entry)


def relation(path: str, entry: Relationship) -> None:
    """The catalog knows the type and declares the relation; the id is one that can be stored (iam.md §7)."""
    name(f"{path}.type", entry.type, catalog.BY_NAME, "type")
    declared = catalog.BY_NAME[entry.type].relations
    if entry.relation not in declared:
        choice = f"it has {', '.join(declared)}" if declared else "it has none"
        raise Mistake(f"{path}.relation", f"{entry.type} has no relation {entry.relation!r}; {choice}")
    if not ID.fullmatch(entry.id):
        raise Mistake(f"{path}.id", "must be 1 to 128 printable characters without spaces")


def vocabulary(path: str, document: Mapping[str, Any], actions: Collection[str] | None) -> None:
    """Exact action names and types must exist, so that a slip does not pass as a rule (iam.md §7)."""
    for index, statement in enumerate(document["statements"]):
        at = f"{path}.statements[{index}]"
        for number, action in enumerate(statement["actions"]):
            if actions is not None and not _wild(action) and action not in actions:
                raise Mistake(f"{at}.actions[{number}]", f"there is no action {action!r}")
        for number, resource in enumerate(statement["resources"]):
            kind = resource.partition("/")[0]
            if not _wild(kind) and kind not in catalog.BY_NAME and kind not in _INTERNAL_TYPES:
                known = ", ".join(sorted(catalog.BY_NAME))
                raise Mistake(f"{at}.resources[{number}]", f"there is no type {kind!r}; known are {known}")


def _wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern
