"""Instances are asked for, begin on booked atoms, and take their verbs (domain.md §6)."""

import base64
import hashlib
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from commands import instance_verbs
from domain import instance, ssh_key
from domain.event import Append, Change, Meta
from facts import differences
from given import DEADLINE_S, Plane
from wellformed import fresh

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGHbZ7gDvBwRDW4xg1kHnmBxq5uhzrHqmNZcBXF6dvlO"


def shown(plane: Plane, instance_id: str) -> Any:
    return plane.acme.ok("GET", f"/v1/instances/{instance_id}")


def act(plane: Plane, instance_id: str, verb: str) -> Any:
    return plane.acme.ok("POST", f"/v1/instances/{instance_id}/{verb}", {})


def until(plane: Plane, done: Callable[[], Any]) -> Any:
    """What `done` gives once that is something."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := done()):
        assert time.monotonic() < deadline
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    return found


def placed(plane: Plane, instance_id: str) -> Any:
    """The instance once a node has it."""
    until(plane, lambda: plane.store.load(instance_id).state.node_id)
    return shown(plane, instance_id)


def told(plane: Plane, instance_id: str, *events: instance.Events) -> None:
    """What becomes of it by others than its tenant."""
    loaded = plane.store.load(instance_id)
    plane.store.append(Append((Change(instance_id, loaded.version, events),), Meta("controller:test")))


def runs(plane: Plane, instance_id: str) -> Any:
    """The instance once its node says that it runs."""
    placed(plane, instance_id)
    told(plane, instance_id, instance.Reported("running", plane.store.now(), addresses=("10.0.0.7",)))
    return shown(plane, instance_id)


def spec(plane: Plane, node_id: str) -> dict[str, Any]:
    """What the node's NodeSpec wants of each instance."""
    return {one.id: one for one in plane.store.load(node_id).state.instances}


