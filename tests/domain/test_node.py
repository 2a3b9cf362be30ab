"""A node's axes: which provision moves are legal, and what each axis alone means for placement (domain.md §3)."""

from itertools import product
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from domain import errors, node, node_fold, provision, schedulability

STATES: tuple[provision.Provision, ...] = get_args(provision.Provision)
LEGAL = {
    ("adopting", "adopted"),
    ("adopting", "failed"),
    ("adopting", "retiring"),
    ("adopted", "retiring"),
    ("adopted", "failed"),
    ("adopted", "rescue"),
    ("enrolling", "inspecting"),
    ("enrolling", "failed"),
    ("enrolling", "retiring"),
    ("inspecting", "commissioning"),
    ("inspecting", "failed"),
    ("commissioning", "ready"),
    ("commissioning", "failed"),
    ("ready", "deploying"),
    ("ready", "inspecting"),
    ("ready", "retiring"),
    ("deploying", "deployed"),
    ("deploying", "failed"),
    ("deployed", "releasing"),
    ("deployed", "rescue"),
    ("deployed", "failed"),
    ("deployed", "retiring"),
    ("releasing", "ready"),
    ("releasing", "failed"),
    ("rescue", "deployed"),
    ("rescue", "adopted"),
    ("rescue", "failed"),
    ("failed", "inspecting"),
    ("failed", "adopting"),
    ("failed", "enrolling"),
    ("failed", "releasing"),
    ("failed", "retiring"),
    ("retiring", "retired"),
}
SCHEDULABLE = node.State(
    owner_tenant_id="platform",
    role="host",
    pool_id="pool_1",
    pool_owner_id="platform",
    provision_state="adopted",
    connectivity="connected",
    generation=1,
    observed_generation=1,
    created_at=1,
)


def condition(type_: str, **fields: Any) -> node.Condition:
    return node.Condition(type_, "Because", "in words", 5, **fields)


@pytest.mark.parametrize(("before", "to"), [move for move in product(STATES, STATES) if move in LEGAL])
def test_a_legal_move(before: provision.Provision, to: provision.Provision) -> None:
    state = replace(SCHEDULABLE, provision_state=before)
    moved = node.move(state, to, "why", 7)
    assert moved == node.Moved(to, "why", 7)
    assert node_fold.evolve(state, moved) == replace(state, provision_state=to, provision_since=7)


@pytest.mark.parametrize(("before", "to"), [move for move in product(STATES, STATES) if move not in LEGAL])
def test_an_illegal_move_is_refused_and_the_legal_ones_are_named(
    before: provision.Provision, to: provision.Provision
) -> None:
    with pytest.raises(errors.IllegalTransition) as refused:
        node.move(replace(SCHEDULABLE, provision_state=before), to, "why", 7)
    assert refused.value.extra["state"] == before
    assert set(refused.value.extra["allowed"]) == {end for begin, end in LEGAL if begin == before}


def test_a_node_with_nothing_against_it_is_schedulable() -> None:
    assert schedulability.unschedulable(SCHEDULABLE) == ()
    assert schedulability.unschedulable(replace(SCHEDULABLE, provision_state="deployed")) == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        *(({"provision_state": s}, "NotProvisioned") for s in STATES if s not in ("adopted", "deployed")),
        ({"role": "unassigned"}, "NotHost"),
        ({"role": "site"}, "NotHost"),
        ({"maintenance": (node.Stay("fan", 1),)}, "Maintenance"),
        ({"cordoned": "fan"}, "Cordoned"),
        *(({"connectivity": s}, "NotConnected") for s in ("disconnected", "unreachable", "lost")),
        ({"observed_generation": 0}, "SpecNotObserved"),
        ({"trust": "tenant-controlled"}, "NotTrusted"),
        ({"trust": "tenant-owned", "pool_owner_id": "acme"}, "NotTrusted"),
        *(({"conditions": (condition(type_),)}, type_) for type_ in sorted(schedulability.BLOCKING)),
    ],
)
def test_each_axis_alone_is_one_reason(fields: dict[str, Any], reason: str) -> None:
    assert schedulability.unschedulable(replace(SCHEDULABLE, **fields)) == (reason,)


@pytest.mark.parametrize("type_", ["GpuCountMismatch", "NodeUnreachable", "ClockSkew", "InventoryStale", "SpecDrift"])
def test_a_condition_that_informs_is_no_reason(type_: str) -> None:
    assert schedulability.unschedulable(replace(SCHEDULABLE, conditions=(condition(type_),))) == ()


def test_a_new_node_says_all_that_is_missing() -> None:
    assert schedulability.unschedulable(node.State()) == (
        "NotProvisioned",
        "NotHost",
        "NotConnected",
        "SpecNotObserved",
    )


def test_a_tenants_own_machine_is_trusted_in_its_owners_pool() -> None:
    assert schedulability.unschedulable(replace(SCHEDULABLE, trust="tenant-owned")) == ()


def test_a_condition_raised_again_replaces_the_one_before() -> None:
    state = node_fold.evolve(SCHEDULABLE, node.ConditionRaised(condition("DuplicateHardware", names=("node_1",))))
    again = condition("DuplicateHardware", names=("node_1", "node_2"))
    state = node_fold.evolve(state, node.ConditionRaised(again))
    assert state.conditions == (again,)
    assert node_fold.evolve(state, node.ConditionCleared("DuplicateHardware", 9)).conditions == ()


def test_a_condition_says_that_it_holds() -> None:
    assert condition("ClockSkew").status == "true"
