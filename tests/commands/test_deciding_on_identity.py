"""Twins: who is marked, what an operator's word settles, and what nobody is told."""

import pytest

from commands import identity, twins
from domain import errors, node, node_fold, node_view
from domain.provision import Provision

NOW = 1_000


def marked(*names: str, strangers: tuple[str, ...] = (), provision: Provision = "adopting") -> node.State:
    state = node.State(created_at=1, provision_state=provision)
    for event in twins.mark(state, names, strangers, NOW):
        state = node_fold.evolve(state, event)
    return state


def after(state: node.State, events: list[node.Events]) -> node.State:
    for event in events:
        state = node_fold.evolve(state, event)
    return state


def test_a_mark_names_its_twins_and_the_same_again_changes_nothing() -> None:
    state = marked("node_0", "node_2")
    (held,) = state.conditions
    assert (held.type, held.names, held.message) == ("DuplicateHardware", ("node_0", "node_2"), "node_0, node_2")
    assert twins.mark(state, ("node_0", "node_2"), (), NOW) == []
    assert twins.mark(state, (), (), NOW) == [node.ConditionCleared("DuplicateHardware", NOW)]


def test_a_node_of_another_tenant_is_named_in_the_event_and_shown_to_nobody() -> None:
    state = marked("node_0", "node_2", strangers=("node_2",))
    assert state.conditions[0].names == ("node_0", "node_2")
    (shown,) = node_view.view("node_1", state, 1).conditions
    assert (shown.names, shown.message) == (("node_0",), "node_0, another tenant's node")
    left = after(state, identity.settle(state, ("node_0",), (), "two machines", NOW))
    (shown,) = node_view.view("node_1", left, 1).conditions
    assert (shown.names, shown.message) == ((), "another tenant's node")


def test_settling_takes_all_that_are_named_and_asking_twice_changes_nothing() -> None:
    state = marked("node_0", "node_2")
    events = identity.settle(state, None, (), "two machines", NOW)
    assert events == [
        node.DuplicateSettled(("node_0", "node_2"), "two machines", NOW),
        node.ConditionCleared("DuplicateHardware", NOW),
    ]
    state = after(state, events)
    assert identity.settle(state, None, (), "again", NOW) == []
    assert identity.settle(state, ("node_2",), (), "again", NOW) == []


def test_settling_one_leaves_the_other_named() -> None:
    state = marked("node_0", "node_2")
    state = after(state, identity.settle(state, ("node_0",), (), "two machines", NOW))
    assert twins.named(state) == ("node_2",)


def test_only_a_twin_that_is_named_can_be_settled() -> None:
    with pytest.raises(errors.Invalid, match=r"nodes\[1\]: is none of the nodes that DuplicateHardware names"):
        identity.settle(marked("node_0"), ("node_0", "node_9"), (), "two machines", NOW)
    with pytest.raises(errors.IllegalTransition, match="settling is not possible in retired"):
        identity.settle(marked("node_0", provision="retired"), None, (), "two machines", NOW)


def test_another_tenants_twin_is_settled_with_all_others_and_is_no_answer_to_a_guess() -> None:
    state = marked("node_0", "node_2", strangers=("node_2",))
    with pytest.raises(errors.Invalid, match=r"nodes\[0\]: is none of the nodes that DuplicateHardware names"):
        identity.settle(state, ("node_2",), {"node_2"}, "two machines", NOW)
    state = after(state, identity.settle(state, None, (), "two machines", NOW))
    assert twins.named(state) == ()
    with pytest.raises(errors.Invalid, match=r"nodes\[0\]: is none of the nodes that DuplicateHardware names"):
        identity.settle(state, ("node_2",), {"node_2"}, "two machines", NOW)
