"""Many agents at once: what they bring about is what each alone would, in fewer appends (architecture.md §2)."""

from collections.abc import Callable
from typing import Any

import pytest

from commands import agent_batches, agents, reconciling, status_batches
from commands.agent_batches import Opening
from commands.ports import Store
from commands.status_batches import Report
from domain import errors, node
from domain.event import Append, Change, Meta
from domain.inventory import NodeInventory
from given import Plane, inventory

HELLO = agents.Hello("boot-1", "0.1.0")


def opening(node_id: str, known: bool = True, hello: agents.Hello = HELLO) -> Opening:
    return Opening(node_id, "gw_1", hello, lambda key: known)


def state(plane: Plane, node_id: str) -> node.State:
    found: node.State = plane.store.load(node_id).state
    return found


def report(plane: Plane, node_id: str) -> Report:
    of = state(plane, node_id)
    return Report(node_id, of.session, of.generation, {a.id: "prepared" for a in of.allocations})


def record(plane: Plane, node_id: str, *events: node.Events) -> None:
    version = plane.store.load(node_id).version
    plane.store.append(Append((Change(node_id, version, events),), Meta("controller:test")))


def known(plane: Plane, said: Report) -> None:
    """The log has heard of the node what it says, and not yet what follows for reservations."""
    of = state(plane, said.node_id)
    record(plane, said.node_id, *reconciling.report(of, said.observed, said.items, plane.store.now()))


def no_ids(prefix: str) -> str:
    raise AssertionError(prefix)


def test_agents_that_come_together_open_their_sessions_in_one_append(plane: Plane) -> None:
    _, nodes = plane.fleet(nodes=3)
    before = {one: state(plane, one).session for one in nodes}
    opened = agent_batches.open_sessions(plane.store, [opening(one) for one in nodes], no_ids)
    assert [one.session for one in opened] == [before[one] + 1 for one in nodes]
    recorded = [plane.store.history(one)[-1] for one in nodes]
    assert len({one.part.append for one in recorded}) == 1
    assert [one.meta.actor for one in recorded] == [f"agent:{one}" for one in nodes]
    assert {state(plane, one).gateway for one in nodes} == {"gw_1"}


