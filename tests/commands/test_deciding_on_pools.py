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
        ({"policy": pool.Policy(tenant_root=True)}, "policy.tenantRoot"),
    ],
)
def test_what_a_pool_cannot_be_is_refused_by_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        pools.build(create(**fields), PLACE, 7)
    assert refused.value.field == field


def test_an_update_changes_what_differs_and_asking_twice_nothing() -> None:
    state = pool.evolve(pool.State(), pools.build(create(), PLACE, 7))
    policy = pool.Policy(bind_timeout=10)
    events = pools.change(pools.Update(id="pool_1", name="p2", policy=policy), state)
    assert events == [pool.Renamed("p2", "p1", "platform"), pool.PolicyChanged(policy)]
    for event in events:
        state = pool.evolve(state, event)
    assert pools.change(pools.Update(id="pool_1", name="p2", policy=policy), state) == []
    assert pools.change(pools.Update(id="pool_1"), state) == []


def test_a_pools_partitioning_does_not_change_under_its_nodes() -> None:
    mig = create(sharing="mig", policy=pool.Policy(mig_layout=LAYOUT))
    state = pool.evolve(pool.State(), pools.build(mig, PLACE, 7))
    with pytest.raises(errors.Conflict):
        pools.change(pools.Update(id="pool_1", policy=pool.Policy(mig_layout=LAYOUT[:1])), state)
    retired = pool.evolve(state, pool.Retired("p1", "platform", 8))
    with pytest.raises(errors.IllegalTransition):
        pools.change(pools.Update(id="pool_1", name="p2"), retired)


def test_the_same_offer_again_changes_nothing() -> None:
    state = offering.State(pool_id="pool_1", tenant_id="acme", quota={"gpu": 8})
    same = offerings.Offer(id="pool_1", tenant_id="acme", quota={"gpu": 8})
    assert offerings.change(same, state) == []
    more = offerings.Offer(id="pool_1", tenant_id="acme", quota={"gpu": 9}, priority=1)
    assert offerings.change(more, state) == [offering.Changed({"gpu": 9}, 1, False)]
