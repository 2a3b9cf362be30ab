"""Sentences of iam.md §6-§9, §14 and §15 that the embedded directory holds, one test each."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.iam import access_file, embedded, tokens
from domain.access import Attribute, Resource

BASE = """\
[tenants.platform]
[tenants.acme]
parent = "platform"
[tenants.lab]
parent = "acme"
[tenants.cell]
parent = "lab"

[identities.alice]
tenant = "acme"
roles = ["own"]
groups = ["hpc", "ml"]
token_sha256 = ["{alice}"]
[identities.robot]
tenant = "acme"
kind = "agent"
token_sha256 = ["{robot}"]
[identities.celia]
tenant = "cell"
roles = ["tenant-admin"]
token_sha256 = ["{celia}"]
[delegations.errand]
person = "alice"
agent = "robot"
scope = ["any"]
token_sha256 = ["{errand}"]

[boundaries.any]
version = 1
statements = [{{ effect = "allow", actions = ["*"], resources = ["*"] }}]
[boundaries.none]
version = 1
statements = []
""".format(**{name: tokens.digest(name) for name in ("alice", "robot", "celia", "errand")})
ACTIONS = frozenset({"compute:pools:get", "compute:pools:update"})
Make = Callable[..., embedded.Embedded]


def role(*statements: str, name: str = "own") -> str:
    return f"[roles.{name}]\nversion = 1\nstatements = [{', '.join(statements)}]\n"


def allow(conditions: str = "", effect: str = "allow", actions: str = '["*"]') -> str:
    also = f", conditions = {{ {conditions} }}" if conditions else ""
    return f'{{ effect = "{effect}", actions = {actions}, resources = ["*"]{also} }}'


ALL = role(allow())


@pytest.fixture
def make(tmp_path: Path) -> Make:
    path = tmp_path / "access.toml"

    def of(more: str = ALL, *changes: tuple[str, str]) -> embedded.Embedded:
        text = BASE + more
        for good, bad in changes:
            assert good in text, good
            text = text.replace(good, bad, 1)
        path.write_text(text)
        return embedded.Embedded(path, actions=ACTIONS)

    return of


def pool(tenant: str = "acme", id: str = "pool_1", **attributes: Attribute) -> Resource:
    return Resource("compute-pool", id, tenant, attributes)


def reason(of: embedded.Embedded, who: str, what: Resource | None = None, action: str = "compute:pools:get") -> str:
    session = of.identify(who)
    assert session is not None
    return of.authorize(session, action, what or pool()).reason


def test_refusals_come_in_the_servers_order(make: Make) -> None:
    """§6: inactive tenant, then another tenant's thing, then an unknown action, then what does not resolve."""
    of = make()
    nothing = Resource("compute-tenant", "lab", "acme", {})
    assert reason(of, "alice", nothing, "compute:pools:explode") == "UNKNOWN_ACTION"
    assert reason(of, "alice", pool("lab"), "compute:pools:explode") == "TENANT_MISMATCH"
    assert reason(of, "alice", nothing) == "RESOURCE_MISMATCH"
    asleep = make(ALL, ("[tenants.acme]", '[tenants.acme]\nstatus = "suspended"'))
    assert reason(asleep, "alice", pool("lab"), "compute:pools:explode") == "TENANT_INACTIVE"


def test_a_deny_in_one_role_reaches_into_every_other(make: Make) -> None:
    """§6, step 8."""
    more = ALL + role(allow(effect="deny", actions='["compute:pools:update"]'), name="careful")
    of = make(more, ('roles = ["own"]', 'roles = ["own", "careful", "tenant-admin"]'))
    assert reason(of, "alice") == "allowed"
    assert reason(of, "alice", action="compute:pools:update") == "explicit-deny"


@pytest.mark.parametrize("status", ["pending", "suspended", "deleted"])
@pytest.mark.parametrize("above", ["platform", "acme", "lab", "cell"])
def test_a_tenant_is_usable_only_while_it_and_all_above_it_are_active(make: Make, above: str, status: str) -> None:
    """§15."""
    of = make(ALL, (f"[tenants.{above}]", f'[tenants.{above}]\nstatus = "{status}"'))
    assert reason(of, "celia", pool("cell")) == "TENANT_INACTIVE"


@pytest.mark.parametrize(
    ("above", "celia"), [("platform", "boundary-deny"), ("lab", "boundary-deny"), (None, "allowed")]
)
def test_boundaries_of_ancestors_apply_downwards_and_only_there(make: Make, above: str | None, celia: str) -> None:
    """§15."""
    change = [(f"[tenants.{above}]", f'[tenants.{above}]\nboundaries = ["none"]')] if above else []
    of = make(ALL, *change)
    assert reason(of, "celia", pool("cell")) == celia
    assert reason(of, "alice") == ("boundary-deny" if above == "platform" else "allowed")


