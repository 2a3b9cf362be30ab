"""What becomes of an instance once a node has it: what the node says, how it ends, who is silent (domain.md §6, §8)."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from adapters.instances_worker import InstancesWorker
from adapters.worker import Worker
from commands import agents, instance_consoles, status_batches
from commands.controllers import instances as controller
from commands.ports import Store
from domain import errors, instance, node, reservation
from domain.node_spec import InstanceStatus
from given import DEADLINE_S, Plane
from silence import Watched

Said = dict[str, InstanceStatus]
Report = Callable[[Store, str, Said | None], None]


def _alone(store: Store, node_id: str, said: Said | None) -> None:
    state: node.State = store.load(node_id).state
    agents.report_status(store, node_id, state.session, *_word(state, said))


def _together(store: Store, node_id: str, said: Said | None) -> None:
    state: node.State = store.load(node_id).state
    faults = status_batches.report_statuses(store, [status_batches.Report(node_id, state.session, *_word(state, said))])
    assert faults == [None]


def _word(state: node.State, said: Said | None) -> tuple[int, Any, Said]:
    """All that the NodeSpec says is prepared; without `said` every instance runs."""
    running = {one.id: InstanceStatus("running") for one in state.instances}
    return state.generation, {a.id: "prepared" for a in state.allocations}, running if said is None else said


@pytest.fixture(params=[_alone, _together])
def report(request: pytest.FixtureRequest) -> Any:
    return request.param


def shown(plane: Plane, instance_id: str) -> Any:
    return plane.acme.ok("GET", f"/v1/instances/{instance_id}")


def until(plane: Plane, instance_id: str, *states: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while plane.store.load(instance_id).state.status not in states:
        assert time.monotonic() < deadline, plane.store.load(instance_id).state
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    return shown(plane, instance_id)


def placed(plane: Plane, **fields: Any) -> tuple[Any, str]:
    pool_id, (node_id,) = plane.hosts()
    made = plane.instance(pool_id, **fields)
    return until(plane, made["id"], "provisioning"), node_id


def on_reservation(plane: Plane, **fields: Any) -> tuple[Any, str]:
    """An instance on a reservation that its tenant made before."""
    pool_id, (node_id,) = plane.hosts()
    body = {"binding": "instance", "devices": [{"class": "gpu", "count": 0}]}
    made = plane.acme.reserve(pool_id, **body | {"scalars": {"vcpu": 2, "memoryMiB": 4096}} | fields)
    assert made.status_code == 201, made.text
    of = plane.instance(pool_id, reservationId=made.json()["id"])
    return until(plane, of["id"], "provisioning"), node_id


def under(plane: Plane, of: Any) -> reservation.State:
    state: reservation.State = plane.store.load(of["reservationId"]).state
    return state


def stranger(plane: Plane) -> str:
    """A node that has nothing to do with the instance."""
    site_id = plane.site("south")
    return plane.node(site_id, plane.pool(site_id, "other"), "n9")


def kinds(plane: Plane, stream: str) -> list[str]:
    return [type(event).__name__ for event in plane.events(stream)]


def test_a_nodes_word_is_news_once(plane: Plane, report: Report) -> None:
    made, node_id = placed(plane)
    report(plane.store, node_id, {})
    assert shown(plane, made["id"])["state"] == "provisioning", "not begun yet is nothing new"
    assert under(plane, made).status == "active"
    report(plane.store, node_id, {made["id"]: InstanceStatus("provisioning", "Fetching", "1 of 9 MiB")})
    report(plane.store, node_id, {made["id"]: InstanceStatus("provisioning", "Fetching", "8 of 9 MiB")})
    report(plane.store, node_id, {made["id"]: InstanceStatus("running", addresses=("10.0.0.7",))})
    report(plane.store, node_id, {made["id"]: InstanceStatus("running", addresses=("10.0.0.7",))})
    now = shown(plane, made["id"])
    assert (now["state"], now["stateReason"], now["addresses"]) == ("running", None, ["10.0.0.7"])
    assert kinds(plane, made["id"]) == ["Drafted", "Admitted", "Placed", "Reported", "Reported"]


def test_who_spoke_and_who_was_admitted_are_told(plane: Plane, report: Report) -> None:
    made, node_id = placed(plane)
    report(plane.store, node_id, None)
    last = plane.store.history(made["id"])[-1]
    assert (last.meta.actor, last.meta.admission) == (f"agent:{node_id}", made["admissionId"])


def test_a_failure_says_why_and_the_reservation_goes_on(plane: Plane, report: Report) -> None:
    made, node_id = placed(plane)
    report(plane.store, node_id, {made["id"]: InstanceStatus("failed", "ImageCorrupt", "another digest")})
    now = shown(plane, made["id"])
    assert (now["state"], now["stateReason"], now["stateDetail"]) == ("failed", "ImageCorrupt", "another digest")
    assert now["endedAt"] is None
    report(plane.store, node_id, None)
    assert shown(plane, made["id"])["state"] == "running"


def test_one_that_was_there_and_is_not_any_more_is_brought_again(plane: Plane, report: Report) -> None:
    made, node_id = placed(plane)
    report(plane.store, node_id, None)
    report(plane.store, node_id, {})
    now = shown(plane, made["id"])
    assert (now["state"], now["stateReason"]) == ("provisioning", "NotThere")


def test_what_a_node_says_of_anothers_instance_or_in_an_old_session_changes_nothing(
    plane: Plane, report: Report
) -> None:
    made, node_id = placed(plane)
    version = plane.store.load(made["id"]).version
    other = stranger(plane)
    report(plane.store, other, {made["id"]: InstanceStatus("running"), "inst_unknown": InstanceStatus("running")})
    session = plane.store.load(node_id).state.session
    agents.open_session(plane.store, node_id)
    state = plane.store.load(node_id).state
    with pytest.raises(errors.Fenced):
        agents.report_status(plane.store, node_id, session, *_word(state, None))
    assert plane.store.load(made["id"]).version == version


def test_a_word_from_before_it_was_placed_does_not_count(plane: Plane, report: Report) -> None:
    made, node_id = placed(plane)
    state: node.State = plane.store.load(node_id).state
    said = {made["id"]: InstanceStatus("running")}
    agents.report_status(plane.store, node_id, state.session, state.generation - 1, {}, said)
    assert shown(plane, made["id"])["state"] == "provisioning"


def test_a_delete_frees_its_atoms_when_its_node_says_so_and_drops_user_data_and_console(
    plane: Plane, report: Report
) -> None:
    made, node_id = placed(plane, userData="aGk=")
    report(plane.store, node_id, None)
    written(plane, node_id, made["id"], "booting")
    plane.acme.ok("POST", f"/v1/instances/{made['id']}/delete", {})
    state: node.State = plane.store.load(node_id).state
    assert (state.instances, state.allocations) == ((), ())
    allocation = made["allocationId"]
    agents.report_status(
        plane.store,
        node_id,
        state.session,
        state.generation,
        {allocation: "prepared"},
        {made["id"]: InstanceStatus("stopping")},
    )
    plane.settle()
    assert shown(plane, made["id"])["state"] == "deleting"
    assert plane.rows("SELECT 1 FROM device_bookings WHERE NOT freed"), "its node still has it"
    report(plane.store, node_id, {})
    now = until(plane, made["id"], "deleted")
    assert (now["desiredState"], now["stateReason"]) == ("deleted", "InstanceDeleted")
    assert under(plane, made).status == "released"
    gone(plane, "instance_user_data", "instance_consoles")
    assert under(plane, made).instance_id is None
    assert plane.rows("SELECT 1 FROM device_bookings WHERE NOT freed") == []


def gone(plane: Plane, *tables: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while any(plane.rows(f"SELECT 1 FROM {table}") for table in tables):
        assert time.monotonic() < deadline
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)


def written(plane: Plane, node_id: str, instance_id: str, text: str, total: int = 7) -> Any:
    session = plane.store.load(node_id).state.session
    said = instance_consoles.Written(node_id, session, (instance_consoles.Tail(instance_id, total, text),))
    return instance_consoles.keep(plane.store, plane.wired.consoles, [said])


def test_a_deleted_instance_leaves_the_reservation_that_was_there_before(plane: Plane, report: Report) -> None:
    made, node_id = on_reservation(plane)
    report(plane.store, node_id, None)
    plane.acme.ok("POST", f"/v1/instances/{made['id']}/delete", {})
    still = {made["id"]: InstanceStatus("stopping")}
    report(plane.store, node_id, still)
    assert shown(plane, made["id"])["state"] == "deleting"
    report(plane.store, node_id, {})
    assert shown(plane, made["id"])["state"] == "deleted"
    assert (under(plane, made).status, under(plane, made).instance_id) == ("active", None)
    again = plane.instance(made["poolId"], reservationId=made["reservationId"])
    assert until(plane, again["id"], "provisioning")["nodeId"] == node_id


def test_it_ends_with_the_reservation_that_was_there_before(plane: Plane, report: Report) -> None:
    made, node_id = on_reservation(plane)
    report(plane.store, node_id, None)
    plane.acme.ok("POST", f"/v1/reservations/{made['reservationId']}/release", {})
    assert (shown(plane, made["id"])["state"], shown(plane, made["id"])["stateReason"]) == ("deleting", "Released")
    report(plane.store, node_id, {})
    now = until(plane, made["id"], "deleted")
    assert now["stateReason"] == "Released"
    assert under(plane, made).instance_id is None


def test_one_that_waits_ends_with_the_reservation_that_was_there_before(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    later = {"startsAt": plane.store.now() + 3_600_000}
    body = {"binding": "instance", "devices": [{"class": "gpu", "count": 0}]}
    before = plane.acme.reserve(pool_id, **body, **later, scalars={"vcpu": 2, "memoryMiB": 4096}).json()
    made = plane.instance(pool_id, reservationId=before["id"])
    plane.acme.ok("POST", f"/v1/reservations/{before['id']}/cancel", {})
    assert until(plane, made["id"], "deleted")["stateReason"] == "Cancelled"


def test_an_evicted_instance_has_failed_and_its_node_takes_it_away(plane: Plane, report: Report) -> None:
    made, node_id = placed(plane, userData="aGk=")
    report(plane.store, node_id, None)
    written(plane, node_id, made["id"], "last words")
    body = {"reservationId": made["reservationId"], "reason": "maintenance"}
    plane.root.ok("POST", f"/v1/pools/{made['poolId']}/evict", body)
    assert shown(plane, made["id"])["state"] == "deleting"
    report(plane.store, node_id, {})
    now = until(plane, made["id"], "failed")
    assert (now["stateReason"], now["desiredState"], now["endedAt"] is None) == ("Evicted", "running", False)
    gone(plane, "instance_user_data")
    assert plane.rows("SELECT tail FROM instance_consoles") == [("last words",)]
    plane.acme.ok("POST", f"/v1/instances/{made['id']}/delete", {})
    plane.settle()
    plane.wired.instances.stop()
    worker = InstancesWorker(
        plane.store, controller.Kept(plane.wired.user_data, plane.wired.consoles), plane.wired.reads, "me", Hours()
    )
    worker.tick()
    assert plane.rows("SELECT 1 FROM instance_consoles") == []


class Hours:
    """An hour passes whenever somebody looks."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 3600
        return self.now


