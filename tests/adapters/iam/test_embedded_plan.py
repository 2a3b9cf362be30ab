"""What the embedded directory plans is what it decides on every thing."""

from itertools import product
from pathlib import Path

import pytest
from test_embedded_access import ALICE, BOB, DELEGATED, FILE, ROBOT, ROOT, Clock, caller, draft

from adapters.iam import embedded
from domain import access
from domain.access import Attribute, Plan, Resource, Session
from domain.policy import filters, matching

ACTIONS = ("compute:reservations:get", "compute:reservations:create", "compute:pools:get", "compute:sites:create")
MORE = """
[[roles.pool-user.statements]]
effect = "allow"
actions = ["compute:pools:get"]
resources = ["compute-pool/*"]
[roles.pool-user.statements.conditions.ArrayContains]
"resource.relations" = ["user", "viewer"]
[[roles.pool-user.statements]]
effect = "allow"
actions = ["compute:nodes:get"]
resources = ["compute-node/*"]
[roles.pool-user.statements.conditions.StringEquals]
"resource.dedicatedTo" = "${resource.region}"

[[relationships]]
tenant = "acme"
identity = "alice"
relation = "viewer"
type = "compute-pool"
id = "pool_3"
[[relationships]]
tenant = "lab"
identity = "bob"
relation = "viewer"
type = "compute-pool"
id = "pool_2"

"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(FILE.replace("[boundaries.small]", MORE + "[boundaries.small]"))
    return path


@pytest.fixture
def authorizer(path: Path, clock: Clock) -> embedded.Embedded:
    actions = {*ACTIONS, "compute:nodes:get"}
    return embedded.Embedded(path, actions=actions, clock=clock.wall, monotonic=clock.monotonic)


def things(tenant: str) -> list[Resource]:
    attributes: list[dict[str, Attribute]] = [{}, {"gpuCount": 9}, {"durationHours": 9, "ownerId": "alice"}]
    of_pools = [Resource("compute-pool", f"pool_{n}", tenant, one) for n, one in product((1, 2, 3), attributes)]
    scopes = [
        Resource("compute-fleet", "global", tenant, {}),
        Resource("compute-fleet", "other", tenant, {}),
        *(Resource("compute-tenant", id, tenant, {}) for id in ("platform", "acme", "lab")),
        Resource("something-else", "x", tenant, {}),
    ]
    drafts = [draft(tenant, pool, **one) for pool, one in product(("pool_1", "pool_2"), attributes)]
    return [*of_pools, *scopes, *drafts, Resource("compute-reservation", "rsv_2", tenant, {"gpuCount": 1})]


def plans(authorizer: embedded.Embedded, session: Session, action: str, thing: Resource) -> bool:
    plan = authorizer.plan(session, action, thing.type)
    assert plan.kind != "unsupported"
    return plan.kind == "always" or (plan.filter is not None and matching.matches(plan.filter, access.row(thing)))


@pytest.mark.parametrize("token", [ALICE, BOB, ROOT, DELEGATED, ROBOT])
def test_every_thing_is_planned_as_it_is_decided(authorizer: embedded.Embedded, clock: Clock, token: str) -> None:
    session = caller(authorizer, token)
    for _ in range(2):
        for action, thing in product((*ACTIONS, "compute:sites:explode"), things(session.tenant_id)):
            decided = authorizer.authorize(session, action, thing)
            assert plans(authorizer, session, action, thing) is decided.allowed, (action, thing)
        clock.moment += 3_600_000 * 24


def test_a_plan_is_worked_out_once_for_a_file_where_no_policy_looks_at_the_clock(
    authorizer: embedded.Embedded, path: Path, clock: Clock
) -> None:
    def planned(token: str) -> Plan:
        return authorizer.plan(caller(authorizer, token), "compute:pools:get", "compute-pool")

    before = planned(ALICE)
    assert before == Plan("conditional", filters.Equals("id", ("pool_1", "pool_3")))
    assert planned(ALICE) is before
    assert planned(BOB).kind == "always"
    clock.moment += 3_600_000 * 12
    assert planned(BOB).kind == "never", "his boundary ends with the year"
    path.write_text(path.read_text().replace('"pool_3"', '"pool_4"'))
    assert authorizer.reload()
    assert planned(ALICE) == Plan("conditional", filters.Equals("id", ("pool_1", "pool_4")))


def test_whoever_may_nothing_at_all_is_planned_nothing(authorizer: embedded.Embedded, path: Path) -> None:
    alice, bob = caller(authorizer, ALICE), caller(authorizer, BOB)
    path.write_text(path.read_text().replace("[tenants.acme]", '[tenants.acme]\nstatus = "suspended"'))
    assert authorizer.reload()
    for session in (alice, bob, Session("platform", "root", "user", "made-up", "api-key", root_tenant=True)):
        assert authorizer.plan(session, "compute:pools:get", "compute-pool") == Plan("never")


def test_what_compares_attributes_with_each_other_is_asked_of_each_thing(authorizer: embedded.Embedded) -> None:
    session = caller(authorizer, ALICE)
    assert authorizer.plan(session, "compute:nodes:get", "compute-node") == Plan("unsupported")
    alike: dict[str, Attribute] = {"dedicatedTo": "eu", "region": "eu"}
    nodes = [Resource("compute-node", f"node_{n}", "acme", one) for n, one in enumerate((alike, {"region": "eu"}))]
    assert list(authorizer.allowed(session, [("compute:nodes:get", one) for one in nodes])) == [True, False]