def test_a_parents_members_have_nothing_in_its_children(make: Make) -> None:
    """§15."""
    assert reason(make(), "alice", pool("lab")) == "TENANT_MISMATCH"


@pytest.mark.parametrize(
    ("bounded", "errand", "robot", "alice"),
    [
        (('scope = ["any"]', 'scope = ["any", "none"]'), "boundary-deny", "no-grant", "allowed"),
        (('kind = "agent"', 'kind = "agent"\nboundaries = ["none"]'), "boundary-deny", "no-grant", "allowed"),
        (('roles = ["own"]', 'roles = ["own"]\nboundaries = ["none"]'), "boundary-deny", "no-grant", "boundary-deny"),
        (('roles = ["own"]', "roles = []"), "no-grant", "no-grant", "no-grant"),
        (('kind = "agent"', 'kind = "agent"\nroles = ["own"]'), "allowed", "allowed", "allowed"),
    ],
)
def test_what_a_delegated_session_may_is_the_meeting_of_person_scope_and_agent(
    make: Make, bounded: tuple[str, str], errand: str, robot: str, alice: str
) -> None:
    """§14: access = person and scope and the agent's boundary; the agent's own roles add nothing."""
    of = make(ALL, bounded)
    assert (reason(of, "errand"), reason(of, "robot"), reason(of, "alice")) == (errand, robot, alice)


def test_what_an_agent_may_by_itself_a_delegation_does_not_add(make: Make) -> None:
    of = make(ALL, ('roles = ["own"]', "roles = []"), ('kind = "agent"', 'kind = "agent"\nroles = ["own"]'))
    assert (reason(of, "robot"), reason(of, "errand")) == ("allowed", "no-grant")


def test_a_delegated_session_ends_with_its_delegation(make: Make, tmp_path: Path) -> None:
    """§14: it is checked anew on each use."""
    of = make()
    session = of.identify("errand")
    assert session is not None
    path = tmp_path / "access.toml"
    path.write_text(path.read_text().replace(f'token_sha256 = ["{tokens.digest("errand")}"]\n', ""))
    assert of.reload()
    assert of.identify("errand") is None
    assert of.authorize(session, "compute:pools:get", pool()).reason == "UNAUTHENTICATED"


RELATED = """
[[relationships]]
tenant = "acme"
{holder}
relation = "{relation}"
type = "compute-pool"
id = "{id}"
"""
USES = role(allow('ArrayContains = { "resource.relations" = "user" }'))


def related(holder: str = 'identity = "alice"', relation: str = "user", id: str = "pool_1") -> str:
    return RELATED.format(holder=holder, relation=relation, id=id)


def test_relations_are_held_directly_or_through_a_group_and_by_nobody_else(make: Make) -> None:
    """§7."""
    assert reason(make(USES), "alice") == "no-grant"
    for holder in ('identity = "alice"', 'group = "hpc"'):
        of = make(USES + related(holder))
        assert reason(of, "alice") == "allowed"
        assert reason(of, "alice", pool(id="pool_2")) == "no-grant"
        assert reason(of, "errand") == "allowed", "the person's relations are the agent's"
    assert reason(make(USES + related('identity = "robot"')), "alice") == "no-grant"
    assert reason(make(USES + related('identity = "robot"')), "errand") == "no-grant"


def test_relations_are_sorted_and_none_is_an_empty_list(make: Make) -> None:
    """§7."""
    of = make(role(allow('Exists = { "resource.relations" = true, "resource.parentRelations" = true }')))
    assert reason(of, "alice") == "allowed"
    of = make(ALL + related(relation="user") + related(relation="admin") + related('group = "hpc"', "viewer"))
    principal = of._directory.by_token[tokens.digest("alice")]
    assert of._directory.relations(principal, "acme", "compute-pool", "pool_1") == ["admin", "user", "viewer"]
    assert of._directory.relations(principal, "acme", "compute-pool", "pool_9") == []


def test_relations_are_of_the_tenant_that_decides(make: Make) -> None:
    """§7: a pool that is offered to another tenant needs relations there, for its members."""
    lab = RELATED.format(holder='identity = "celia"', relation="user", id="pool_1").replace('"acme"', '"cell"')
    of = make(USES + related('group = "hpc"') + lab, ('roles = ["tenant-admin"]', 'roles = ["own"]'))
    assert reason(of, "celia", pool("cell")) == "allowed"
    assert reason(make(USES + lab), "alice") == "no-grant"