def test_one_that_is_not_prepared_in_time_has_failed(plane: Plane) -> None:
    pool_id, (node_id,) = plane.hosts()
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": {"bindTimeout": 1}})
    made = plane.instance(pool_id)
    now = until(plane, made["id"], "failed")
    assert (now["stateReason"], now["ownsReservation"]) == ("BindTimeout", True)
    assert plane.store.load(node_id).state.instances == ()


def test_one_that_finds_no_place_in_time_has_failed(plane: Plane) -> None:
    pool_id, _ = plane.hosts(gpus=1)
    big = plane.flavor(gpus={"class": "gpu", "count": 1})
    plane.instance(pool_id, flavorId=big)
    late = plane.instance(pool_id, flavorId=big, maxPendingSeconds=1)
    now = until(plane, late["id"], "failed")
    assert (now["stateReason"], now["nodeId"]) == ("NoCapacity", None)


def test_nobody_knows_of_a_silent_node_and_its_next_word_ends_that(plane: Plane, report: Report) -> None:
    made, node_id = placed(plane)
    report(plane.store, node_id, None)
    watched = Watched(plane)
    watched.silence(node_id)
    now = until(plane, made["id"], "unknown")
    assert (now["state"], now["stateReason"], now["nodeId"]) == ("unknown", "NodeUnreachable", node_id)
    version = plane.store.load(made["id"]).version
    agents.open_session(plane.store, node_id)
    report(plane.store, node_id, None)
    assert shown(plane, made["id"])["state"] == "running"
    assert plane.store.load(made["id"]).version == version + 1
    assert kinds(plane, made["id"]).count("Unheard") == 1