def test_a_stranger_among_agents_stops_nobody_and_learns_nothing(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    missing = "node_" + "0" * 26
    asked = [opening(node_id, known=False), opening(missing), opening(node_id)]
    wrong, nobody, right = agent_batches.open_sessions(plane.store, asked, no_ids)
    assert isinstance(wrong.fault, errors.NotFound)
    assert isinstance(nobody.fault, errors.NotFound)
    assert right.fault is None
    assert state(plane, node_id).session == right.session


@pytest.mark.parametrize(
    "odd",
    [agents.Hello("boot-1", "0.1.0", shows=lambda: 10**400), agents.Hello("boot-\ud800", "0.1.0")],
    ids=["that cannot be decided on", "that cannot be recorded"],
)
def test_a_hello_fails_alone(plane: Plane, odd: agents.Hello) -> None:
    _, nodes = plane.fleet(nodes=3)
    asked = [opening(nodes[0]), opening(nodes[1], hello=odd), opening(nodes[2])]
    opened = agent_batches.open_sessions(plane.store, asked, no_ids)
    assert [one.fault is None for one in opened] == [True, False, True]
    assert [state(plane, one).session for one in nodes] == [2, 1, 2]


def test_a_status_that_cannot_be_decided_on_fails_alone(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=2)
    made = plane.acme.reserve(pool_id, nodes=2, devices=[{"class": "gpu", "count": 1}]).json()
    plane.until(plane.acme, made["id"], "binding")
    good, odd = (report(plane, one) for one in nodes)
    odd = Report(odd.node_id, odd.session, odd.observed, None)  # type: ignore[arg-type]
    right, wrong = status_batches.report_statuses(plane.store, [good, odd])
    assert right is None
    assert isinstance(wrong, TypeError | AttributeError)
    assert state(plane, nodes[0]).observed_generation == good.observed


def test_an_inventory_that_cannot_be_decided_on_fails_alone(plane: Plane) -> None:
    _, nodes = plane.fleet(nodes=2)
    good, odd = (
        agent_batches.Inventory(one, 1, NodeInventory.convert(inventory(index=90 + n))) for n, one in enumerate(nodes)
    )
    odd = agent_batches.Inventory(odd.node_id, 1, None)  # type: ignore[arg-type]
    wrong, right = agent_batches.report_inventories(plane.store, [odd, good])
    assert right is None
    assert isinstance(wrong, TypeError | AttributeError)


def test_two_agents_of_one_node_that_come_together_get_two_sessions(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    first, second = agent_batches.open_sessions(plane.store, [opening(node_id), opening(node_id)], no_ids)
    assert second.session == first.session + 1 == state(plane, node_id).session


def test_a_gang_whose_nodes_report_together_becomes_active(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=3)
    made = plane.acme.reserve(pool_id, nodes=3, devices=[{"class": "gpu", "count": 1}]).json()
    plane.until(plane.acme, made["id"], "binding")
    assert status_batches.report_statuses(plane.store, [report(plane, one) for one in nodes]) == [None] * 3
    plane.until(plane.acme, made["id"], "active")


def test_a_report_of_an_old_session_is_fenced_and_the_others_count(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=2)
    made = plane.acme.reserve(pool_id, nodes=2, devices=[{"class": "gpu", "count": 1}]).json()
    plane.until(plane.acme, made["id"], "binding")
    reports = [report(plane, one) for one in nodes]
    session = agents.open_session(plane.store, nodes[0])
    old, new = status_batches.report_statuses(plane.store, reports)
    assert isinstance(old, errors.Fenced)
    assert new is None
    assert plane.store.load(made["id"]).state.status == "binding"
    plane.report(nodes[0], session)
    plane.until(plane.acme, made["id"], "active")


class Overtaken:
    """The store, with something that comes between what is read next and the append that follows."""

    def __init__(self, store: Store, between: Callable[[], object]) -> None:
        self._store = store
        self._between = [between]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, append: Append) -> int:
        if self._between:
            self._between.pop()()
        return self._store.append(append)


def together(store: Store, said: Report) -> None:
    (fault,) = status_batches.report_statuses(store, [said])
    if fault is not None:
        raise fault


def alone(store: Store, said: Report) -> None:
    agents.report_status(store, said.node_id, said.session, said.observed, said.items)


@pytest.mark.parametrize("say", [together, alone])
def test_what_a_session_says_of_a_reservation_counts_for_nothing_once_it_is_superseded(
    plane: Plane, say: Callable[[Store, Report], None]
) -> None:
    pool_id, nodes = plane.fleet(nodes=2)
    made = plane.acme.reserve(pool_id, nodes=2, devices=[{"class": "gpu", "count": 1}]).json()
    plane.until(plane.acme, made["id"], "binding")
    said = report(plane, nodes[0])
    known(plane, said)
    overtaken: Any = Overtaken(plane.store, lambda: agents.open_session(plane.store, nodes[0]))
    with pytest.raises(errors.Fenced):
        say(overtaken, said)
    assert not any(a.prepared for a in plane.store.load(made["id"]).state.allocations)


@pytest.mark.parametrize("say", [together, alone])
def test_what_a_superseded_session_has_torn_down_is_not_free(
    plane: Plane, say: Callable[[Store, Report], None]
) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, made["id"])
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    plane.until_state(made["id"], "releasing", "active")
    of = state(plane, node_id)
    said = Report(node_id, of.session, of.generation, {})
    known(plane, said)
    overtaken: Any = Overtaken(plane.store, lambda: agents.open_session(plane.store, node_id))
    with pytest.raises(errors.Fenced):
        say(overtaken, said)
    assert plane.store.load(made["id"]).state.status == "releasing"


def test_a_node_that_moved_on_in_its_session_is_decided_on_again(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    plane.until(plane.acme, made["id"], "binding")
    said = report(plane, node_id)
    known(plane, said)
    moved = node.ConditionRaised(node.Condition("Odd", "Odd", "", 1))
    overtaken: Any = Overtaken(plane.store, lambda: record(plane, node_id, moved))
    together(overtaken, said)
    plane.until(plane.acme, made["id"], "active")


@pytest.mark.parametrize("gpus", [8, 7])
def test_an_inventory_brings_events_only_if_it_is_new(plane: Plane, gpus: int) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    found = inventory("H100", 8, 1)
    node_id = plane.node(site_id, pool_id, found=found)
    version = plane.store.load(node_id).version
    seen = NodeInventory.convert({**found, "gpus": found["gpus"][:gpus]})
    asked = [agent_batches.Inventory(node_id, state(plane, node_id).session, seen)]
    assert agent_batches.report_inventories(plane.store, asked) == [None]
    assert (plane.store.load(node_id).version > version) == (gpus == 7)


def test_states_of_many_streams_are_those_of_each(plane: Plane) -> None:
    pool_id, nodes = plane.fleet(nodes=2)
    plane.store._known.clear()
    missing = "node_" + "0" * 26
    wanted = [nodes[1], missing, pool_id, nodes[0], nodes[1]]
    assert plane.store.load_all(wanted) == [plane.store.load(one) for one in wanted]
