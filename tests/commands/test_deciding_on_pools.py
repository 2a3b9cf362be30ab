"""What a pool can be, and what of it can change."""

from typing import Any

import pytest

from commands import offerings, pools
from domain import errors, offering, pool, site
from given import SEVEN

PLACE = site.State(owner_tenant_id="platform", iam_region="eu-north")
LAYOUT = tuple(pool.Slice(**piece) for piece in SEVEN)


def create(**fields: Any) -> pools.Create:
    whole = {"name": "p1", "site_id": "site_1", "class_": "metal-host", "gpu_model": "A100", "gpu_memory_gb": 80}
    return pools.Create(**whole | fields)


def test_a_pool_lies_in_its_sites_region_and_belongs_to_its_owner() -> None:
    made = pools.build(create(), PLACE, 7)
    assert (made.region, made.owner_tenant_id, made.at) == ("eu-north", "platform", 7)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "P1"}, "name"),
        ({"gpu_model": "A1000"}, "gpuModel"),
        ({"agent": "none"}, "agent"),
        ({"class_": "provider"}, "providerAccountId"),
        ({"provider_account_id": "pacct_1"}, "providerAccountId"),
        ({"sharing": "mig"}, "policy.migLayout"),
        ({"policy": pool.Policy(mig_layout=LAYOUT)}, "policy.migLayout"),
        ({"sharing": "mig", "policy": pool.Policy(mig_layout=(*LAYOUT, LAYOUT[0]))}, "policy.migLayout[7]"),
        ({"sharing": "mps"}, "policy.sharing.replicas"),
        ({"policy": pool.Policy(sharing=pool.SharingPolicy(2))}, "policy.sharing.replicas"),
        ({"class_": "metal-dedicated", "policy": pool.Policy(tenant_root=True)}, "policy.tenantRoot"),
    ],
)
def test_what_a_pool_cannot_be_is_refused_by_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        pools.build(create(**fields), PLACE, 7)
    assert refused.value.field == field


def test_an_update_changes_what_differs_and_asking_twice_nothing() -> None:
    state = pool.evolve(pool.State(), pools.build(create(), PLACE, 7))
    policy = pool.Policy(bind_timeout=10)
    events = pools.change(pools.Update(id="pool_1", name="p2", policy=policy), state, ["node_1"])
    assert events == [pool.Renamed("p2", "p1", "platform"), pool.PolicyChanged(policy)]
    for event in events:
        state = pool.evolve(state, event)
    assert pools.change(pools.Update(id="pool_1", name="p2", policy=policy), state, ["node_1"]) == []
    assert pools.change(pools.Update(id="pool_1"), state, ["node_1"]) == []


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (pool.Policy(admission=pool.Admission("confirm")), "admission.budgetCheck"),
        (pool.Policy(hardware_profile="a100-8"), "hardwareProfile"),
        (pool.Policy(tenant_root=True), "tenantRoot"),
    ],
)
@pytest.mark.parametrize("class_", ["metal-host", "metal-dedicated"])
def test_what_nothing_acts_on_yet_is_refused_of_a_new_pool_and_of_an_old_one(
    class_: pool.Class, policy: pool.Policy, field: str
) -> None:
    state = pool.evolve(pool.State(), pools.build(create(class_=class_), PLACE, 7))
    with pytest.raises(errors.Invalid, match="is not built yet") as made:
        pools.build(create(class_=class_, policy=policy), PLACE, 7)
    with pytest.raises(errors.Invalid, match="is not built yet") as changed:
        pools.change(pools.Update(id="pool_1", policy=policy), state, [])
    assert made.value.field == changed.value.field == f"policy.{field}"


@pytest.mark.parametrize(
    ("sharing", "before", "after"),
    [
        ("mig", pool.Policy(mig_layout=LAYOUT), pool.Policy(mig_layout=LAYOUT[:1])),
        ("mps", pool.Policy(sharing=pool.SharingPolicy(2)), pool.Policy(sharing=pool.SharingPolicy(4))),
    ],
)
def test_a_pool_is_cut_up_anew_and_its_nodes_with_it(sharing: str, before: Any, after: Any) -> None:
    state = pool.evolve(pool.State(), pools.build(create(sharing=sharing, policy=before), PLACE, 7))
    assert pools.change(pools.Update(id="pool_1", policy=after), state, ["node_1"]) == [pool.PolicyChanged(after)]
    assert pool.cut(after) != pool.cut(before)


def test_the_same_layout_in_another_order_cuts_nothing() -> None:
    assert pool.cut(pool.Policy(mig_layout=LAYOUT)) == pool.cut(pool.Policy(mig_layout=LAYOUT[::-1]))


def test_a_pools_overcommit_changes_only_while_it_has_no_nodes() -> None:
    """What a node can sell is computed at its inventory: another ratio would reach it at some later time."""
    state = pool.evolve(pool.State(), pools.build(create(), PLACE, 7))
    more = pools.Update(id="pool_1", policy=pool.Policy(overcommit=pool.Overcommit(vcpu=2.0)))
    assert pools.change(more, state, []) == [pool.PolicyChanged(more.policy)]
    with pytest.raises(errors.Conflict, match="overcommit"):
        pools.change(more, state, ["node_1"])


def test_nothing_changes_of_a_retired_pool() -> None:
    state = pool.evolve(pool.State(), pools.build(create(), PLACE, 7))
    retired = pool.evolve(state, pool.Retired("p1", "platform", 8))
    with pytest.raises(errors.IllegalTransition):
        pools.change(pools.Update(id="pool_1", name="p2"), retired, [])


def test_the_same_offer_again_changes_nothing() -> None:
    state = offering.State(pool_id="pool_1", tenant_id="acme", quota={"gpu": 8})
    same = offerings.Offer(id="pool_1", tenant_id="acme", quota={"gpu": 8})
    assert offerings.change(same, state) == []
    more = offerings.Offer(id="pool_1", tenant_id="acme", quota={"gpu": 9}, priority=1)
    assert offerings.change(more, state) == [offering.Changed({"gpu": 9}, 1, False)]


@pytest.mark.parametrize(
    ("policy", "field", "right"),
    [
        (pool.Policy(acceptance=("gpus-present", "burn-in")), "policy.acceptance[1]", "known: gpus-present"),
        (pool.Policy(lost_after=9), "policy.lostAfter", "at least 10 seconds"),
    ],
)
def test_a_policy_that_no_watcher_or_agent_could_keep_is_refused(policy: pool.Policy, field: str, right: str) -> None:
    with pytest.raises(errors.Invalid, match=right) as refused:
        pools.build(create(policy=policy), PLACE, 7)
    assert refused.value.field == field