def reserved(plane: Plane, pool_id: str, **fields: Any) -> Any:
    """A reservation that an instance can run on."""
    body = {"binding": "instance", "devices": [{"class": "gpu", "count": 0}]}
    answer = plane.acme.reserve(pool_id, **body | {"scalars": {"vcpu": 2, "memoryMiB": 4096}} | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_an_instance_brings_a_reservation_and_is_answered_at_once(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    made = plane.instance(pool_id, labels={"app": "web"})
    assert (made["state"], made["stateReason"], made["desiredState"]) == ("pending", None, "running")
    assert made["ownsReservation"]
    under = plane.store.load(made["reservationId"]).state
    assert under.draft.instance_id == under.instance_id == made["id"]
    assert under.status in ("placed", "binding")
    now = placed(plane, made["id"])
    assert (now["state"], now["nodeId"]) == ("provisioning", node_id)
    one = spec(plane, node_id)[made["id"]]
    assert (one.vcpu, one.memory_mib, one.disk_gib, one.desired) == (2, 4096, 10, "running")
    assert (one.allocation_id, one.image.sha256) == (now["allocationId"], now["imageSha256"])


def test_a_key_is_answered_as_it_was_at_first(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor(), plane.image()
    first = plane.acme.launch(pool_id, flavor_id, image_id, "web")
    again = plane.acme.launch(pool_id, flavor_id, image_id, "web")
    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    other = plane.acme.launch(pool_id, flavor_id, image_id, "web", name="db")
    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    body = {"name": "web", "poolId": pool_id, "flavorId": flavor_id, "imageId": image_id}
    missing = plane.acme.post("/v1/instances", body)
    assert (missing.status_code, missing.json()["errors"][0]["field"]) == (422, "Idempotency-Key")
    reservation = plane.acme.reserve(pool_id, "instance/web", binding="instance", scalars={"vcpu": 1})
    assert reservation.status_code == 201, "a reservation's key never meets an instance's"
    assert plane.globex.launch(pool_id, flavor_id, image_id, "web").status_code == 404


def test_one_that_finds_no_room_waits_and_says_why(plane: Plane) -> None:
    pool_id, _ = plane.hosts(gpus=1)
    big = plane.flavor(gpus={"class": "gpu", "count": 1})
    first = plane.instance(pool_id, flavorId=big)
    assert (first["state"], first["stateReason"], first["gpus"]) == ("pending", None, {"class": "gpu", "count": 1})
    second = plane.instance(pool_id, flavorId=big)
    assert (second["state"], second["stateReason"]) == ("pending", "NoCapacity")
    image_id = second["imageId"]
    never = plane.acme.launch(pool_id, big, image_id, "never", maxPendingSeconds=0)
    assert (never.status_code, never.json()["code"]) == (409, "DOUBLE_BOOKED")
    assert never.json()["instanceId"].startswith("inst_")
    assert "reservationId" not in never.json()
    no = shown(plane, never.json()["instanceId"])
    assert (no["state"], no["stateReason"], no["reservationId"]) == ("denied", "DoubleBooked", None)
    again = plane.acme.launch(pool_id, big, image_id, "never", maxPendingSeconds=0)
    assert (again.status_code, again.json()["detail"]) == (409, never.json()["detail"])


def test_over_quota_is_denied_and_leaves_nothing(plane: Plane, database: str) -> None:
    pool_id, _ = plane.hosts(quota=1)
    flavor_id, image_id = plane.flavor(gpus={"class": "gpu", "count": 2}), plane.image()
    answer = plane.acme.launch(pool_id, flavor_id, image_id, "much")
    assert (answer.status_code, answer.json()["code"], answer.json()["limit"]) == (409, "QUOTA_EXCEEDED", 1)
    assert shown(plane, answer.json()["instanceId"])["state"] == "denied"
    assert plane.rows("SELECT 1 FROM quota_claims") + plane.rows("SELECT 1 FROM device_bookings") == []
    again = plane.acme.launch(pool_id, flavor_id, image_id, "much")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (409, "true")
    plane.wired.worker.stop()
    plane.settle()
    assert differences(database) == []


@pytest.mark.parametrize("check", ["enforce", "confirm"])
def test_over_budget_is_denied_nobody_is_asked(plane: Plane, check: str) -> None:
    pool_id, _ = plane.hosts()
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"admission": {"budgetCheck": check}}})
    until_ms = (plane.store.now() // 86_400_000 + 10) * 86_400_000
    plane.root.ok("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 24, "until": until_ms})
    gpu = plane.flavor(gpus={"class": "gpu", "count": 1})
    answer = plane.acme.launch(pool_id, gpu, plane.image())
    assert (answer.status_code, answer.json()["code"]) == (409, "BUDGET_EXCEEDED")
    assert shown(plane, answer.json()["instanceId"])["state"] == "denied"
    assert plane.instance(pool_id)["state"] == "pending", "one without GPUs spends nothing"


def test_it_runs_on_a_reservation_of_its_tenants(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    held = reserved(plane, pool_id)
    plane.activate(plane.acme, held["id"])
    made = plane.instance(pool_id, reservationId=held["id"])
    assert (made["state"], made["nodeId"], made["reservationId"]) == ("provisioning", node_id, held["id"])
    assert not made["ownsReservation"]
    assert spec(plane, node_id)[made["id"]].allocation_id == held_allocation(plane, held["id"])
    assert plane.acme.ok("GET", f"/v1/reservations/{held['id']}")["instanceId"] == made["id"]
    second = plane.acme.launch(pool_id, made["flavorId"], made["imageId"], reservationId=held["id"])
    assert second.status_code == 409
    assert made["id"] in second.json()["detail"]
    gone = act(plane, made["id"], "delete")
    assert (gone["state"], gone["desiredState"]) == ("deleting", "deleted")
    assert spec(plane, node_id) == {}
    assert plane.store.load(held["id"]).state.status == "active", "the reservation goes on"


def held_allocation(plane: Plane, reservation_id: str) -> str:
    (allocation,) = plane.store.load(reservation_id).state.allocations
    return str(allocation.id)


def test_one_on_a_reservation_that_has_not_begun_waits_for_it(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    later = reserved(plane, pool_id, startsAt=plane.store.now() + 3_600_000)
    made = plane.instance(pool_id, reservationId=later["id"])
    assert (made["state"], made["nodeId"]) == ("pending", None)
    gone = act(plane, made["id"], "delete")
    assert gone["state"] == "deleted"
    assert plane.store.load(later["id"]).state.instance_id is None
    assert plane.instance(pool_id, reservationId=later["id"])["state"] == "pending", "it is free for another"


def test_a_reservation_that_cannot_carry_it_is_refused_by_name(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    two = plane.flavor(gpus={"class": "gpu", "count": 2})
    small, image_id = plane.flavor(), plane.image()
    four = reserved(plane, pool_id, devices=[{"class": "gpu", "count": 4}])
    little = reserved(plane, pool_id, scalars={"vcpu": 1, "memoryMiB": 4096})
    right = reserved(plane, pool_id, startsAt=plane.store.now() + 3_600_000)
    owned = plane.instance(pool_id)["reservationId"]
    other_site = plane.site("elsewhere")
    other = plane.pool(other_site, "other", **{"class": "vps-host"})
    plane.offer(other)

    def field(flavor_id: str, reservation_id: str, pool: str = pool_id, **more: Any) -> tuple[int, str]:
        answer = plane.acme.launch(pool, flavor_id, image_id, reservationId=reservation_id, **more)
        return answer.status_code, answer.json()["errors"][0]["field"]

    assert field(two, four["id"]) == (422, "flavorId"), "it would have four GPUs and not two"
    assert field(small, four["id"]) == (422, "flavorId")
    assert field(small, little["id"]) == (422, "flavorId")
    assert field(small, owned) == (409, "reservationId")
    assert field(small, right["id"], other) == (422, "poolId")
    assert field(small, right["id"], maxPendingSeconds=5) == (422, "maxPendingSeconds")
    assert field(small, right["id"], onNodeLoss="replace") == (422, "onNodeLoss")
    assert field(small, right["id"], projectId=plane.project()) == (422, "projectId")
    plane.acme.ok("POST", f"/v1/reservations/{right['id']}/cancel", {})
    assert field(small, right["id"]) == (409, "reservationId")
    hold, _ = plane.fleet()
    of_hold = plane.acme.reserve(hold).json()["id"]
    assert field(small, of_hold)[0] == 422
    mine = plane.acme_user.launch(pool_id, small, image_id, reservationId=little["id"])
    assert mine.status_code in (403, 422)


def test_nobody_runs_on_the_reservation_of_a_colleague(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    held = reserved(plane, pool_id)
    flavor_id, image_id = plane.flavor(), plane.image()
    refused = plane.acme_user.launch(pool_id, flavor_id, image_id, reservationId=held["id"])
    assert (refused.status_code, refused.json()["code"]) == (403, "ACCESS_DENIED")
    assert plane.refusals()[-1].resource == f"compute-reservation/{held['id']}"
    assert plane.globex.launch(pool_id, flavor_id, image_id, reservationId=held["id"]).status_code == 404
    assert plane.store.load(held["id"]).state.instance_id is None


def test_it_is_stopped_and_started_through_its_nodes_spec(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    made = runs(plane, plane.instance(pool_id)["id"])
    generation = plane.store.load(node_id).state.generation
    stopped = act(plane, made["id"], "stop")
    assert (stopped["state"], stopped["desiredState"]) == ("running", "stopped"), "it runs until its node says else"
    assert spec(plane, node_id)[made["id"]].desired == "stopped"
    assert plane.store.load(node_id).state.generation == generation + 1
    assert act(plane, made["id"], "stop") == stopped, "a repeated verb changes nothing"
    assert act(plane, made["id"], "start")["desiredState"] == "running"
    assert spec(plane, node_id)[made["id"]].desired == "running"
    assert plane.store.load(node_id).state.generation == generation + 2


def test_one_that_is_stopped_before_it_has_a_node_begins_stopped(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    made = plane.instance(pool_id)
    assert made["stateReason"] == "NoCapacity"
    act(plane, made["id"], "stop")
    plane.root.ok("POST", f"/v1/nodes/{node_id}/uncordon", {})
    placed(plane, made["id"])
    assert spec(plane, node_id)[made["id"]].desired == "stopped"


def test_a_reboot_is_a_command_of_its_node(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    made = plane.instance(pool_id)
    early = plane.acme.post(f"/v1/instances/{made['id']}/reboot")
    assert (early.status_code, early.json()["code"]) == (409, "ILLEGAL_TRANSITION")
    assert "stop" in early.json()["allowed"]
    runs(plane, made["id"])
    answer = plane.acme.post(f"/v1/instances/{made['id']}/reboot", {}, Idempotency_Key="once")
    again = plane.acme.post(f"/v1/instances/{made['id']}/reboot", {}, Idempotency_Key="once")
    assert answer.status_code == again.status_code == 200
    (event,) = [one for one in plane.events(made["id"]) if isinstance(one, instance.Rebooted)]
    command = plane.root.ok("GET", f"/v1/commands/{event.command_id}")
    assert (command["nodeId"], command["name"]) == (node_id, "instance-reboot")
    assert command["params"] == {"instanceId": made["id"]}
    act(plane, made["id"], "stop")
    assert plane.acme.post(f"/v1/instances/{made['id']}/reboot").status_code == 409


def test_reboots_leave_a_node_room_for_its_operator_and_for_its_other_instances(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    mine, other = (runs(plane, plane.instance(pool_id)["id"])["id"] for _ in range(2))
    assert all(act(plane, mine, "reboot")["state"] == "running" for _ in range(3))
    (event,) = [one for one in plane.events(mine) if isinstance(one, instance.Rebooted)]
    act(plane, other, "reboot")
    plane.root.ok("POST", f"/v1/commands/{event.command_id}/cancel", {})
    act(plane, mine, "reboot")
    assert len([one for one in plane.events(mine) if isinstance(one, instance.Rebooted)]) == 2
    for _ in range(instance_verbs.MOST_REBOOTS - 2):
        plane.root.ok("POST", f"/v1/nodes/{node_id}/commands", {"name": "inspect"})
    third = runs(plane, plane.instance(pool_id)["id"])["id"]
    assert plane.acme.post(f"/v1/instances/{third}/reboot").status_code == 409
    plane.root.ok("POST", f"/v1/nodes/{node_id}/commands", {"name": "inspect"})


def test_a_resize_is_refused_with_the_reason(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    made = plane.instance(pool_id)
    answer = plane.acme.post(f"/v1/instances/{made['id']}/resize", {"flavorId": plane.flavor()})
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert "keeps the flavor" in answer.json()["detail"]


def test_deleting_takes_it_from_its_node_before_its_atoms_are_free(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts(gpus=1)
    gpu = plane.flavor(gpus={"class": "gpu", "count": 1})
    made = runs(plane, plane.instance(pool_id, flavorId=gpu)["id"])
    gone = act(plane, made["id"], "delete")
    assert (gone["state"], gone["desiredState"]) == ("deleting", "deleted")
    assert act(plane, made["id"], "delete") == gone
    for verb in ("start", "stop", "reboot"):
        assert plane.acme.post(f"/v1/instances/{made['id']}/{verb}").status_code == 409
    assert spec(plane, node_id) == {}
    under = plane.store.load(made["reservationId"]).state
    assert (under.status, under.reason) == ("releasing", "InstanceDeleted")
    waits = plane.instance(pool_id, flavorId=gpu)
    assert waits["stateReason"] == "NoCapacity", "the node has not torn it down"
    plane.report(node_id)
    plane.until_state(made["reservationId"], "released", "releasing")
    assert placed(plane, waits["id"])["nodeId"] == node_id


def test_deleting_one_that_waits_ends_it_and_its_reservation_at_once(plane: Plane, database: str) -> None:
    pool_id, _ = plane.hosts(nodes=0)
    made = plane.instance(pool_id)
    gone = act(plane, made["id"], "delete")
    assert (gone["state"], gone["endedAt"] is None) == ("deleted", False)
    under = plane.store.load(made["reservationId"]).state
    assert (under.status, under.reason, under.instance_id) == ("cancelled", "InstanceDeleted", None)
    assert act(plane, made["id"], "delete") == gone
    final = plane.acme.post(f"/v1/instances/{made['id']}/start")
    assert (final.status_code, final.json()["allowed"]) == (409, ["delete"])
    plane.wired.worker.stop()
    plane.settle()
    assert differences(database) == []


def test_one_that_failed_for_good_takes_delete_alone(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    made = runs(plane, plane.instance(pool_id)["id"])
    told(plane, made["id"], instance.Failed("NodeLost", plane.store.now()))
    answer = plane.acme.post(f"/v1/instances/{made['id']}/start")
    assert (answer.status_code, answer.json()["allowed"]) == (409, ["delete"])
    assert act(plane, made["id"], "delete")["state"] == "deleted"


def test_user_data_stays_outside_the_log_and_keys_lose_their_comments(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    content = b"#cloud-config\npassword: hunter2\n"
    made = plane.instance(
        pool_id, userData=base64.b64encode(content).decode(), sshKeys=[f"{ED25519} alice@laptop", ED25519]
    )
    assert made["userDataSha256"] == hashlib.sha256(content).hexdigest()
    assert made["sshKeys"] == [ED25519]
    assert plane.wired.user_data.get(made["id"], made["userDataSha256"]) == content
    plane.wired.user_data.put(made["id"], b"of a rival under the same key")
    assert plane.wired.user_data.get(made["id"], made["userDataSha256"]) == content
    plane.wired.user_data.drop(made["id"])
    assert plane.wired.user_data.get(made["id"], made["userDataSha256"]) is None
    plane.wired.user_data.put(made["id"], content)
    stored = plane.rows("SELECT state FROM stored_events")
    assert not any(b"hunter2" in bytes(state) or b"alice@laptop" in bytes(state) for (state,) in stored)
    (sealed,) = plane.rows("SELECT sealed FROM instance_user_data")
    assert content not in bytes(sealed[0])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "Web"}, "name"),
        ({"name": "../../etc"}, "name"),
        ({"kind": "unikernel"}, "kind"),
        ({"userData": "not base64!"}, "userData"),
        ({"userData": base64.b64encode(bytes(65_537)).decode()}, "userData"),
        ({"sshKeys": ["ssh-ed25519 AAAA"]}, "sshKeys[0]"),
        ({"sshKeys": [ED25519, f"{ED25519}\n{ED25519}"]}, "sshKeys[1]"),
        ({"sshKeys": [f'command="rm -rf /" {ED25519}']}, "sshKeys[0]"),
        ({"flavorId": "flv_1"}, "flavorId"),
        ({"flavorId": "nonsense"}, "flavorId"),
        ({"imageId": "img_1"}, "imageId"),
        ({"reservationId": "rsv_1"}, "reservationId"),
        ({"maxPendingSeconds": 10**9}, "maxPendingSeconds"),
        ({"maxPendingSeconds": 86_401}, "maxPendingSeconds"),
        ({"onNodeLoss": "ignore"}, "onNodeLoss"),
    ],
)
def test_what_cannot_be_is_refused_by_name(plane: Plane, fields: dict[str, Any], field: str) -> None:
    pool_id, _ = plane.hosts(nodes=0)
    flavor_id, image_id = plane.flavor(), plane.image()
    body = {"name": "web", "poolId": pool_id, "flavorId": flavor_id, "imageId": image_id} | fields
    answer = plane.acme.post("/v1/instances", body, Idempotency_Key=fresh())
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field), answer.text
    assert plane.rows("SELECT 1 FROM instance_user_data") == []


def test_pools_without_instances_and_what_they_do_not_sell_are_refused(plane: Plane) -> None:
    metal, _ = plane.fleet()
    flavor_id, image_id = plane.flavor(), plane.image()
    answer = plane.acme.launch(metal, flavor_id, image_id)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "poolId")
    pool_id, _ = plane.hosts(nodes=0)
    slices = plane.flavor(gpus={"class": "gpu.mig", "count": 1})
    answer = plane.acme.launch(pool_id, slices, image_id)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "flavorId")


def test_lists_filter_by_what_an_operator_asks_for(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    project_id, image_id = plane.project(), plane.image()
    first = placed(plane, plane.instance(pool_id, projectId=project_id)["id"])
    second = placed(plane, plane.instance(pool_id, imageId=image_id)["id"])
    gone = plane.instance(pool_id)["id"]
    placed(plane, gone)
    act(plane, gone, "delete")
    position = plane.settle()

    def ids(query: str, by: Any = plane.acme) -> set[str]:
        return {row["id"] for row in by.ok("GET", f"/v1/instances?{query}")["items"]}

    assert ids("") == {first["id"], second["id"], gone}
    assert ids("state=provisioning") == {first["id"], second["id"]}
    assert ids("state=deleting") == {gone}
    assert ids(f"projectId={project_id}") == {first["id"]}
    assert ids(f"imageId={image_id}") == {second["id"]}
    assert ids(f"nodeId={node_id}") == {first["id"], second["id"], gone}
    assert ids(f"poolId={pool_id}&state=draft") == set()
    assert ids("", plane.globex) == ids("", plane.root) == set()
    assert ids(f"scope=fleet&nodeId={node_id}", plane.root) == {first["id"], second["id"], gone}
    assert ids("", plane.acme_user) == set(), "a plain user sees its own"
    then = plane.store.history(second["id"])[-1].position - 1
    assert second["id"] not in ids(f"asOf=@{then}&state=provisioning")
    assert ids(f"asOf=@{position}&state=provisioning") == {first["id"], second["id"]}
    assert plane.acme.ok("GET", f"/v1/instances/{second['id']}?asOf=@{then}")["state"] == "pending"
    assert plane.globex.get(f"/v1/instances/{second['id']}").status_code == 404
    assert plane.acme_user.get(f"/v1/instances/{second['id']}").status_code == 403


def test_metrics_count_those_that_are_not_over_by_state(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    runs(plane, plane.instance(pool_id)["id"])
    placed(plane, plane.instance(pool_id)["id"])
    gone = plane.instance(pool_id)["id"]
    placed(plane, gone)
    told(plane, gone, instance.Deleting("Deleted", 1, True), instance.Deleted("Deleted", 2))
    plane.settle()
    plane.wired.instance_counts.run()
    text = plane.app.get("/metrics").text
    found = dict(re.findall(r'^better_compute_instances{state="(\w+)"} (\S+)$', text, re.MULTILINE))
    assert {state: float(count) for state, count in found.items() if float(count)} == {"running": 1, "provisioning": 1}
    assert {"pending", "failed", "unknown"} <= set(found)


def test_ssh_keys_of_every_kind_are_known() -> None:
    def key(type_: str) -> str:
        raw = len(type_).to_bytes(4, "big") + type_.encode() + bytes(40)
        return f"{type_} {base64.b64encode(raw).decode()}"

    for type_ in ssh_key._TYPES:
        assert ssh_key.kept(f"{key(type_)} me@home  x", "sshKeys[0]") == key(type_)
