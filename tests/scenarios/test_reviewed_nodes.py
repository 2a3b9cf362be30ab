"""What reviewers found in the life of nodes: each once a fault."""

from typing import Any

import pytest
from msgspec.structs import replace
from test_node_commands import Agent, issue
from test_out_of_service import HOUR, drain, until

from adapters.agent.peer import Allowance
from commands import agents, node_commands, node_sessions
from domain import errors, node, reservation
from given import Plane, inventory


def held_before_a_plan(plane: Plane) -> tuple[str, str, str]:
    """An atom not torn down, a booking, planned maintenance: pool, node, the booking's reservation."""
    pool_id, (node_id,) = plane.fleet(gpus=1)
    active = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    now = plane.store.now()
    following = plane.acme.reserve(pool_id, startsAt=now + 10 * HOUR).json()
    assert following["state"] == "placed"
    plan = {"on": True, "reason": "bios", "from": now + 15 * HOUR, "until": now + 16 * HOUR}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", plan)
    plane.acme.ok("POST", f"/v1/reservations/{active['id']}/release", {})
    return pool_id, node_id, following["id"]


def test_what_is_not_torn_down_holds_on_to_the_plan_when_the_booking_between_goes(plane: Plane) -> None:
    pool_id, _, following = held_before_a_plan(plane)
    assert plane.acme.ok("POST", f"/v1/reservations/{following}/cancel", {})["state"] == "cancelled"
    assert plane.acme.reserve(pool_id, startsAt=plane.store.now() + 10 * HOUR, maxPendingSeconds=0).status_code == 409


def test_a_drain_passes_a_plan_by(plane: Plane) -> None:
    _, node_id, following = held_before_a_plan(plane)
    assert drain(plane, node_id).status_code == 200
    plane.until(plane.acme, following, "pending")


def test_a_command_that_was_called_off_is_not_delivered(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    command = issue(plane, node_id, "reboot").json()["id"]
    plane.root.ok("POST", f"/v1/commands/{command}/cancel", {})
    session = plane.store.load(node_id).state.session
    assert node_sessions.deliver(plane.store, node_id, session, command) is False


def test_a_retired_node_is_heard_no_more_and_its_hardware_is_free(plane: Plane) -> None:
    site_id = plane.site()
    found = inventory(index=90)
    node_id = plane.node(site_id, plane.pool(site_id), found=found)
    session = plane.store.load(node_id).state.session
    plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})
    changed = plane.store.load(node_id).state.inventory
    with pytest.raises(errors.Fenced):
        agents.report_inventory(plane.store, node_id, session, changed)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["connectivity"] == "disconnected"
    again = plane.join(site_id, "again", found)
    assert plane.root.ok("GET", f"/v1/nodes/{again}")["conditions"] == []


def test_a_pools_checks_are_passed_whatever_way_a_node_came(plane: Plane) -> None:
    site_id = plane.site()
    plain = plane.pool(site_id, "plain")
    strict = plane.pool(site_id, "strict", policy={"acceptance": ["gpu-health"]})
    node_id = plane.node(site_id, plain)
    agent = Agent(plane, node_id)
    plane.root.ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": strict})
    plane.report(node_id)
    owing = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    assert [reason["reason"] for reason in owing["unschedulableReasons"]] == ["AcceptanceFailed"]
    (demanded,) = agent.outstanding()
    other = issue(plane, node_id, "run-acceptance", params={"checks": ["network"]}).json()["id"]
    for command in (other, demanded):
        agent.deliver(command)
    agent.answer(other, **agent.checks(network=True))
    assert "AcceptanceFailed" in {one.type for one in agent.state.conditions}, "other checks prove nothing"
    agent.answer(demanded)
    assert "AcceptanceFailed" in {one.type for one in agent.state.conditions}, "no verdict is no pass"
    last = issue(plane, node_id, "run-acceptance").json()
    assert last["params"] == {"checks": ["gpu-health"]}
    agent.deliver(last["id"])
    agent.answer(last["id"], **agent.checks(gpu_health=True))
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["schedulable"] is True


def test_an_adoption_is_by_the_checks_of_the_pool_that_the_node_is_in_by_then(plane: Plane) -> None:
    site_id = plane.site()
    first = plane.pool(site_id, "first", policy={"acceptance": ["memory"]})
    second = plane.pool(site_id, "second", policy={"acceptance": ["gpu-health"]})
    node_id = plane.join(site_id, "n1", inventory(index=91))
    agent = Agent(plane, node_id)
    plane.root.ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": first})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/adopt", {})
    plane.root.ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": second})
    agent.boot("boot-1")
    (demanded,) = agent.outstanding()
    agent.deliver(demanded)
    agent.answer(demanded, **agent.checks(memory=True))
    assert agent.state.provision_state == "adopting"
    (demanded,) = agent.outstanding()
    agent.deliver(demanded)
    agent.answer(demanded, **agent.checks(gpu_health=True))
    assert agent.state.provision_state == "adopted"


def test_a_node_that_dies_on_its_way_has_failed_and_can_be_retired(plane: Plane) -> None:
    plane.wired.watch.stop()
    site_id = plane.site()
    node_id = plane.node(site_id, plane.pool(site_id))
    for verb in ("rescue", "deploy", "release"):
        plane.root.ok("POST", f"/v1/nodes/{node_id}/{verb}", {})
    assert plane.root.post(f"/v1/nodes/{node_id}/retire", {"force": True}).status_code == 409
    off = plane.root.ok("POST", f"/v1/nodes/{node_id}/fence", {"reason": "burnt"})
    assert (off["provisionState"], off["power"]) == ("failed", "off")
    assert plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})["provisionState"] == "retired"