def test_a_lost_node_fails_what_runs_there(plane: Plane, report: Report) -> None:
    made, node_id = placed(plane)
    report(plane.store, node_id, None)
    watched = Watched(plane)
    watched.silence(node_id)
    watched.wait(302)
    now = until(plane, made["id"], "failed")
    assert now["stateReason"] == "NodeLost"
    assert plane.rows("SELECT upper_inf(during) FROM device_bookings WHERE node_id = %s", node_id) == [(True,)]
    agents.open_session(plane.store, node_id)
    report(plane.store, node_id, {})
    assert plane.rows("SELECT 1 FROM device_bookings WHERE NOT freed") == []


def test_one_that_is_to_be_replaced_runs_on_another_node_when_its_own_is_lost(plane: Plane, report: Report) -> None:
    pool_id, nodes = plane.hosts(nodes=2)
    made = plane.instance(pool_id, onNodeLoss="replace", userData="aGk=")
    first = until(plane, made["id"], "provisioning")["nodeId"]
    (other,) = {*nodes} - {first}
    report(plane.store, first, {made["id"]: InstanceStatus("running", addresses=("10.0.0.7",))})
    watched = Watched(plane)
    watched.silence(first)
    watched.wait(302)
    now = until(plane, made["id"], "provisioning")
    assert (now["nodeId"], now["addresses"], now["reservationId"]) == (other, [], made["reservationId"])
    assert {"Displaced", "Placed"} <= set(kinds(plane, made["id"]))
    (spec,) = plane.store.load(other).state.instances
    assert (spec.id, spec.allocation_id) == (made["id"], now["allocationId"])
    report(plane.store, other, None)
    assert shown(plane, made["id"])["state"] == "running"
    assert (under(plane, made).status, under(plane, made).degraded) == ("active", None)

    agents.open_session(plane.store, first)
    assert plane.store.load(first).state.instances == ()
    report(plane.store, first, {made["id"]: InstanceStatus("running", addresses=("10.0.0.7",))})
    assert shown(plane, made["id"])["addresses"] == [], "what its former node says does not count"
    report(plane.store, first, {})
    assert len(plane.rows("SELECT 1 FROM device_bookings WHERE NOT freed")) == 1
    assert len(plane.rows("SELECT 1 FROM instance_user_data")) == 1