def test_a_parents_relations_reach_one_level(make: Make) -> None:
    """§7: through parentType and parentId alone."""
    of = make(role(allow('ArrayContains = { "resource.parentRelations" = "user" }')) + related())
    node = Resource("compute-node", "node_1", "acme", {}, "compute-pool", "pool_1")
    assert reason(of, "alice", node) == "allowed"
    assert reason(of, "alice", Resource("compute-node", "node_1", "acme", {}, "compute-pool", "pool_2")) == "no-grant"
    assert reason(of, "alice", Resource("compute-node", "node_1", "acme", {})) == "no-grant"
    assert reason(of, "alice") == "no-grant", "the pool itself has no parent"


ALWAYS = ["id", "tenantId", "mfa", "kind", "owner", "rootAdmin", "sessionKind", "impersonated", "groups", "roles"]
ALWAYS += ["agreements", "pendingAgreements", "sessionId", "sessionTagKeys", "delegated", "guest"]


def test_the_keys_that_are_always_there_are_there_for_everyone(make: Make) -> None:
    """§9, but for tokenIssueTime and authTime: a hash in a file has neither."""
    keys = [f"principal.{key}" for key in ALWAYS]
    keys += ["request.time", "resource.tenantId", "resource.relations", "resource.parentRelations"]
    exists = ", ".join(f'"{key}" = true' for key in keys)
    never = (
        '"resource.type" = false, "resource.id" = false, "principal.email" = false, "principal.tokenIssueTime" = false'
    )
    of = make(role(allow(f"Exists = {{ {exists}, {never} }}")), ('roles = ["tenant-admin"]', 'roles = ["own"]'))
    assert (reason(of, "alice"), reason(of, "errand"), reason(of, "celia", pool("cell"))) == ("allowed",) * 3


@pytest.mark.parametrize(
    ("who", "key", "value"),
    [
        ("alice", "principal.id", "alice"),
        ("alice", "principal.tenantId", "acme"),
        ("alice", "principal.kind", "user"),
        ("alice", "principal.sessionKind", "api-key"),
        ("alice", "principal.delegated", False),
        ("alice", "principal.mfa", False),
        ("alice", "principal.sessionId", f"api-key:{tokens.digest('alice')[:16]}"),
        ("errand", "principal.id", "alice"),
        ("errand", "principal.kind", "user"),
        ("errand", "principal.sessionKind", "delegated"),
        ("errand", "principal.delegated", True),
        ("errand", "principal.agentId", "robot"),
        ("errand", "principal.delegationId", "errand"),
        ("errand", "principal.rootAdmin", False),
        ("alice", "resource.tenantId", "acme"),
    ],
)
def test_a_key_has_its_value(make: Make, who: str, key: str, value: str | bool) -> None:
    """§9, §14."""
    operator = "Bool" if isinstance(value, bool) else "StringEquals"
    of = make(role(allow(f'{operator} = {{ "{key}" = {json.dumps(value)} }}')))
    assert reason(of, who, pool(tenantId="platform", relations="user")) == "allowed"


@pytest.mark.parametrize(
    ("key", "has"), [("groups", "hpc"), ("groups", "ml"), ("roles", "own"), ("delegationChain", "errand")]
)
def test_a_list_has_its_members(make: Make, key: str, has: str) -> None:
    of = make(role(allow(f'ArrayContains = {{ "principal.{key}" = "{has}" }}')))
    assert reason(of, "errand") == "allowed"


def test_attributes_cannot_pass_for_what_the_server_says(make: Make) -> None:
    """§8, rule 3: not tenantId, relations or parentRelations."""
    forged = pool(tenantId="platform", relations=["user"], parentRelations=["user"])
    assert reason(make(USES), "alice", forged) == "no-grant"
    of = make(role(allow('StringEquals = { "resource.tenantId" = "platform" }')))
    assert reason(of, "alice", forged) == "no-grant"


def test_the_tree_is_eight_deep_at_most(make: Make) -> None:
    """§15."""
    deeper = "".join(f'[tenants.t{n}]\nparent = "{f"t{n - 1}" if n > 5 else "cell"}"\n' for n in range(5, 9))
    assert make(ALL + deeper).digest
    with pytest.raises(access_file.AccessFileError, match=r"tenants\.t9\.parent: must lead to the root"):
        make(ALL + deeper + '[tenants.t9]\nparent = "t8"\n')
