"""Commands to nodes, told over HTTP, with the test as the node's agent (domain.md §8; O36, O37)."""

import time
from typing import Any

import pytest

from commands import agents, node_sessions
from domain import errors, node, node_command
from domain.event import Append, Change, Meta
from given import DEADLINE_S, SEVEN, Plane, inventory, partitioned

HOUR = 3_600_000
MOVED = node.Moved("failed", "Broken", 1)


class Agent:
    """What a node's agent says of commands, through the same functions as the gateway."""

    def __init__(self, plane: Plane, node_id: str) -> None:
        self.plane, self.node_id = plane, node_id

    @property
    def state(self) -> node.State:
        state: node.State = self.plane.store.load(self.node_id).state
        return state

    def boot(self, boot_id: str) -> int:
        arrival = agents.Arrival(agents.Hello(boot_id, "0.1.0"), self.plane.wired.mint)
        return agents.open_session(self.plane.store, self.node_id, "gw", arrival)

    def deliver(self, command_id: str) -> None:
        node_sessions.deliver(self.plane.store, self.node_id, self.state.session, command_id)

    def acknowledge(self, command_id: str, session: int | None = None) -> None:
        epoch = self.state.session if session is None else session
        node_sessions.acknowledge(self.plane.store, self.node_id, epoch, command_id)

    def answer(self, command_id: str, outcome: Any = "succeeded", reason: str = "", **result: Any) -> None:
        node_sessions.take_result(
            self.plane.store,
            self.node_id,
            self.state.session,
            command_id,
            outcome,
            reason,
            result,
            self.plane.wired.mint,
        )

    def checks(self, **passed: bool) -> dict[str, Any]:
        return {"checks": [{"name": name.replace("_", "-"), "ok": ok, "detail": ""} for name, ok in passed.items()]}

    def outstanding(self) -> list[str]:
        return [queued.id for queued in self.state.commands]


def issue(plane: Plane, node_id: str, name: str, **fields: Any) -> Any:
    return plane.root.post(f"/v1/nodes/{node_id}/commands", {"name": name} | fields)


def shown(plane: Plane, command_id: str) -> dict[str, Any]:
    return dict(plane.root.ok("GET", f"/v1/commands/{command_id}"))


def test_a_command_is_numbered_delivered_acknowledged_and_answered_once(plane: Plane) -> None:
    """O36: what is said again changes nothing, and an older session is refused."""
    _, (node_id,) = plane.fleet()
    agent = Agent(plane, node_id)
    first, second = (issue(plane, node_id, "collect-diagnostics").json() for _ in range(2))
    assert (first["seq"], second["seq"], first["status"]) == (1, 2, "queued")
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["commands"] == [first["id"], second["id"]]
    old = agent.state.session
    agent.deliver(first["id"])
    agent.acknowledge(first["id"])
    agent.boot("boot-1")
    with pytest.raises(errors.Fenced):
        agent.acknowledge(first["id"], old)
    agent.acknowledge(first["id"])
    agent.answer(first["id"], load=1)
    version = plane.store.load(first["id"]).version
    agent.answer(first["id"], "failed", "late", load=2)
    agent.deliver(first["id"])
    done = shown(plane, first["id"])
    assert (done["status"], done["result"], done["version"]) == ("succeeded", {"load": 1}, version)
    assert agent.outstanding() == [second["id"]]
    names = [type(event).__name__ for event in plane.events(first["id"])]
    assert names == ["Issued", "Delivered", "Acknowledged", "Succeeded"]
    plane.settle()
    listed = plane.root.ok("GET", f"/v1/commands?nodeId={node_id}&status=queued")["items"]
    assert [one["id"] for one in listed] == [second["id"]]


def test_what_was_not_delivered_can_be_called_off_and_nothing_else(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    agent = Agent(plane, node_id)
    one, two = (issue(plane, node_id, "inspect").json()["id"] for _ in range(2))
    off = plane.root.ok("POST", f"/v1/commands/{one}/cancel", {"reason": "not needed"})
    assert (off["status"], off["reason"]) == ("cancelled", "not needed")
    again = plane.root.ok("POST", f"/v1/commands/{one}/cancel", {})
    assert again["version"] == off["version"]
    agent.deliver(one)
    assert shown(plane, one)["status"] == "cancelled"
    agent.deliver(two)
    refused = plane.root.post(f"/v1/commands/{two}/cancel", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "ILLEGAL_TRANSITION")
    assert plane.acme.post(f"/v1/commands/{two}/cancel", {}).status_code == 404
    assert plane.acme.get(f"/v1/commands/{two}").status_code == 404


def test_a_disruptive_command_is_refused_while_something_runs_unless_forced(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    made = plane.activate(plane.acme, plane.acme.reserve(pool_id).json()["id"])
    refused = issue(plane, node_id, "reboot")
    assert (refused.status_code, refused.json()["reservations"]) == (409, [made["id"]])
    assert issue(plane, node_id, "reboot", force=True).status_code == 201
    assert issue(plane, node_id, "collect-diagnostics").status_code == 201


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("gpu-reset", {}, "params.gpuUuid"),
        ("gpu-reset", {"params": {"gpuUuid": "GPU-1"}}, "params.gpuUuid"),
        ("gpu-reset", {"params": {"gpuUuid": "GPU-" + "0" * 8 + "-0000-0000-0000-" + "0" * 12}}, "params.gpuUuid"),
        ("reboot", {"params": {"now": True}}, "params.now"),
        ("run-acceptance", {"params": {"checks": ["burn-in"]}}, "params.checks[0]"),
        ("prefetch-image", {"params": {"url": "file:///etc/shadow", "sha256": "0" * 64}}, "params.url"),
        ("apply-mig-layout", {}, "name"),
        ("fly", {}, "name"),
        ("inspect", {"notAfter": 1}, "notAfter"),
        ("inspect", {"notBefore": 2**53}, "notAfter"),
        ("inspect", {"minGeneration": 99}, "minGeneration"),
    ],
)
def test_a_command_that_cannot_be_names_its_field(plane: Plane, name: str, fields: dict[str, Any], field: str) -> None:
    _, (node_id,) = plane.fleet()
    refused = issue(plane, node_id, name, **fields)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field), refused.text