def test_one_that_waits_for_another_node_is_deleted_when_the_lost_one_is_proved_off(
    plane: Plane, report: Report
) -> None:
    pool_id, (node_id,) = plane.hosts()
    made = plane.instance(pool_id, onNodeLoss="replace")
    until(plane, made["id"], "provisioning")
    report(plane.store, node_id, None)
    watched = Watched(plane)
    watched.silence(node_id)
    watched.wait(302)
    now = until(plane, made["id"], "pending")
    assert (now["stateReason"], now["nodeId"]) == ("NodeLost", None)
    plane.acme.ok("POST", f"/v1/instances/{made['id']}/delete", {})
    assert shown(plane, made["id"])["state"] == "deleting"
    plane.root.ok("POST", f"/v1/nodes/{node_id}/fence", {"reason": "unplugged"})
    assert until(plane, made["id"], "deleted")["stateReason"] == "InstanceDeleted"
    assert plane.rows("SELECT 1 FROM device_bookings WHERE NOT freed") == []


def test_many_nodes_are_heard_in_a_handful_of_queries(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query per instance would be a thousand of them at a thousand nodes."""
    counts = {}
    for nodes in (2, 8):
        site_id = plane.site(f"s{nodes}")
        pool_id = plane.pool(site_id, f"p{nodes}", **{"class": "vps-host"})
        plane.offer(pool_id, quota={"gpu": 8, "vcpu": 1000, "memoryMiB": 1_000_000})
        ids = [plane.node(site_id, pool_id, f"v{nodes}-{n}", gpus=1) for n in range(nodes)]
        big = plane.flavor(gpus={"class": "gpu", "count": 1})
        made = [plane.instance(pool_id, flavorId=big) for _ in ids]
        for one in made:
            until(plane, one["id"], "provisioning")
        reports = [
            status_batches.Report(id, state.session, *_word(state, None))
            for id in ids
            for state in [plane.store.load(id).state]
        ]
        counting = Counting(plane.store)
        assert status_batches.report_statuses(counting, reports) == [None] * nodes  # type: ignore[arg-type]
        counts[nodes] = sorted(counting.calls)
        assert [shown(plane, one["id"])["state"] for one in made] == ["running"] * nodes
    assert counts[2] == counts[8]


def test_what_begins_at_once_begins_in_one_append(plane: Plane) -> None:
    pool_id, nodes = plane.hosts(nodes=2)
    plane.wired.worker.stop()
    made = [plane.instance(pool_id) for _ in range(4)]
    plane.settle()
    worker = Worker(plane.wired.ports, plane.wired.reads, plane.wired.calendars, "me")
    deadline = time.monotonic() + DEADLINE_S
    while not worker.tick():
        assert time.monotonic() < deadline
    plane.settle()
    appends = {_began(plane, one["reservationId"]).part.append for one in made}
    assert len(appends) == 1
    assert [shown(plane, one["id"])["state"] for one in made] == ["provisioning"] * 4
    assert sum(len(plane.store.load(id).state.instances) for id in nodes) == 4
    metas = {_began(plane, one["reservationId"]).meta.admission for one in made}
    assert metas == {one["admissionId"] for one in made}, "each is told of whoever was admitted"


def _began(plane: Plane, reservation_id: str) -> Any:
    (found,) = [one for one in plane.store.history(reservation_id) if isinstance(one.event, reservation.BindingStarted)]
    return found


class Counting:
    """Which questions a store is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._store, name)


