"""What may be done to a node: given its events, when a command comes, then events or a refusal."""

from typing import Any

import pytest

from commands import node_provision, node_service, nodes
from domain import errors, node, node_fold, provision, registry, schedulability

NOW = 1_000
JOINED = node.Joined(
    name="n1",
    site_id="site_1",
    owner_tenant_id="platform",
    region="eu",
    role="unassigned",
    trust="platform",
    public_key="",
    join_token_id="jt_1",
    labels={},
    at=1,
)
ASSIGNED = node.Assigned("host", "pool_1", "platform")
CONNECTED = node.ConnectivityChanged("connected", 1, 2)
OBSERVED = node.SpecObserved(1)
ADOPTED = node.Moved("adopted", "Adopted", 3)
READY = (JOINED, ASSIGNED, CONNECTED, OBSERVED, ADOPTED)


def given(*events: node.Events) -> node.State:
    state: node.State = registry.fold("node_1", events)
    return state


@pytest.mark.parametrize(
    ("before", "decision", "expected"),
    [
        ((), lambda s: node_service.cordon(s, "fan", NOW), [node.Cordoned("fan", NOW)]),
        ((node.Cordoned("fan", 5),), lambda s: node_service.cordon(s, "other", NOW), []),
        ((node.Cordoned("fan", 5),), lambda s: node_service.uncordon(s, NOW), [node.Uncordoned(NOW)]),
        ((), lambda s: node_service.uncordon(s, NOW), []),
        ((), lambda s: node_service.enter(s, "bios", NOW), [node.MaintenanceEntered("bios", NOW)]),
        ((node.MaintenanceEntered("bios", 5),), lambda s: node_service.enter(s, "bios", NOW), []),
        (
            (node.MaintenanceEntered("bios", 5),),
            lambda s: node_service.leave(s, None, NOW),
            [node.MaintenanceLeft(NOW)],
        ),
        ((), lambda s: node_service.leave(s, None, NOW), []),
        ((), lambda s: nodes.label(s, {}, NOW), []),
        ((), lambda s: nodes.label(s, {"rack": "r1"}, NOW), [node.Labelled({"rack": "r1"})]),
    ],
)
def test_a_verb_brings_its_event_and_asking_twice_brings_none(
    before: tuple[node.Events, ...], decision: Any, expected: list[node.Events]
) -> None:
    assert decision(given(*READY, *before)) == expected


def test_retiring_goes_through_retiring_and_leaves_the_pool() -> None:
    events = node_provision.retire(given(*READY), NOW)
    assert [type(event) for event in events] == [node.Moved, node.ConnectivityChanged, node.Assigned, node.Moved]
    after = given(*READY, *events)
    assert (after.provision_state, after.pool_id) == ("retired", None)
    assert node_provision.retire(after, NOW) == []


@pytest.mark.parametrize("verb", ["cordon", "maintain", "rescue"])
def test_nothing_new_is_done_to_a_retired_node(verb: str) -> None:
    retired = given(*READY, node.Moved("retiring", "", 4), node.Moved("retired", "", 5))
    decide = {
        "cordon": lambda: node_service.cordon(retired, "fan", NOW),
        "maintain": lambda: node_service.enter(retired, "bios", NOW),
        "rescue": lambda: node_provision.rescue(retired, NOW),
    }
    with pytest.raises(errors.IllegalTransition) as refused:
        decide[verb]()
    assert refused.value.extra == {"state": "retired", "allowed": ()}


@pytest.mark.parametrize(
    "state", [state for state in provision.MOVES if state not in ("deployed", "releasing", "failed")]
)
def test_releasing_from_a_state_that_does_not_allow_it_names_the_legal_ones(state: provision.Provision) -> None:
    with pytest.raises(errors.IllegalTransition) as refused:
        node_provision.release(given(JOINED, node.Moved(state, "", 2)), NOW)
    assert refused.value.extra["allowed"] == provision.MOVES[state]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (node.Moved("rescue", "", 5), "NotProvisioned"),
        (node.Assigned("unassigned", "pool_1", "platform"), "NotHost"),
        (node.MaintenanceEntered("bios", 5), "Maintenance"),
        (node.Cordoned("fan", 5), "Cordoned"),
        (node.ConnectivityChanged("lost", 1, 5), "NotConnected"),
        (node.SpecObserved(0), "SpecNotObserved"),
        *((node.ConditionRaised(node.Condition(name, "", "", 5)), name) for name in sorted(schedulability.BLOCKING)),
    ],
)
def test_each_axis_alone_makes_a_node_unschedulable_and_says_since_when(event: node.Events, reason: str) -> None:
    assert schedulability.unschedulable(given(*READY)) == ()
    (*_, told) = schedulability.settle(given(*READY), [event], NOW)
    assert told == node.SchedulabilityChanged({reason: NOW})
    later = schedulability.settle(given(*READY, event, told), [node.Labelled({"rack": "r1"})], NOW + 1)
    assert later == [node.Labelled({"rack": "r1"})], "since when stays"


@pytest.mark.parametrize(
    ("trust", "pool_owner", "trusted"),
    [
        ("platform", "acme", True),
        ("tenant-owned", "platform", True),
        ("tenant-owned", "acme", False),
        ("tenant-controlled", "platform", False),
    ],
)
def test_a_tenants_own_machine_serves_its_owners_pools_alone(trust: Any, pool_owner: str, trusted: bool) -> None:
    joined = node.Joined(**{f: getattr(JOINED, f) for f in JOINED.__struct_fields__} | {"trust": trust})
    state = given(joined, node.Assigned("host", "pool_1", pool_owner), *READY[2:])
    assert ("NotTrusted" not in schedulability.unschedulable(state)) is trusted


def test_informing_conditions_stop_nothing() -> None:
    for name in ("GpuCountMismatch", "NodeUnreachable", "ClockSkew", "InventoryStale", "SpecDrift"):
        assert schedulability.unschedulable(given(*READY, node.ConditionRaised(node.Condition(name, "", "", 5)))) == ()


def test_a_machine_that_speaks_again_is_not_off() -> None:
    off = given(*READY, node.Fenced("burnt", 5))
    assert off.power == "off"
    assert node_fold.evolve(off, node.ConnectivityChanged("connected", 2, 6)).power == "unknown"
    assert node_fold.evolve(off, node.ConnectivityChanged("lost", 1, 6)).power == "off"
