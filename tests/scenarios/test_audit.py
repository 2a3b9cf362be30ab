"""Every event says who and under which decision; every no is on record."""

from domain import admission
from given import Plane


def test_every_allowed_mutation_leaves_one_admission_and_what_follows_names_it(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    answer = plane.acme.reserve(pool_id)
    made, request_id = answer.json(), answer.headers["x-request-id"]
    plane.activate(plane.acme, made["id"])
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    plane.report(node_id)
    story = plane.acme.ok("GET", f"/v1/audit/streams/{made['id']}")
    assert [i["type"].split(".")[1] for i in story["items"]] == [
        *("drafted", "admitted", "placed", "binding_started", "prepared", "activated", "ending"),
        *("release_started", "torn_down", "released"),
    ]
    names = [(i["actor"], i["decision"]["action"]) for i in story["items"]]
    create, release = "compute:reservations:create", "compute:reservations:release"
    me, agent = "identity:acme/acme", f"agent:{node_id}"
    assert names[:3] == [(me, create)] * 3
    assert names[3:7] == [("controller:timekeeper", create), *[(agent, create)] * 3]
    assert names[7:] == [(me, release), (agent, create), (agent, create)]
    first = story["items"][0]
    assert first["decision"]["requestId"] == first["correlation"] == request_id
    assert first["decision"]["policyDigest"] == plane.wired.authorizer.digest
    record = plane.store.load(first["admissionId"]).state.recorded
    assert record.decided[0].attributes["gpuCount"] == 1
    assert record.caller.identity_id == "acme"
    spec = [i for i in plane.root.ok("GET", f"/v1/audit/streams/{node_id}")["items"] if "spec_changed" in i["type"]]
    assert spec[0]["admissionId"] == first["admissionId"]


def test_no_event_but_those_of_the_start_is_without_an_admission(plane: Plane) -> None:
    pool_id, (node_id,) = plane.fleet()
    plane.acme.reserve(pool_id)
    plane.root.ok("POST", f"/v1/nodes/{node_id}/cordon", {"reason": "fan"})
    plane.globex.get(f"/v1/nodes/{node_id}")
    streams = [id for (id,) in plane.rows("SELECT DISTINCT originator_id FROM stored_events")]
    for stream in streams:
        for recorded in plane.store.history(stream):
            alone = stream.startswith("tenant:") or stream == "access" or isinstance(recorded.event, admission.Refused)
            assert (recorded.meta.admission is None) is alone, (stream, recorded)


def test_a_stream_is_told_to_its_tenant_and_to_the_platforms_auditor(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    path = f"/v1/audit/streams/{made['id']}"
    assert plane.acme.get(path).status_code == 200
    assert plane.globex.get(path).status_code == 404
    assert plane.auditor.get(path).status_code == 404, "its own tenant has no such thing"
    assert plane.auditor.get(f"{path}?scope=fleet").status_code == 200
    assert plane.acme.get(f"{path}?scope=fleet").status_code == 403
    assert plane.operator.get(f"{path}?scope=fleet").status_code == 403
    assert plane.acme_user.get(path).status_code == 403
    for id in ("nonsense", "tenant", "rsv_", "poff_x", "access"):
        assert plane.acme.get(f"/v1/audit/streams/{id}").status_code in (404, 422)
    assert plane.acme.get(f"{path}?scope=world").status_code == 422


def test_a_stranger_gets_not_found_and_the_audit_shows_it(plane: Plane) -> None:
    """O42: with full rights at home, a tenant has none abroad."""
    pool_id, (node_id,) = plane.fleet()
    made = plane.acme.reserve(pool_id).json()
    head = plane.head()
    wanted = [
        ("GET", f"/v1/reservations/{made['id']}"),
        ("GET", f"/v1/pools/{pool_id}"),
        ("GET", f"/v1/nodes/{node_id}"),
    ]
    wanted += [("POST", f"/v1/reservations/{made['id']}/{verb}") for verb in ("cancel", "release")]
    wanted += [("POST", f"/v1/nodes/{node_id}/{verb}") for verb in ("adopt", "retire", "uncordon")]
    for verb, path in wanted:
        answer = plane.globex.call(verb, path, None if verb == "GET" else {})
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path
        assert made["tenantId"] not in answer.json()["detail"]
    refused = plane.refusals(head)
    assert [(r.caller.tenant_id, r.reason) for r in refused] == [("globex", "NotResolved")] * len(wanted)
    assert plane.acme.ok("GET", f"/v1/reservations/{made['id']}")["version"] >= made["version"]
    named = {r.resource for r in refused}
    assert named == {f"compute-reservation/{made['id']}", f"compute-pool/{pool_id}", f"compute-node/{node_id}"}


def test_a_refused_create_is_kept_as_denied_and_answers_the_same_again(plane: Plane) -> None:
    pool_id = plane.pool(plane.site())
    head = plane.head()
    first = plane.operator.reserve(pool_id, "no")
    assert (first.status_code, first.json()["code"]) == (403, "ACCESS_DENIED")
    again = plane.operator.reserve(pool_id, "no")
    assert again.status_code == 403
    assert again.json()["reservationId"] == first.json()["reservationId"]
    assert plane.store.load(first.json()["reservationId"]).state.status == "denied"
    assert [r.action for r in plane.refusals(head)] == ["compute:reservations:create"]


def test_beyond_sixty_a_minute_refusals_are_counted(plane: Plane) -> None:
    for _ in range(70):
        assert plane.acme.get("/v1/sites?scope=fleet").status_code == 403
    plane.wired.dispatcher.gatekeeper.count_refusals(plane.store.now() + 120_000)
    refused = [r for r in plane.refusals() if isinstance(r, admission.Refused)]
    counted = [r.count for r in plane.refusals() if isinstance(r, admission.RefusalsCounted)]
    assert len(refused) + sum(counted) == 70
    assert 60 <= len(refused) <= 70