def consoles(plane: Plane) -> Sequence[Any]:
    return plane.rows("SELECT instance_id, tenant_id, total_bytes, tail FROM instance_consoles")


def test_a_console_is_kept_of_what_a_node_has_alone(plane: Plane) -> None:
    made, node_id = placed(plane)
    other = stranger(plane)
    assert written(plane, other, made["id"], "not mine") == [None]
    assert written(plane, node_id, "inst_unknown", "nobody's") == [None]
    assert consoles(plane) == []
    empty = plane.acme.ok("GET", f"/v1/instances/{made['id']}/console")
    assert empty == {"instanceId": made["id"], "totalBytes": 0, "tail": "", "writtenAt": None}
    written(plane, node_id, made["id"], "one")
    written(plane, node_id, made["id"], "one\0two\n", 9)
    assert consoles(plane) == [(made["id"], "acme", 9, "onetwo\n")]
    shows = plane.acme.ok("GET", f"/v1/instances/{made['id']}/console")
    assert (shows["instanceId"], shows["totalBytes"], shows["tail"]) == (made["id"], 9, "onetwo\n")
    assert plane.root.get(f"/v1/instances/{made['id']}/console").status_code == 404
    old = plane.store.load(node_id).state.session
    agents.open_session(plane.store, node_id)
    said = instance_consoles.Written(node_id, old, (instance_consoles.Tail(made["id"], 99, "late"),))
    (fault,) = instance_consoles.keep(plane.store, plane.wired.consoles, [said])
    assert isinstance(fault, errors.Fenced)
    assert consoles(plane)[0][2] == 9


def test_user_data_of_what_was_never_made_goes_and_of_what_lives_stays(plane: Plane) -> None:
    made, _ = placed(plane, userData="aGk=")
    plane.wired.user_data.put("inst_never", b"x")
    plane.settle()
    kept = controller.Kept(plane.wired.user_data, plane.wired.consoles)
    plane.wired.instances.stop()
    worker = InstancesWorker(plane.store, kept, plane.wired.reads, "me", Hours())
    worker.tick()
    assert len(plane.rows("SELECT 1 FROM instance_user_data")) == 2, "its create may be under way"
    plane.rows("UPDATE instance_user_data SET kept_at = 0 RETURNING 1")
    worker.tick()
    assert plane.rows("SELECT instance_id FROM instance_user_data") == [(made["id"],)]


def test_an_instance_of_before_is_told_by_its_last_event(plane: Plane, report: Report) -> None:
    """A stop while its node is silent is kept, and told when the node is back."""
    made, node_id = placed(plane)
    report(plane.store, node_id, None)
    plane.acme.ok("POST", f"/v1/instances/{made['id']}/stop", {})
    wants = plane.root.ok("GET", f"/v1/nodes/{node_id}/spec")["instances"]
    assert [(one["id"], one["desired"]) for one in wants] == [(made["id"], "stopped")]
    report(plane.store, node_id, {made["id"]: InstanceStatus("stopped")})
    assert shown(plane, made["id"])["state"] == "stopped"
    assert isinstance(plane.events(made["id"])[-1], instance.Reported)