def test_the_end_of_a_plan_leaves_what_an_operator_brought_for_the_same_reason(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    path = f"/v1/nodes/{node_id}/maintenance"
    now = plane.store.now()
    plane.root.ok("POST", path, {"on": True, "from": now, "until": now + 1_200})
    until(plane, node_id, lambda shown: len(shown["maintenance"]) == 1)
    plane.root.ok("POST", path, {"on": True})
    over = until(plane, node_id, lambda shown: not shown["plannedMaintenance"])
    assert [(stay["reason"], stay["plan"]) for stay in over["maintenance"]] == [("maintenance", None)]
    assert over["schedulable"] is False


def test_what_would_interrupt_is_asked_again_when_it_is_to_begin(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    command = issue(plane, node_id, "reboot").json()["id"]
    made = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    state: node.State = plane.store.load(node_id).state
    assert node_sessions.deliver(plane.store, node_id, state.session, command) is False
    waits = [(command, plane.store.load(command).state)]
    assert node_commands.ready(state, waits, plane.store.now(), busy=True) == ([], True)
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    plane.report(node_id)
    assert node_sessions.deliver(plane.store, node_id, state.session, command) is True


def test_a_device_that_comes_back_is_not_booked_inside_planned_maintenance(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet(gpus=2)
    state: node.State = plane.store.load(node_id).state
    whole = state.inventory
    assert whole is not None
    agents.report_inventory(plane.store, node_id, state.session, replace(whole, gpus=whole.gpus[:1]))
    now = plane.store.now()
    plan = {"on": True, "from": now + HOUR, "until": now + 2 * HOUR}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/maintenance", plan)
    agents.report_inventory(plane.store, node_id, state.session, whole)
    plane.settle()
    refused = plane.acme.reserve(pool_id, startsAt=now + HOUR, durationSeconds=60, maxPendingSeconds=0)
    assert refused.json()["code"] == "DOUBLE_BOOKED"
    assert plane.acme.reserve(pool_id, startsAt=now + 2 * HOUR).json()["state"] == "placed"


def test_a_running_drain_changes_its_deadline_whatever_else_is_disrupted(plane: Plane) -> None:
    _, nodes = plane.fleet(nodes=2)
    began = drain(plane, nodes[0]).json()["drain"]["since"]
    plane.root.ok("POST", f"/v1/nodes/{nodes[1]}/maintenance", {"on": True})
    until(plane, nodes[0], lambda shown: shown["drain"]["drainedAt"] is not None)
    later = plane.store.now() + HOUR
    changed = drain(plane, nodes[0], deadline=later)
    assert changed.status_code == 200, changed.text
    assert (changed.json()["drain"]["since"], changed.json()["drain"]["deadline"]) == (began, later)
    assert changed.json()["drain"]["drainedAt"] is not None


def test_a_notice_is_taken_back_with_the_drain_or_its_deadline(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.activate(plane.acme, plane.acme.reserve(pool_id, durationSeconds=7_200).json()["id"])["id"]

    def told() -> Any:
        return plane.acme.ok("GET", f"/v1/reservations/{made}")["endingAt"]

    for _ in range(2):
        assert drain(plane, node_id, deadline=plane.store.now() + HOUR // 2).status_code == 200
        until(plane, node_id, lambda shown: told() is not None)
        plane.root.ok("POST", f"/v1/nodes/{node_id}/uncordon", {})
        assert told() is None
    assert drain(plane, node_id, deadline=plane.store.now() + HOUR // 2).status_code == 200
    until(plane, node_id, lambda shown: told() is not None)
    assert drain(plane, node_id).status_code == 200
    until(plane, node_id, lambda shown: told() is None)
    notices = [type(e) for e in plane.events(made) if isinstance(e, reservation.Ending | reservation.Stays)]
    assert notices == [reservation.Ending, reservation.Stays] * 3


def test_a_version_is_no_option_of_the_program_that_installs_it(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    refused = issue(plane, node_id, "agent-upgrade", params={"version": "-rf"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "params.version")


def test_reports_beyond_a_few_wait_their_time() -> None:
    clock = [0.0]
    allowance = Allowance(lambda: clock[0])
    assert [allowance.take() for _ in range(11)] == [True] * 10 + [False]
    clock[0] = 29.0
    assert not allowance.take()
    clock[0] = 31.0
    assert (allowance.take(), allowance.take()) == (True, False)
    clock[0] = 10_000.0
    assert [allowance.take() for _ in range(11)] == [True] * 10 + [False]


def test_a_twin_in_the_same_gang_does_not_stand_in_the_way_of_a_forced_retirement(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    plane.offer(pool_id, gpu=99)
    found = [inventory(index=n) for n in (95, 96)]
    found[1]["system"]["productUuid"] = found[0]["system"]["productUuid"]
    first = plane.node(site_id, pool_id, "n1", found=found[0])
    second = plane.join(site_id, "n2", found[1])
    plane.root.ok("POST", f"/v1/nodes/{second}/settle", {"reason": "looked at both"})
    plane.root.ok("POST", f"/v1/nodes/{second}/assign", {"poolId": pool_id})
    plane.root.ok("POST", f"/v1/nodes/{second}/adopt", {})
    plane.connect(second)
    plane.settle()
    gang = plane.acme.reserve(pool_id, nodes=2, devices=[{"class": "gpu", "count": 8}]).json()["id"]
    plane.activate(plane.acme, gang)
    assert plane.store.load(first).state.fingerprint != plane.store.load(second).state.fingerprint
    gone = plane.root.ok("POST", f"/v1/nodes/{first}/retire", {"force": True})
    assert gone["provisionState"] == "retired"
    left = plane.acme.ok("GET", f"/v1/reservations/{gang}")
    assert (left["state"], [a["nodeId"] for a in left["allocations"]]) == ("active", [second])
    assert left["degraded"] is not None
