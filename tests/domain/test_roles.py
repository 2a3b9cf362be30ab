"""What each default role may and may not do (domain.md §10)."""

from typing import Any

import pytest

from domain import policy, roles


def actions(names: str) -> list[str]:
    return names.split()


READS = actions(
    "sites:list nodes:get pools:offers nodes:inventory nodes:spec nodes:devices nodes:history devices:list "
    "capacity:timeline reservations:list bookings:list quotas:get leases:list usage:list webhooks:deliveries "
    "projects:list projects:get events:stream iam:catalog reservations:preview"
)
AUDIT = actions("audit:events audit:stream audit:state audit:verify audit:export audit:checkpoint")
OPERATION = actions(
    "sites:create pools:create pools:update pools:retire pools:evict nodes:assign nodes:label nodes:cordon "
    "nodes:uncordon nodes:drain nodes:maintain nodes:fence nodes:adopt nodes:inspect nodes:commission "
    "nodes:deploy nodes:release nodes:rescue nodes:retire nodes:power commands:issue commands:cancel"
)
USE = actions(
    "reservations:create reservations:confirm reservations:renew reservations:extend "
    "reservations:release reservations:cancel instances:create instances:start instances:stop "
    "instances:delete"
)
ADMINISTRATION = actions(
    "pools:offer pools:withdraw quotas:set budgets:set joinTokens:create joinTokens:revoke imageSigners:set "
    "images:sign projects:create projects:archive webhooks:create profiles:create providerAccounts:create "
    "providers:sync"
)
EVERYTHING = {*READS, *AUDIT, *OPERATION, *USE, *ADMINISTRATION}

MAY = {
    "platform-admin": EVERYTHING,
    "platform-operator": {*READS, *OPERATION},
    "auditor": {*READS, *AUDIT},
    "tenant-admin": EVERYTHING,
    "tenant-user": {*READS, *USE},
    "tenant-auditor": {*READS, *AUDIT},
}


def allowed(role: str, action: str, resource: str, **context: Any) -> bool:
    return policy.evaluate(f"compute:{action}", resource, [roles.COMPILED[role]], (), context).allowed


def resource_of(action: str) -> str:
    group = action.split(":")[0]
    own = group in ("reservations", "instances")
    return f"compute-{group.rstrip('s')}/x_1" if own else "compute-pool/pool_1"


def test_the_six_roles_are_the_domains() -> None:
    assert set(roles.BY_NAME) == set(MAY)


@pytest.mark.parametrize("action", sorted(EVERYTHING))
@pytest.mark.parametrize("role", sorted(MAY))
def test_a_role_may_do_what_its_line_says_and_nothing_else(role: str, action: str) -> None:
    assert allowed(role, action, resource_of(action)) is (action in MAY[role])


@pytest.mark.parametrize("role", roles.DEFAULTS, ids=lambda role: role.name)
def test_every_document_is_valid_and_speaks_of_compute_alone(role: roles.Role) -> None:
    policy.validate(role.document)
    for statement in role.document["statements"]:
        assert statement["effect"] == "allow"
        assert all(action.startswith("compute:") for action in statement["actions"])
        assert all(resource.startswith("compute-") for resource in statement["resources"])


def test_no_read_verb_changes_anything() -> None:
    changing = {action.split(":")[1] for action in (*OPERATION, *USE, *ADMINISTRATION)}
    assert changing.isdisjoint({*roles.READ_VERBS, *roles.AUDIT_VERBS})


def test_the_platforms_roles_are_marked_as_its_own() -> None:
    marked = {role.name for role in roles.DEFAULTS if role.root_only}
    assert marked == {"platform-admin", "platform-operator", "auditor"}


@pytest.mark.parametrize(("owner", "may"), [("alice", True), ("bob", False)])
def test_own_means_the_callers_where_the_owner_is_known(owner: str, may: bool) -> None:
    context = {"principal.id": "alice", "resource.ownerId": owner}
    assert allowed("tenant-user", "reservations:cancel", "compute-reservation/rsv_1", **context) is may
    assert allowed("tenant-user", "reservations:get", "compute-reservation/rsv_1", **context) is may
    assert allowed("tenant-auditor", "reservations:get", "compute-reservation/rsv_1", **context)