def test_a_reboot_is_done_when_the_node_is_back_with_another_boot_id(plane: Plane) -> None:
    """O37: coming back without one does not do, and what the agent says of it neither."""
    _, (node_id,) = plane.fleet()
    agent = Agent(plane, node_id)
    agent.boot("boot-1")
    reboot = issue(plane, node_id, "reboot").json()["id"]
    agent.deliver(reboot)
    agent.acknowledge(reboot)
    agent.answer(reboot, "succeeded")
    agent.boot("boot-1")
    assert shown(plane, reboot)["status"] == "delivered"
    agent.boot("boot-2")
    done = shown(plane, reboot)
    assert (done["status"], done["result"]) == ("succeeded", {"bootId": "boot-2", "formerBootId": "boot-1"})
    version = plane.store.load(reboot).version
    agent.boot("boot-3")
    assert plane.store.load(reboot).version == version


def test_acceptance_decides_adoption(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, policy={"acceptance": ["gpus-present", "gpu-health"]})
    node_id = plane.join(site_id, "n1", inventory(index=70))
    plane.root.ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": pool_id})
    agent = Agent(plane, node_id)
    asked = plane.root.ok("POST", f"/v1/nodes/{node_id}/adopt", {})
    assert asked["provisionState"] == "adopting"
    assert plane.root.ok("POST", f"/v1/nodes/{node_id}/adopt", {})["commands"] == asked["commands"], "asked twice"
    (demanded,) = agent.outstanding()
    of = shown(plane, demanded)
    assert (of["name"], of["params"], of["purpose"]) == (
        "run-acceptance",
        {"checks": ["gpus-present", "gpu-health"]},
        "adoption",
    )
    agent.boot("boot-1")
    agent.deliver(demanded)
    agent.answer(demanded, "failed", "ChecksFailed", **agent.checks(gpus_present=True, gpu_health=False))
    failed = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    assert (failed["provisionState"], [c["type"] for c in failed["conditions"]]) == ("failed", ["AcceptanceFailed"])
    assert failed["conditions"][0]["names"] == ["gpu-health"]
    assert "AcceptanceFailed" in {reason["reason"] for reason in failed["unschedulableReasons"]}
    plane.root.ok("POST", f"/v1/nodes/{node_id}/adopt", {})
    (demanded,) = agent.outstanding()
    agent.deliver(demanded)
    agent.answer(demanded, **agent.checks(gpus_present=True, gpu_health=True))
    adopted = plane.root.ok("GET", f"/v1/nodes/{node_id}")
    assert (adopted["provisionState"], adopted["conditions"]) == ("adopted", [])


def test_inspection_leads_to_commissioning_and_that_to_ready(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, policy={"acceptance": ["memory"]})
    node_id = plane.join(site_id, "n1", inventory(index=70))
    plane.root.ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": pool_id})
    agent = Agent(plane, node_id)
    agent.boot("boot-1")
    plane.root.ok("POST", f"/v1/nodes/{node_id}/adopt", {})
    (demanded,) = agent.outstanding()
    agent.deliver(demanded)
    agent.answer(demanded, "failed", **agent.checks(memory=False))
    assert plane.root.ok("POST", f"/v1/nodes/{node_id}/inspect", {})["provisionState"] == "inspecting"
    (looking,) = agent.outstanding()
    agent.deliver(looking)
    agent.answer(looking, hash="0")
    assert agent.state.provision_state == "commissioning"
    (demanded,) = agent.outstanding()
    agent.deliver(demanded)
    agent.answer(demanded, **agent.checks(memory=True))
    assert (agent.state.provision_state, agent.state.conditions) == ("ready", ())
    plane.root.ok("POST", f"/v1/nodes/{node_id}/deploy", {})
    plane.report(node_id)
    assert plane.root.ok("GET", f"/v1/nodes/{node_id}")["schedulable"] is True


