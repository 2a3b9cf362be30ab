"""The roles that come with the product, as policy documents (domain.md §10).

They name only `compute:` actions and `compute-` types, so that a Better IAM host can load them as they are
without giving away anything of its own. None has a deny: a deny in one role would reach into every other role
that the same identity holds (iam.md §6, step 8).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from domain import catalog, policy

Document = Mapping[str, Any]

READ_VERBS: tuple[str, ...] = (
    "list",
    "get",
    "timeline",
    "states",
    "map",
    "count",
    "inventory",
    "spec",
    "devices",
    "history",
    "offers",
    "deliveries",
    "types",
    "catalog",
    "preview",
)
"""Verbs that only look, in whichever group; the group `events` and the audit add their own below."""

AUDIT_VERBS: tuple[str, ...] = ("list", "get", "events", "stream", "state", "verify", "export", "checkpoint")
"""Verbs of the group `audit`: all of them look."""

OPERATOR_VERBS: Mapping[str, tuple[str, ...]] = {
    "sites": ("create", "update"),
    "pools": ("create", "update", "retire", "evict"),
    "nodes": (
        "assign",
        "label",
        "cordon",
        "uncordon",
        "drain",
        "maintain",
        "fence",
        "settle",
        "adopt",
        "inspect",
        "commission",
        "deploy",
        "release",
        "rescue",
        "retire",
        "power",
    ),
    "devices": ("*",),
    "commands": ("issue", "cancel"),
    "capacity": ("*",),
    "leases": ("proceed",),
    "workflows": ("hold", "resume", "retry", "cancel"),
}
"""What runs the fleet; offers, quotas, join tokens and image signers stay with the administrator."""

USER_VERBS: Mapping[str, tuple[str, ...]] = {
    "reservations": ("create", "confirm", "renew", "extend", "release", "cancel"),
    "instances": ("create", "start", "stop", "reboot", "resize", "delete", "console"),
}
"""What a member of a tenant does with its own reservations and instances."""

OWNED: tuple[str, ...] = ("reservation", "instance")
"""Types of which a plain member of a tenant sees and ends its own alone."""

_SHARED: tuple[str, ...] = tuple(
    short for entry in catalog.TYPES if (short := entry.name.removeprefix(catalog.PREFIX)) not in OWNED
)
_ANYTHING = f"{catalog.PREFIX}*/*"


class Role(Struct, frozen=True):
    """A named policy; `root_only` marks those that make sense in the platform's own tenant alone."""

    name: str
    description: str
    document: Document
    root_only: bool = False


def _actions(verbs: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"compute:{group}:{verb}" for group, names in verbs.items() for verb in names]


_READ = [*_actions({"*": READ_VERBS}), "compute:events:stream"]
_AUDIT = _actions({"audit": AUDIT_VERBS})


def _allow(sid: str, actions: list[str], *types: str, **conditions: Mapping[str, Any]) -> Document:
    resources = [f"{catalog.PREFIX}{name}/*" for name in types] or [_ANYTHING]
    statement: dict[str, Any] = {"sid": sid, "effect": "allow", "actions": actions, "resources": resources}
    return {**statement, "conditions": conditions} if conditions else statement


def _document(*statements: Document) -> Document:
    return {"version": 1, "statements": list(statements)}


def _own() -> tuple[Document, ...]:
    """A tenant's reservations and instances, narrowed to the caller's own where the resource names its owner.

    Two allows instead of one deny for others', for the reason above.
    """
    types = OWNED
    actions = [*_READ, *_actions(USER_VERBS)]
    return (
        _allow("unowned", actions, *types, Exists={"resource.ownerId": False}),
        _allow("own", actions, *types, StringEquals={"resource.ownerId": "${principal.id}"}),
    )


DEFAULTS: tuple[Role, ...] = (
    Role(
        "platform-admin",
        "everything, in the platform's tenant",
        _document(_allow("all", ["compute:*"])),
        root_only=True,
    ),
    Role(
        "platform-operator",
        "runs sites, pools, nodes, devices and commands",
        _document(_allow("read", _READ), _allow("operate", _actions(OPERATOR_VERBS))),
        root_only=True,
    ),
    Role(
        "auditor",
        "reads everything of the fleet and proves its log",
        _document(_allow("read", _READ), _allow("audit", _AUDIT)),
        root_only=True,
    ),
    Role("tenant-admin", "everything in its tenant", _document(_allow("all", ["compute:*"]))),
    Role(
        "tenant-user",
        "reads, and has reservations and instances of its own",
        _document(_allow("read", _READ, *_SHARED), *_own()),
    ),
    Role(
        "tenant-auditor",
        "reads everything of its tenant and proves its log",
        _document(_allow("read", _READ), _allow("audit", _AUDIT)),
    ),
)

BY_NAME: Mapping[str, Role] = {role.name: role for role in DEFAULTS}

COMPILED: Mapping[str, policy.Compiled] = {role.name: policy.validate(role.document) for role in DEFAULTS}