def test_a_result_that_comes_after_an_operator_moved_on_moves_nothing(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, policy={"acceptance": ["memory"]})
    node_id = plane.join(site_id, "n1", inventory(index=70))
    plane.root.ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": pool_id})
    agent = Agent(plane, node_id)
    agent.boot("boot-1")
    plane.root.ok("POST", f"/v1/nodes/{node_id}/adopt", {})
    (demanded,) = agent.outstanding()
    agent.deliver(demanded)
    plane.root.ok("POST", f"/v1/nodes/{node_id}/retire", {})
    assert (shown(plane, demanded)["status"], shown(plane, demanded)["reason"]) == ("failed", "NodeRetired")
    assert agent.state.commands == ()


def test_a_result_that_is_too_large_fails_and_is_not_kept(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    agent = Agent(plane, node_id)
    command = issue(plane, node_id, "collect-diagnostics").json()["id"]
    agent.deliver(command)
    agent.answer(command, text="x" * node_command.MAX_RESULT)
    assert (shown(plane, command)["reason"], shown(plane, command)["result"]) == ("ResultTooLarge", {})


def test_a_node_with_a_hundred_things_to_do_takes_no_more(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    for _ in range(100):
        assert issue(plane, node_id, "inspect").status_code == 201
    assert issue(plane, node_id, "inspect").status_code == 409


def test_a_layout_is_applied_where_the_pool_has_one(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id, gpuModel="A100", gpuMemoryGb=80, sharing="mig", policy={"migLayout": SEVEN})
    node_id = plane.node(site_id, pool_id, found=partitioned(index=77))
    made = issue(plane, node_id, "apply-mig-layout")
    assert (made.status_code, made.json()["flags"]["exclusive"]) == (201, True)


def test_the_types_say_what_each_takes(plane: Plane) -> None:
    types = {one["name"]: one for one in plane.root.ok("GET", "/v1/command-types")["items"]}
    assert set(types) == set(node_command.TYPES)
    assert types["reboot"]["flags"] == {"idempotent": False, "disruptive": True, "exclusive": True, "rejoin": True}
    assert set(types["prefetch-image"]["params"]["required"]) == {"url", "sha256"}


def test_a_success_whose_own_checks_say_otherwise_is_none_and_one_that_never_began_says_nothing(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    agent = Agent(plane, node_id)
    first, second = (issue(plane, node_id, "run-acceptance").json()["id"] for _ in range(2))
    agent.deliver(first)
    agent.answer(first, "succeeded", **agent.checks(memory=False, disks=True))
    (raised,) = agent.state.conditions
    assert (raised.type, raised.names) == ("AcceptanceFailed", ("memory",))
    agent.deliver(second)
    agent.answer(second, "expired")
    assert agent.state.conditions == (raised,)


def test_an_inspection_that_is_called_off_leads_nowhere(plane: Plane) -> None:
    node_id = plane.join(plane.site(), "n1", inventory(index=71))
    agent = Agent(plane, node_id)
    agent.boot("boot-1")
    plane.store.append(Append((Change(node_id, plane.store.load(node_id).version, (MOVED,)),), Meta("test")))
    plane.root.ok("POST", f"/v1/nodes/{node_id}/inspect", {})
    *_, looking = agent.outstanding()
    plane.root.ok("POST", f"/v1/commands/{looking}/cancel", {})
    assert agent.state.provision_state == "failed"


def test_what_could_not_begin_in_time_expires_by_itself(plane: Plane) -> None:
    _, (node_id,) = plane.fleet()
    soon = plane.store.now() + 300
    command = issue(plane, node_id, "inspect", notAfter=soon).json()["id"]
    deadline = time.monotonic() + DEADLINE_S
    while shown(plane, command)["status"] == "queued":
        assert time.monotonic() < deadline
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    assert (shown(plane, command)["status"], Agent(plane, node_id).outstanding()) == ("expired", [])
    assert shown(plane, command)["finishedAt"] > soon


@pytest.mark.parametrize(
    ("fields", "now", "ends"),
    [
        ({"status": "queued", "not_after": 10}, 10, None),
        ({"status": "queued", "not_after": 10}, 11, node_command.Expired(11)),
        ({"status": "delivered", "delivered_at": 5, "not_after": 10, "timeout_seconds": 1}, 61_009, None),
        (
            {"status": "delivered", "delivered_at": 5, "not_after": 10, "timeout_seconds": 1},
            61_010,
            node_command.Failed("TimedOut", {}, 61_010),
        ),
        ({"status": "delivered", "acknowledged_at": 900, "not_after": 10, "timeout_seconds": 1}, 61_010, None),
        ({"status": "succeeded", "not_after": 10}, 10**9, None),
    ],
)
def test_a_node_has_until_not_after_to_begin_and_its_commands_time_to_answer(
    fields: dict[str, Any], now: int, ends: node_command.Events | None
) -> None:
    assert node_sessions.overdue(node_command.State(**fields), now) == ends
